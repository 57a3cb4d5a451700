"""Requests to assign virtual workers: by a plan or a person, refused as a whole with what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.core.change_resolver import apply_request, decide
from pliant.core.changes import AssignSeats, ChangeRequest, RequestSource, Scale, Stop, plan_request
from pliant.core.job_state import JobState
from pliant.core.planning.plan import ResourcePlan
from pliant.spec import JobSpec, initial_state

WORKERS = {"worker": {"command": ["train"], "replicas": {"min": 1, "max": 4, "wanted": 2}}}


def running(strategy: str = "allreduce", attrs: dict[str, str] | None = None) -> JobState:
    spec: dict[str, Any] = {"name": "digits", "roles": WORKERS}
    state = initial_state(JobSpec.from_dict({**spec, "strategy": strategy} if strategy else spec))
    assert state.nodes is not None
    state.nodes.start(0.0)
    if state.rendezvous is not None:
        state.rendezvous.expect(0.0, count=2)
        for name in ("worker-0", "worker-1"):
            given = {"virtual_workers": "8"} if attrs is None else attrs
            state.rendezvous.join(0.0, member=name, incarnation="0", attrs=given)
    return state


def request(*changes: Any) -> ChangeRequest:
    return ChangeRequest("r1", RequestSource.PERSON, changes)


def test_the_seats_of_a_plan_are_assigned() -> None:
    state = running()
    seats = {"worker-0": 6, "worker-1": 2}
    answer = apply_request(state, plan_request(ResourcePlan("p1", "worker-1 is slow", seats=seats)), 1.0)
    assert not answer.refusal
    assert answer.results == {"virtual_workers": 8.0, "worker-0.seats": 6.0, "worker-1.seats": 2.0}
    assert state.rendezvous is not None
    assert state.rendezvous.assigned_seats() == seats
    assert state.rendezvous.status(1).outdated


@pytest.mark.parametrize(
    ("strategy", "attrs", "seats", "message"),
    [
        ("", None, {"worker-0": 8}, "no virtual workers"),
        ("allreduce", {}, {"worker-0": 4, "worker-1": 4}, "no virtual workers"),
        ("allreduce", None, {"worker-0": 4, "worker-1": 5}, "the job has 8 virtual workers, but 9 were assigned"),
        ("allreduce", None, {"worker-0": 4, "worker-2": 4}, "worker-2 not in the present world of worker-0, worker-1"),
        ("allreduce", None, {"worker-0": 8}, "no virtual workers given for worker-1"),
        ("allreduce", None, {"worker-0": 8, "worker-1": 0}, "worker-1 would host no virtual worker"),
    ],
)
def test_a_request_that_cannot_be_met_says_why_and_has_no_effect(
    strategy: str, attrs: dict[str, str] | None, seats: dict[str, int], message: str
) -> None:
    state = running(strategy, attrs)
    before = {name: book for name, book in state.snapshot().state.items() if name != "changes"}
    answer = apply_request(state, request(Scale("worker", 3), AssignSeats(seats)), 1.0)
    assert message in answer.refusal
    assert answer.hint
    assert {name: book for name, book in state.snapshot().state.items() if name != "changes"} == before


def test_a_job_that_has_ended_is_assigned_nothing() -> None:
    state = running()
    apply_request(state, ChangeRequest("", RequestSource.PERSON, (Stop(),)), 1.0)
    answer = apply_request(state, request(AssignSeats({})), 2.0)
    assert "ended" in answer.refusal


def test_to_decide_touches_nothing() -> None:
    state = running()
    before = state.snapshot()
    assert decide(state, request(AssignSeats({"worker-0": 1, "worker-1": 7})), 1.0).has_effect
    assert state.snapshot() == before
