"""Which plan is next, what of it is left, and what is told of it."""

from __future__ import annotations

from typing import cast

from tests.operator.builders import NOW, deleted, job, observed, plan, pod, requesting

from pliant.operator.actions import DeletePlan, PatchPlan, RecordPlans
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
    unrecorded_plans,
)
from pliant.operator.plan_runner import PlanRunner
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.plans import PodToCreate

OWNER = job(status={"phase": "Running"})
TWO: list[Object] = [{"node": "worker-0", "role": "worker"}, {"node": "worker-1", "role": "worker"}]


def work(*plans: Object, pods: tuple[Object, ...] = (), progress: Progress | None = None, now: float = NOW) -> Work:
    found = next_work(observed(requesting(OWNER, *plans), plans=plans, pods=pods), progress, now)
    assert found is not None
    return found


def test_the_lowest_number_that_is_not_finished_is_next() -> None:
    plans = (plan(OWNER, 3), plan(OWNER, 2), plan(OWNER, 1, "Succeeded"))
    assert work(*plans).plan["spec"]["sequence"] == 2


def test_nothing_is_next_when_all_are_finished_or_none_is_this_jobs() -> None:
    stranger = plan(job(uid="job-0"), 1, create=TWO)
    plans = (plan(OWNER, 1, "Failed"), deleted(plan(OWNER, 2), 0))
    view = observed(requesting(OWNER, *plans), plans=(stranger, *plans))
    assert next_work(view, None, NOW) is None


def test_each_request_of_the_master_becomes_a_plan_of_the_job_once() -> None:
    asked = requesting(OWNER, plan(OWNER, 3, create=TWO), plan(OWNER, 11), plan(OWNER, 2), recorded=2)
    [action] = unrecorded_plans(observed(asked))
    assert isinstance(action, RecordPlans)
    assert (action.recorded, [made["metadata"]["name"] for made in action.plans]) == (
        11,
        ["digits-plan-3", "digits-plan-11"],
    )
    first = action.plans[0]
    assert (first["spec"]["create"], first["metadata"]["ownerReferences"][0]["uid"]) == (TWO, "job-1")
    assert unrecorded_plans(observed(requesting(OWNER, plan(OWNER, 3)))) == []
    assert unrecorded_plans(observed(None)) == []


def test_a_request_is_executed_only_once_it_is_recorded_as_made() -> None:
    made = plan(OWNER, 1, create=TWO)
    assert next_work(observed(requesting(OWNER, made, recorded=0), plans=(made,)), None, NOW) is None
    assert work(made).create


def test_what_is_executed_is_what_the_master_requested_and_not_what_its_plan_says() -> None:
    requested = requesting(OWNER, plan(OWNER, 1, create=TWO[:1]))
    changed = plan(OWNER, 1, create=[{"node": "worker-9", "role": "worker"}], remove=[{"node": "worker-0"}])
    found = next_work(observed(requested, plans=(changed,)), None, NOW)
    assert found is not None
    assert ([entry.node for entry in found.create], found.remove) == (["worker-0"], ())


def test_a_plan_with_copied_label_and_owner_is_refused_and_never_executed() -> None:
    copied = plan(OWNER, 7, create=TWO)
    for owner in (OWNER, requesting(OWNER, plan(OWNER, 6))):
        view = observed(owner, plans=(copied,))
        assert next_work(view, None, NOW) is None
        [answer], _ = answer_manual_plans(view, NOW)
        assert isinstance(answer, PatchPlan)
        assert (answer.patch["status"]["phase"], answer.status) == ("Refused", True)
        assert "did not request it" in answer.patch["status"]["message"]


def test_a_node_is_called_after_its_role_so_that_it_takes_no_other_jobs_name() -> None:
    runner = PlanRunner(cast(Executor, None))
    for node, accepted in (("worker-0", True), ("other-worker-0", False), ("master", False), ("worker-x", False)):
        problem = runner._rejection(PodToCreate(node=node, role="worker"), observed(OWNER), spec_of(OWNER))
        assert (problem is None) is accepted, node


def test_the_masters_answer_is_passed_on_to_a_persons_plan_of_this_very_job() -> None:
    for refusal, phase in (("", "Succeeded"), ("too many", "Refused")):
        mine = plan(OWNER, 0)
        mine["metadata"]["labels"] = {}
        answers = {"plan-0": {"refusal": refusal} if refusal else {}, "plan-of-another-job": {}}
        [answer], _ = answer_manual_plans(observed(job(status={"outbox": {"answers": answers}}), plans=(mine,)), NOW)
        assert isinstance(answer, PatchPlan)
        assert answer.patch["status"]["phase"] == phase
        assert refusal in answer.patch["status"]["message"]


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
    plans = (plan(OWNER, 1), plan(OWNER, 2))
    view = observed(requesting(OWNER, *plans), plans=plans)
    assert has_later_plan(view, view.plans[0])
    assert not has_later_plan(view, view.plans[1])
    assert not has_later_plan(observed(requesting(OWNER, plans[0]), plans=plans), plans[0]), (
        "a copied one counts for nothing"
    )


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
    own = plan(OWNER, 8, create=TWO)
    assert answer_manual_plans(observed(requesting(OWNER, own), plans=(own,)), NOW) == ([], None)
