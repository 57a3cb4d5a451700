"""How much of the wanted workers' time they ran."""

from __future__ import annotations

from pliant.core.goodput import GoodputMeter
from pliant.core.status import RoleStatus


def workers(wanted: int, ready: int, succeeded: int = 0) -> list[RoleStatus]:
    return [RoleStatus("worker", 0, 10, wanted, ready=ready, succeeded=succeeded)]


def test_goodput_is_the_share_of_wanted_time_in_which_workers_ran() -> None:
    meter = GoodputMeter()
    meter.observe(0.0, workers(4, 4), is_paused=False)
    assert meter.percent is None, "nothing has passed yet"
    meter.observe(10.0, workers(4, 4), is_paused=False)
    assert meter.percent == 100.0
    meter.observe(20.0, workers(4, 2), is_paused=False)
    assert meter.percent == 75.0


def test_time_of_a_suspended_job_and_workers_that_are_done_do_not_count() -> None:
    meter = GoodputMeter()
    meter.observe(0.0, workers(2, 2), is_paused=False)
    meter.observe(50.0, workers(2, 0), is_paused=True)
    assert meter.percent is None
    meter.observe(60.0, workers(2, 1, succeeded=1), is_paused=False)
    assert meter.percent == 100.0


def test_more_workers_than_wanted_are_no_more_than_all() -> None:
    meter = GoodputMeter()
    meter.observe(0.0, workers(1, 3), is_paused=False)
    meter.observe(1.0, workers(1, 3), is_paused=False)
    assert meter.percent == 100.0
