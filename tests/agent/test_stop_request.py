from __future__ import annotations

from pliant.agent.stop_request import StopRequest


def test_a_request_is_final_and_wakes_those_who_wait() -> None:
    woken: list[str] = []
    stop = StopRequest(10.0, lambda: woken.append("now"))
    assert not stop.is_requested
    stop.request(3.0)
    assert (stop.is_requested, stop.grace, stop.is_preempted) == (True, 3.0, False)
    stop.request(0.0)
    assert (stop.is_requested, stop.grace) == (True, 0.0)
    assert woken == ["now", "now"]


def test_a_preemption_is_a_request_too() -> None:
    stop = StopRequest(10.0, lambda: None)
    stop.preempt(5.0)
    assert (stop.is_requested, stop.is_preempted, stop.grace) == (True, True, 5.0)
