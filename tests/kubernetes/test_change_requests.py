"""What people change about a running job is done, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

from tests.kubernetes.harness import Space
from tests.kubernetes.jobs import LONG, ReadingClusterJob

from pliant.core.events import EventKind
from pliant.platforms.kubernetes.kinds import SCALE_PLANS


def test_a_job_grows_by_kubectl_scale_by_a_plan_and_by_an_edit_shrinks_to_nothing_and_waits(
    field: Space, tmp_path: Path
) -> None:
    job = ReadingClusterJob(field, tmp_path, workers="0:3", size=300)
    job.spec["roles"]["worker"]["replicas"]["wanted"] = 1
    job.submit()
    job.wait_for_workers(1)
    field.kubectl("scale", "elasticjob", "job", "--replicas=2")
    job.wait_for_workers(2)
    asked = {"job": "job", "reason": "more hands", "roles": {"worker": {"replicas": 3}}}
    field.create(SCALE_PLANS, {"metadata": {"name": "mine"}, "spec": asked})
    job.wait_for_plan("mine", "Succeeded")
    job.wait_for_workers(3)
    edit = '--patch={"spec":{"roles":{"worker":{"replicas":{"wanted":1}}}}}'
    field.kubectl("patch", "elasticjob", "job", "--type=merge", edit)
    job.wait_for_workers(1)
    field.kubectl("scale", "elasticjob", "job", "--replicas=0")
    job.wait_for_condition("WaitingForNodes", "ScaledToZero")
    assert job.status()["phase"] == "Running"
    assert "scaled to 0" in job.status()["message"]
    field.kubectl("scale", "elasticjob", "job", "--replicas=1")
    job.wait_for_workers(1)
    job.finish()


def test_a_plan_that_cannot_be_is_refused_with_the_reason(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers="1:2").submit()
    job.wait_for_workers(2)
    field.create(
        SCALE_PLANS, {"metadata": {"name": "far"}, "spec": {"job": "job", "roles": {"worker": {"replicas": 99}}}}
    )
    status = job.wait_for_plan("far", "Refused", "Succeeded")
    assert status["phase"] == "Refused"
    assert "2" in status["message"]
    job.finish()


def test_running_workers_get_other_resources_one_pod_at_a_time_and_no_record_is_lost(
    field: Space, tmp_path: Path
) -> None:
    job = ReadingClusterJob(field, tmp_path, workers="1:3", size=300)
    job.spec["roles"]["worker"]["replicas"]["wanted"] = 2
    job.submit()
    old = job.wait_for_workers(2)
    job.wait_until_all_work(old)
    edit = '--patch={"spec":{"roles":{"worker":{"resources":{"memory":"300Mi"}}}}}'
    field.kubectl("patch", "elasticjob", "job", "--type=merge", edit)
    rolled_out = EventKind.ROLLED_OUT
    job.wait_for(lambda: any(e.kind is rolled_out for e in job.events()), "the end of the rollout", timeout=2 * LONG)
    assert not set(job.wait_for_workers(2)) & set(old)
    limits = {
        container["resources"]["limits"]["memory"]
        for node in job.nodes()
        for container in job.pod(node)["spec"]["containers"]
        if "memory" in (container.get("resources") or {}).get("limits", {})
    }
    assert len(limits) == 1
    assert "300Mi" in limits or str(300 << 20) in limits
    job.finish()
    [begun] = [event.facts for event in job.events() if event.kind is EventKind.ROLLOUT]
    assert (begun["nodes"], begun["mode"], begun["reason"]) == (2, "rolling", "the job was edited")
