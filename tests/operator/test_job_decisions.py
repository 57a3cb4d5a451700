"""What is done for a job, given what is there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operator.builders import NOW, claimed, deleted, ended, job, observed, plan, pod, requesting

from pliant.operator.actions import (
    Action,
    CreateMaster,
    DeletePlan,
    DeletePod,
    EmitEvent,
    ForceDeleteIfLost,
    PatchJob,
    PatchStatus,
)
from pliant.operator.job_decisions import Memory, decide
from pliant.operator.job_spec import spec_of
from pliant.operator.journal_volume import StorageClasses, choose_volume
from pliant.operator.observed import ObservedJob
from pliant.platforms.kubernetes.elastic_job_status import machines_of
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import LIFE_ANNOTATION
from pliant.platforms.kubernetes.timestamps import rfc3339


def done(view: ObservedJob, memory: Memory | None = None, now: float = NOW) -> list[Action]:
    return list(decide(view, memory or Memory(), now).actions)


def phase_written(actions: list[Action]) -> object:
    return next((action.patch.get("phase") for action in actions if isinstance(action, PatchStatus)), None)


def test_a_new_job_gets_a_master_and_is_creating() -> None:
    actions = done(observed(job()))
    assert CreateMaster() in actions
    assert phase_written(actions) == "Creating"


def test_wanted_replicas_are_filled_in_where_kubectl_scale_needs_them() -> None:
    actions = done(observed(job(roles={"worker": {"command": ["x"], "replicas": {"min": 1, "max": 3}}})))
    assert PatchJob({"spec": {"roles": {"worker": {"replicas": {"wanted": 3}}}}}) in actions
    assert not [action for action in done(observed(job())) if isinstance(action, PatchJob)]


def test_a_scale_beyond_the_maximum_leaves_the_spec_usable() -> None:
    roles = {"worker": {"command": ["x"], "replicas": {"min": 1, "max": 3, "wanted": 50}}}
    assert spec_of(job(roles=roles)).roles["worker"].replicas.target == 3


def test_once_the_master_serves_the_job_runs_and_nothing_is_left_to_do() -> None:
    owner = job()
    view = observed(owner, pods=(pod(owner),))
    actions = done(view)
    assert phase_written(actions) == "Running"
    for action in actions:
        if isinstance(action, PatchStatus):
            owner["status"] = dict(action.patch)
    assert done(view) == []


def test_what_the_master_told_is_not_overwritten() -> None:
    owner = job(status={"phase": "Running", "message": "epoch 3"})
    assert phase_written(done(observed(owner, pods=(pod(owner),)))) is None
    assert phase_written(done(observed(owner, pods=(pod(owner, ready=False),)))) is None


@pytest.mark.parametrize("spec", [{"strategy": "ps-sync"}, {"optimize": {"mode": "cluster"}}])
def test_an_invalid_spec_is_told_and_nothing_is_made(spec: dict[str, Any]) -> None:
    actions = done(observed(job(**spec)))
    assert phase_written(actions) == "Invalid"
    assert CreateMaster() not in actions
    assert [action for action in actions if isinstance(action, EmitEvent) and action.warning]


def test_a_spec_that_becomes_invalid_does_not_touch_the_running_job() -> None:
    owner = job(strategy="ps-sync", status={"phase": "Running"})
    actions = done(observed(owner, pods=(pod(owner), pod(owner, "worker-0"))))
    assert not [action for action in actions if isinstance(action, DeletePod | CreateMaster)]
    assert phase_written(actions) is None


def test_a_failed_master_pod_is_removed_and_the_next_waits_longer_each_time() -> None:
    owner = claimed(status={"phase": "Running"})
    [removal] = [a for a in done(observed(owner, pods=(ended(pod(owner), 1),))) if isinstance(a, DeletePod)]
    assert removal.replaces_master
    waiting = decide(observed(owner), Memory(master_not_before=NOW + 8), NOW)
    assert CreateMaster() not in waiting.actions
    assert waiting.requeue_after == 8.0


def test_a_master_with_a_claim_comes_back_to_its_nodes() -> None:
    owner = claimed(status={"phase": "Running"})
    actions = done(observed(owner, pods=(pod(owner, "worker-0"),), plans=(plan(owner, 1, "Succeeded"),)))
    assert CreateMaster() in actions
    assert not [action for action in actions if isinstance(action, DeletePod | DeletePlan)]


def test_a_master_that_lost_its_journal_begins_when_the_old_nodes_and_plans_are_gone() -> None:
    owner = job(status={"phase": "Running"})
    view = observed(owner, pods=(pod(owner, "worker-0"),), plans=(plan(owner, 1, "Succeeded"),))
    actions = done(view)
    assert CreateMaster() not in actions
    assert DeletePod("digits-worker-0", "uid-of-digits-worker-0", grace=0.0) in actions
    assert DeletePlan("digits-plan-1", "plan-1") in actions
    assert CreateMaster() in done(observed(owner))


def trained(datasets: list[str] | None, **status: Any) -> Object:
    """A job whose workers know how far they are, and no claim."""
    known = {} if datasets is None else {"datasets": datasets}
    return job(strategy="allreduce", status={"phase": "Running", **known, **status})


def test_living_workers_that_know_all_are_taken_over_by_the_next_master_in_the_same_life() -> None:
    owner = trained([])
    worker = pod(owner, "worker-0")
    worker["metadata"]["annotations"] = {LIFE_ANNOTATION: "uid-of-the-first-master"}
    view = observed(owner, pods=(worker, ended(pod(owner, "worker-1"), 1)), plans=(plan(owner, 1, "Succeeded"),))
    actions = done(view)
    assert CreateMaster(takes_over=True, life="uid-of-the-first-master") in actions
    assert not [action for action in actions if isinstance(action, DeletePod | DeletePlan)]
    [said] = [action for action in actions if isinstance(action, EmitEvent)]
    assert (said.reason, said.warning) == ("TakingOver", True)
    assert "worker-0" in said.message


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        (trained(["train"]), "which records of train are done"),
        (trained(None), "never reported"),
        (job(status={"phase": "Running", "datasets": []}), "the progress of its workers"),
    ],
)
def test_a_job_whose_records_only_the_journal_knew_starts_over_with_a_condition(owner: Object, why: str) -> None:
    actions = done(observed(owner, pods=(pod(owner, "worker-0"),)))
    assert DeletePod("digits-worker-0", "uid-of-digits-worker-0", grace=0.0) in actions
    [said] = [action for action in actions if isinstance(action, EmitEvent)]
    assert said.reason == "StartingOver"
    assert why in said.message
    [status] = [action.patch for action in actions if isinstance(action, PatchStatus)]
    [lost] = [entry for entry in status["conditions"] if entry["type"] == "JournalLost"]
    assert (lost["status"], lost["reason"]) == ("True", "StartedOver")
    assert why in lost["message"]
    assert status["recovery"]["outcome"] == "StartedOver"


def test_the_word_of_starting_over_is_written_once_although_it_takes_several_rounds() -> None:
    owner = trained(["train"])
    view = observed(owner, pods=(pod(owner, "worker-0"),))
    [status] = [action.patch for action in done(view) if isinstance(action, PatchStatus)]
    owner["status"] |= status
    assert not [action for action in done(view, now=NOW + 7) if isinstance(action, PatchStatus)]
    later = pod(owner, "worker-1")
    later["metadata"]["creationTimestamp"] = rfc3339(NOW + 60)
    [again] = [
        action.patch for action in done(observed(owner, pods=(later,)), now=NOW + 90) if isinstance(action, PatchStatus)
    ]
    assert again["recovery"]["time"] == rfc3339(NOW + 90), "lost another time"


def test_no_worker_lives_that_could_be_taken_over() -> None:
    owner = trained([])
    gone = (ended(pod(owner, "worker-0"), 1), deleted(pod(owner, "worker-1"), 1))
    actions = done(observed(owner, pods=gone))
    assert not [action for action in actions if isinstance(action, CreateMaster)]
    assert [action for action in actions if isinstance(action, DeletePod)]


def test_what_the_master_took_over_becomes_a_condition_and_an_event() -> None:
    recovery = {"outcome": "TakenOver", "message": "it goes on", "time": rfc3339(NOW - 3)}
    owner = trained([], recovery=recovery)
    view = observed(owner, pods=(pod(owner), pod(owner, "worker-0")))
    actions = done(view)
    assert EmitEvent("TakenOver", "it goes on") in actions
    [status] = [action.patch for action in actions if isinstance(action, PatchStatus)]
    [lost] = [entry for entry in status["conditions"] if entry["type"] == "JournalLost"]
    assert (lost["reason"], lost["lastTransitionTime"]) == ("TakenOver", recovery["time"])
    owner["status"] |= status
    assert done(view) == []


def test_a_condition_says_whether_the_journal_outlives_the_masters_pod() -> None:
    owner = trained([])
    for volume, holds in ((choose_volume(StorageClasses("fast")), "True"), (choose_volume(StorageClasses()), "False")):
        actions = done(observed(owner, pods=(pod(owner),)), Memory(journal=volume))
        [status] = [action.patch for action in actions if isinstance(action, PatchStatus)]
        [said] = [entry for entry in status["conditions"] if entry["type"] == "JournalDurable"]
        assert (said["status"], said["reason"]) == (holds, volume.reason)


def test_what_is_left_of_an_earlier_job_of_the_same_name_is_not_this_jobs() -> None:
    old = job(uid="job-0")
    actions = done(observed(job(), pods=(pod(old), pod(old, "worker-0"))))
    assert CreateMaster() in actions
    assert not [action for action in actions if isinstance(action, DeletePod)]


def test_exit_code_5_fails_the_job_with_the_masters_last_words() -> None:
    owner = job(status={"phase": "Running"})
    crashed = ended(pod(owner), 5, "the journal is damaged", phase="Running")
    actions = done(observed(owner, pods=(crashed,)))
    [status] = [action.patch for action in actions if isinstance(action, PatchStatus)]
    assert status["phase"] == "Failed"
    assert "the journal is damaged" in status["message"]
    assert [entry["reason"] for entry in status["conditions"] if entry["type"] == "Failed"] == ["MasterUnrecoverable"]


def test_a_master_that_ended_well_has_some_time_to_have_told_so() -> None:
    owner, memory = job(status={"phase": "Running"}), Memory()
    view = observed(owner, pods=(ended(pod(owner), 0, phase="Succeeded"),))
    assert phase_written(done(view, memory)) is None
    assert phase_written(done(view, memory, NOW + 31)) == "Failed"


def test_nothing_is_done_for_a_job_that_is_being_deleted() -> None:
    owner = deleted(job(), 0)
    assert done(observed(owner, pods=(pod(owner, "worker-0"),))) == []
    assert done(observed(None)) == []


def test_suspend_waits_for_the_nodes_and_then_ends_a_master_with_a_claim() -> None:
    owner = claimed(suspend=True, status={"phase": "Running"})
    waiting = done(observed(owner, pods=(pod(owner), pod(owner, "worker-0"))))
    assert phase_written(waiting) == "Suspending"
    assert not [action for action in waiting if isinstance(action, DeletePod)]
    actions = done(observed(owner, pods=(pod(owner),)))
    assert phase_written(actions) == "Suspended"
    assert [action.name for action in actions if isinstance(action, DeletePod)] == ["digits-master"]


def test_suspend_leaves_a_master_whose_journal_would_be_lost() -> None:
    owner = job(suspend=True, status={"phase": "Running"})
    actions = done(observed(owner, pods=(pod(owner),)))
    assert phase_written(actions) == "Suspended"
    assert not [action for action in actions if isinstance(action, DeletePod)]


def test_a_pod_that_does_not_end_is_asked_about_and_not_before_its_time() -> None:
    owner = job(status={"phase": "Running"})
    late = deleted(pod(owner), 20)
    assert ForceDeleteIfLost("digits-master", "uid-of-digits-master", "machine-1", 20.0) in done(
        observed(owner, pods=(late,))
    )
    in_time = deleted(pod(owner), -20)
    assert not [action for action in done(observed(owner, pods=(in_time,))) if isinstance(action, ForceDeleteIfLost)]


def test_a_pod_that_does_not_end_is_not_asked_about_in_every_round() -> None:
    owner = job(status={"phase": "Running"})
    view, memory = observed(owner, pods=(deleted(pod(owner), 20),)), Memory()

    def asked(now: float) -> bool:
        return any(isinstance(action, ForceDeleteIfLost) for action in decide(view, memory, now).actions)

    assert [asked(NOW + later) for later in (0.0, 1.0, 8.0, 10.0, 11.0, 20.0)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_nodes_that_run_on_after_the_end_of_their_job_are_removed_in_the_end() -> None:
    status = {"phase": "Succeeded", "finished": "2023-11-14T22:00:00Z"}  # 13 minutes before NOW
    owner = job(status=status)
    actions = done(observed(owner, pods=(pod(owner, "worker-0"), ended(pod(owner, "worker-1"), 0, phase="Succeeded"))))
    assert [action.name for action in actions if isinstance(action, DeletePod)] == ["digits-worker-0"]


def conditions_written(actions: list[Action]) -> dict[str, tuple[str, str]]:
    written = [action.patch for action in actions if isinstance(action, PatchStatus)]
    found = [entry for patch in written for entry in patch.get("conditions", [])]
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in found}


def test_what_the_master_waits_for_becomes_a_condition_and_ceases_to_be_one() -> None:
    waiting = {"reason": "ScaledToZero", "message": "worker scaled to 0"}
    owner = job(status={"phase": "Running", "waiting": waiting})
    view = observed(owner, pods=(pod(owner),))
    actions = done(view)
    assert conditions_written(actions)["WaitingForNodes"] == ("True", "ScaledToZero")
    for action in actions:
        if isinstance(action, PatchStatus):
            owner["status"] |= dict(action.patch)
    assert done(view) == []
    owner["status"]["waiting"] = None
    assert conditions_written(done(view))["WaitingForNodes"] == ("False", "NotWaiting")


def test_the_machines_that_nodes_may_use_are_written_where_the_master_reads_them() -> None:
    def machine(memory: str, **labels: str) -> dict[str, object]:
        allocatable = {"cpu": "4", "memory": memory, "pods": "110"}
        return {"metadata": {"name": "m", "labels": labels}, "status": {"allocatable": allocatable}}

    options = {"kind": "kubernetes", "kubernetes": {"node_selector": {"pool": "a"}}}
    owner = job(platform=options)
    machines = (machine("8Gi", pool="a"), machine("4Gi", pool="a"), machine("64Gi", pool="b"))
    actions = done(observed(owner), Memory(machines=machines))
    (patch,) = [action.patch for action in actions if isinstance(action, PatchStatus)]
    assert patch["machines"] == [{"cpu": 4.0, "memory_mb": 8192, "gpu": 0}]
    owner["status"] = dict(patch)
    capacity = machines_of(owner)
    assert capacity is not None
    assert capacity.max_memory_mb == 8192
    assert "machines" not in done_patch(done(observed(owner), Memory(machines=None)))


def done_patch(actions: list[Action]) -> dict[str, object]:
    return {key: value for a in actions if isinstance(a, PatchStatus) for key, value in a.patch.items()}


def test_checkpoints_that_fail_become_a_condition_which_turns_false_when_they_are_written_again() -> None:
    failing = {"directory": "/saved", "failures_in_a_row": 2, "message": "no space left; what to do: free some"}
    owner = job(status={"phase": "Running", "checkpoints": [failing]})
    view = observed(owner, pods=(pod(owner),))
    found = checkpoints_failing(done(view))
    assert (found["status"], found["reason"]) == ("True", "CannotWrite")
    assert found["message"] == "checkpoints cannot be written to /saved: no space left; what to do: free some"
    owner["status"] |= {"conditions": [found], "checkpoints": [{"directory": "/saved", "failures_in_a_row": 0}]}
    after = checkpoints_failing(done(view))
    assert (after["status"], after["reason"]) == ("False", "Written")
    plain = job(status={"phase": "Running"})
    assert checkpoints_failing(done(observed(plain, pods=(pod(plain),)))) == {}


def checkpoints_failing(actions: list[Action]) -> dict[str, Any]:
    written = next((action.patch for action in actions if isinstance(action, PatchStatus)), {})
    return next((dict(c) for c in written.get("conditions", ()) if c["type"] == "CheckpointsFailing"), {})


def test_when_a_job_starts_over_the_requests_of_its_lost_master_are_dropped_before_the_next_one_starts() -> None:
    owner = requesting(job(status={"phase": "Running"}), plan(job(), 3), recorded=2)
    actions = done(observed(owner))
    assert not any(isinstance(action, CreateMaster) for action in actions)
    [status] = [action.patch for action in actions if isinstance(action, PatchStatus)]
    assert status["outbox"] == {"plans": None}
    owner["status"]["outbox"] = {"recorded": 2}
    assert CreateMaster() in done(observed(owner))
