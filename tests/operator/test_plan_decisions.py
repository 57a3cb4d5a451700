"""Which plan is next, what of it is left, and what is told of it."""

from __future__ import annotations

from typing import cast

from tests.operator.builders import NOW, deleted, job, observed, plan, pod

from pliant.operator.actions import DeletePlan
from pliant.operator.executor import Executor
from pliant.operator.job_spec import spec_of
from pliant.operator.plan_decisions import (
    RETRY_TIMEOUT_S,
    Problem,
    Progress,
    Work,
    answer_manual_plans,
    has_later_plan,
    next_work,
    status_after_attempt,
    surplus_plans,
)
from pliant.operator.plan_runner import PlanRunner
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.plans import PodToCreate

OWNER = job(status={"phase": "Running"})
TWO: list[Object] = [{"node": "worker-0", "role": "worker"}, {"node": "worker-1", "role": "worker"}]


def work(*plans: Object, pods: tuple[Object, ...] = (), progress: Progress | None = None, now: float = NOW) -> Work:
    found = next_work(observed(OWNER, plans=plans, pods=pods), progress, {}, now)
    assert found is not None
    return found


def test_the_lowest_number_that_is_not_finished_is_next() -> None:
    plans = (plan(OWNER, 3), plan(OWNER, 2), plan(OWNER, 1, "Succeeded"))
    assert work(*plans).plan["spec"]["sequence"] == 2


def test_nothing_is_next_when_all_are_finished_or_none_is_this_jobs() -> None:
    stranger = plan(job(uid="job-0"), 1, create=TWO)
    view = observed(OWNER, plans=(stranger, plan(OWNER, 1, "Failed"), deleted(plan(OWNER, 2), 0)))
    assert next_work(view, None, {}, NOW) is None


def test_a_plan_whose_forerunner_is_not_known_waits_a_moment_for_it() -> None:
    first_seen: dict[str, float] = {}
    view = observed(OWNER, plans=(plan(OWNER, 7, create=TWO),))
    waiting = next_work(view, None, first_seen, NOW)
    assert waiting is not None
    assert waiting.wait > 0
    going = next_work(view, None, first_seen, NOW + 2)
    assert going is not None
    assert going.wait == 0
    assert len(going.create) == 2


def test_a_pod_that_is_there_is_not_created_again() -> None:
    left = work(plan(OWNER, 1, create=TWO), pods=(pod(OWNER, "worker-0"),))
    assert [entry.node for entry in left.create] == ["worker-1"]


def test_what_was_created_is_not_created_again_although_its_pod_is_gone() -> None:
    progress = Progress("plan-1", NOW, created={"worker-0"})
    assert [entry.node for entry in work(plan(OWNER, 1, create=TWO), progress=progress).create] == ["worker-1"]


def test_a_plan_without_trouble_succeeds() -> None:
    progress = Progress("plan-1", NOW, created={"worker-0", "worker-1"})
    status = status_after_attempt(work(plan(OWNER, 1, create=TWO)), progress, later=False, now=NOW + 1)
    assert (status["phase"], status["created"]) == ("Succeeded", 2)


def test_what_an_interrupted_operator_had_made_is_counted_by_the_next_and_the_beginning_stays() -> None:
    found = work(plan(OWNER, 1, create=TWO), pods=(pod(OWNER, "worker-0"),))
    progress = Progress("plan-1", NOW, "2023-11-14T22:10:00Z", created={"worker-1"})
    status = status_after_attempt(found, progress, later=False, now=NOW + 1)
    assert (status["phase"], status["created"], status["started"]) == ("Succeeded", 2, "2023-11-14T22:10:00Z")
    gone = work(plan(OWNER, 1, create=TWO), progress=progress)
    assert gone.create == (), "what was there and is gone is not made again"


