"""What people want of a running job: only what they touched is changed, and each request is handled once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.core.changes import (
    Answer,
    AssignSeats,
    Change,
    ChangeRequest,
    DesiredJob,
    DesiredRole,
    DesiredState,
    MovePartitions,
    RequestSource,
    Resume,
    Scale,
    SetLimits,
    SetResources,
    Suspend,
    plan_request,
)
from pliant.core.errors import Conflict, InvalidRequest
from pliant.core.planning.plan import Replacement, ResourcePlan, RolePlan
from pliant.core.resources import Resources, RolloutMode

SMALL, LARGE = (Resources(cpu, 100) for cpu in (1.0, 2.0))


def desired(*, suspend: bool = False, **worker: Any) -> DesiredJob:
    role = {"min_replicas": 1, "max_replicas": 4, "replicas": 2, "resources": SMALL, **worker}
    return DesiredJob({"worker": DesiredRole(**role)}, suspend)


def edit(state: DesiredJob, **changes: Any) -> ChangeRequest:
    return ChangeRequest("generation-2", RequestSource.EDIT, desired=state, **changes)


def accept(book: DesiredState, request: ChangeRequest) -> None:
    answer = Answer(request.problem, version=book.version + 1)
    book.answered(0.0, request=request.id, answer=answer.to_json(), desired=book.desired_by(request).to_json())


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        (desired(), ()),
        (desired(replicas=3), (Scale("worker", 3),)),
        (desired(max_replicas=8, replicas=8), (SetLimits("worker", 1, 8), Scale("worker", 8))),
        (desired(resources=LARGE), (SetResources("worker", LARGE, RolloutMode.AUTO),)),
        (desired(suspend=True), (Suspend(),)),
    ],
)
def test_an_edit_asks_for_what_differs_from_the_one_before(edited: DesiredJob, changes: tuple[Change, ...]) -> None:
    book = DesiredState(desired())
    assert book.changes_of(edit(edited)) == changes
    accept(book, edit(edited))
    assert book.changes_of(edit(edited)) == ()


def test_a_suspended_job_is_resumed() -> None:
    assert DesiredState(desired(suspend=True)).changes_of(edit(desired())) == (Resume(),)


def test_a_plan_sets_resources_first_so_that_new_nodes_have_them() -> None:
    plan = ResourcePlan(
        "p1",
        "tuned",
        {"worker": RolePlan(3, LARGE)},
        (Replacement("worker-0"), Replacement("worker-1", SMALL)),
        base_version=7,
    )
    request = plan_request(plan)
    assert [str(change) for change in request.changes] == [
        "worker: 2 CPU, 100 MB for each new node",
        "worker: 3 nodes",
        "replace worker-0",
        "replace worker-1",
    ]
    assert [getattr(change, "resources", None) for change in request.changes] == [LARGE, None, LARGE, SMALL]
    assert (request.id, request.reason, request.base_version) == ("p1", "tuned", 7)
    assert request.source is RequestSource.GENERATOR


def test_a_plan_moves_partitions_last() -> None:
    plan = ResourcePlan("p1", "ps-0 is hot", {"ps": RolePlan(2)}, moves={"ps-0": 0.25})
    assert plan_request(plan).changes == (Scale("ps", 2), MovePartitions("ps-0", 0.25))


def test_a_plan_assigns_seats() -> None:
    plan = ResourcePlan("p1", "worker-1 is slow", seats={"worker-0": 5, "worker-1": 3})
    (change,) = plan_request(plan).changes
    assert change == AssignSeats({"worker-0": 5, "worker-1": 3})
    assert str(change) == "host virtual workers: 5 on worker-0, 3 on worker-1"
    assert str(AssignSeats({})) == "host virtual workers evenly"


def test_a_plan_for_other_micro_batches_is_refused_as_a_whole() -> None:
    request = plan_request(ResourcePlan("p1", "less memory", {"worker": RolePlan(3)}, micro_batch=16))
    with pytest.raises(InvalidRequest, match="micro-batch of a running job cannot be changed"):
        DesiredState(desired()).changes_of(request)


def test_a_request_that_cannot_be_used_is_refused_with_its_problem() -> None:
    request = ChangeRequest("p", RequestSource.SCALE_PLAN, problem="the plan is empty")
    with pytest.raises(InvalidRequest, match="the plan is empty"):
        DesiredState(desired()).changes_of(request)


def test_a_request_made_for_another_version_is_refused_not_merged() -> None:
    book = DesiredState(desired())
    request = ChangeRequest("p", RequestSource.GENERATOR, (Scale("worker", 3),), base_version=book.version)
    assert book.changes_of(request) == (Scale("worker", 3),)
    accept(book, edit(desired(replicas=4)))
    with pytest.raises(Conflict, match="version 1 of the job, but the job is at version 2"):
        book.changes_of(request)


def test_an_edit_that_cannot_be_used_suspends_the_job_and_changes_nothing_else() -> None:
    book = DesiredState(desired())
    broken = edit(DesiredJob(suspend=True), problem="min: 7 is more than max")
    assert book.changes_of(broken) == (Suspend(),)
    accept(book, broken)
    assert book.changes_of(edit(desired())) == (Resume(),), "the rest is as it was"


def test_what_the_master_wrote_down_itself_is_no_request_and_later_edits_are_compared_with_it() -> None:
    book = DesiredState(desired(replicas=2))
    own = edit(desired(replicas=1), by_master=True)
    assert book.changes_of(own) == ()
    accept(book, own)
    assert book.changes_of(edit(desired(replicas=2))) == (Scale("worker", 2),)


def test_an_answer_is_known_after_a_restart_with_why_it_was_a_refusal() -> None:
    book = DesiredState(desired())
    refused = Answer.refused(Conflict("the job is over", hint="start another"), version=1)
    book.answered(0.0, request="plan-1", answer=refused.to_json())
    restored = DesiredState(desired())
    restored.restore(json.loads(json.dumps(book.snapshot())))
    answer = restored.answer_to("plan-1")
    assert answer == refused
    with pytest.raises(Conflict, match="the job is over") as raised:
        answer.check()
    assert raised.value.hint == "start another"
    assert restored.answer_to("plan-2") is None
    assert restored.snapshot() == book.snapshot()