def test_what_may_pass_is_tried_again_with_growing_pauses_and_told() -> None:
    progress = Progress("plan-1", NOW, problems={"worker-0": Problem("worker-0", "exceeded quota", is_transient=True)})
    first = work(plan(OWNER, 1, create=TWO))
    status = status_after_attempt(first, progress, later=False, now=NOW)
    assert status["phase"] == "Executing"
    assert "exceeded quota" in status["message"]
    pause = progress.not_before - NOW
    status_after_attempt(first, progress, later=False, now=progress.not_before)
    assert progress.not_before - NOW > 2 * pause
    assert work(plan(OWNER, 1, create=TWO), progress=progress).wait > 0


def test_the_waiting_ends_with_patience_or_with_a_later_plan() -> None:
    for later, now in ((True, NOW), (False, NOW + RETRY_TIMEOUT_S)):
        progress = Progress(
            "plan-1", NOW, problems={"worker-0": Problem("worker-0", "exceeded quota", is_transient=True)}
        )
        status = status_after_attempt(work(plan(OWNER, 1, create=TWO)), progress, later=later, now=now)
        assert status["phase"] == "Failed"
        assert status["refused"] == [{"node": "worker-0", "message": "exceeded quota", "passing": True}]
    view = observed(OWNER, plans=(plan(OWNER, 1), plan(OWNER, 2)))
    assert has_later_plan(view, view.plans[0])
    assert not has_later_plan(view, view.plans[1])


def test_a_plan_that_cannot_be_read_fails_and_does_not_block_the_next() -> None:
    broken = work(plan(OWNER, 1, create=[{"role": "worker"}]))
    assert broken.broken
    assert status_after_attempt(broken, Progress("plan-1", NOW), later=False, now=NOW)["phase"] == "Failed"


def test_nodes_that_share_a_folder_with_their_master_wait_for_it_where_each_master_has_its_own() -> None:
    options = {"shared_claim": "team"}
    for journal, waits in (("emptyDir", True), ("claim", False)):
        owner = job(platform={"kubernetes": {**options, "journal": {"volume": journal}}})
        runner, entry = PlanRunner(cast(Executor, None)), PodToCreate(node="worker-0", role="worker")
        problem = runner._rejection(entry, observed(owner), spec_of(owner))
        assert (problem is not None and problem.is_transient) is waits
        assert runner._rejection(entry, observed(owner, pods=(pod(owner),)), spec_of(owner)) is None


def test_the_newest_twenty_finished_plans_are_kept() -> None:
    plans = tuple(plan(OWNER, number, "Succeeded") for number in range(1, 24))
    assert surplus_plans(observed(OWNER, plans=plans)) == [
        DeletePlan(f"digits-plan-{number}", f"plan-{number}") for number in (1, 2, 3)
    ]


def test_a_persons_plan_is_refused_where_no_master_can_answer() -> None:
    mine = plan(OWNER, 0)
    mine["metadata"]["labels"] = {}
    over = job(status={"phase": "Succeeded"})
    [answer], _ = answer_manual_plans(observed(over, plans=(mine,)), NOW)
    assert "has ended" in str(answer)
    waiting, again = answer_manual_plans(observed(None, plans=(mine,)), NOW)
    assert waiting == []
    assert again is not None
    [answer], _ = answer_manual_plans(observed(None, plans=(mine,)), NOW + 60)
    assert "not found in namespace" in str(answer)
    assert answer_manual_plans(observed(OWNER, plans=(mine,)), NOW) == ([], None)


def test_a_plan_that_was_answered_before_it_had_an_owner_still_gets_one() -> None:
    mine = plan(OWNER, 0, "Refused")
    mine["metadata"] |= {"labels": {}, "ownerReferences": []}
    [action], _ = answer_manual_plans(observed(OWNER, plans=(mine,)), NOW)
    assert "ownerReferences" in str(action)
    assert answer_manual_plans(observed(None, plans=(mine,)), NOW) == ([], None)


def test_a_plan_that_only_says_that_a_master_made_it_is_refused() -> None:
    copied = plan(OWNER, 7, create=TWO)
    copied["metadata"]["ownerReferences"] = []
    [answer], _ = answer_manual_plans(observed(OWNER, plans=(copied,)), NOW)
    assert "remove the label" in str(answer)
    assert answer_manual_plans(observed(OWNER, plans=(plan(OWNER, 8, create=TWO),)), NOW) == ([], None)
