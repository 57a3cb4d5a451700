"""What people get wrong, and what clusters are short of, is told where they look: in the answer, the status, the events."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kubernetes.harness import Space
from tests.kubernetes.jobs import ClusterJob, ReadingClusterJob

from pliant.core.errors import InvalidRequest
from pliant.platforms.kubernetes.kinds import PODS, Kind

QUOTAS = Kind("", "v1", "ResourceQuota", "resourcequotas")


def test_a_spec_of_the_wrong_shape_is_refused_by_the_api_server(field: Space, tmp_path: Path) -> None:
    job = ClusterJob(field, tmp_path, ["true"])
    job.spec["roles"]["worker"]["replicas"] = {"min": "two", "max": 2}
    with pytest.raises(InvalidRequest, match=r"spec\.roles\.worker\.replicas\.min"):
        job.submit()


def test_a_spec_that_contradicts_itself_is_invalid_until_it_is_edited(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=1)
    job.spec["roles"]["worker"]["replicas"] = {"min": 3, "max": 1}
    job.submit()
    status = job.wait_for_phase("Invalid")
    assert "min" in status["message"]
    field.kubectl(
        "patch", "elasticjob", "job", "--type=merge", '--patch={"spec":{"roles":{"worker":{"replicas":{"min":1}}}}}'
    )
    job.wait_for_workers(1)
    job.finish()


def test_a_program_that_fails_fails_the_job_with_its_last_words(field: Space, tmp_path: Path) -> None:
    files = {
        "train.py": "import sys\nprint('about to fail', file=sys.stderr)\nraise RuntimeError('no such column: age')\n"
    }
    job = ClusterJob(
        field, tmp_path, ["python", "train.py"], workers=1, files=files, role={"restarts": {"error": 0}}
    ).submit()
    status = job.wait_for_phase("Failed")
    assert "no such column: age" in status["message"], job.report()


def test_an_image_that_cannot_be_pulled_fails_the_job_and_names_it(field: Space, tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "localhost/no-such-image:1"}]}}
    role = {"template": template, "restarts": {"error": 0}}
    job = ClusterJob(field, tmp_path, ["true"], workers=1, role=role).submit()
    status = job.wait_for_phase("Failed")
    assert "no-such-image" in status["message"], job.report()


@pytest.mark.losses
def test_a_worker_is_killed_for_its_memory_then_evicted_for_its_storage_and_no_record_is_lost(
    field: Space, tmp_path: Path
) -> None:
    greedy = """
import os, pathlib, time
if int(os.environ["PLIANT_MEMORY_MB"]) < 250:
    hog = [bytearray(2**20) for _ in range(400)]
told = pathlib.Path("/shared/filled")
if not told.exists():
    told.touch()
    pathlib.Path("/scratch/much").write_bytes(bytes(3 * 2**20))
    time.sleep(600)
"""
    volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]
    mounts = [{"name": "main", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}]
    role = {
        "resources": {"memory": "200Mi"},
        "template": {"spec": {"volumes": volumes, "containers": mounts}},
    }
    job = ReadingClusterJob(field, tmp_path, workers=1, before=greedy, role=role).submit()
    job.wait_for(lambda: (job.shared / "filled").exists(), "a worker with more memory")
    job.wait_for(lambda: "Evicted" in job.told(), "the kubelet's word")
    job.finish()
    reasons = [reason for _, reason in job.ends()]
    assert "OOM" in reasons, job.ends()
    assert "Error" in reasons, job.ends()
    assert any("EmptyDir" in event.message for event in job.events()), job.report()


@pytest.mark.losses
def test_a_worker_of_low_priority_gives_way_to_others_and_comes_back_where_there_is_room(
    field: Space, tmp_path: Path
) -> None:
    classes = {"priority_class": "pliant-normal", "high_priority_class": "pliant-high", "high_priority_share": 0.5}
    job = ReadingClusterJob(
        field, tmp_path, workers=2, role={"resources": {"memory": "1200Mi"}}, kubernetes=classes
    ).submit()
    nodes = job.wait_for_workers(2)
    job.wait_until_all_work(nodes)
    given = [job.pod(node)["spec"]["priorityClassName"] for node in nodes]
    assert given == ["pliant-high", "pliant-normal"]
    machine = job.pod(nodes[1])["spec"]["nodeName"]
    container = {
        "name": "main",
        "image": "localhost/pliant:dev",
        "command": ["sleep", "600"],
        "resources": {"requests": {"memory": "2000Mi"}},
    }
    spec = {
        "priorityClassName": "pliant-high",
        "nodeSelector": {"kubernetes.io/hostname": machine},
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    field.create(PODS, {"metadata": {"name": "important"}, "spec": spec})
    job.wait_for(lambda: "Preempted by" in job.told(), "the scheduler's word")
    job.wait_for(lambda: nodes[1] not in job.nodes(), "the worker to give way")
    job.wait_until_all_work(job.wait_for_workers(2))
    job.finish()
    assert (nodes[1], "Preempted") in job.ends()
    assert nodes[0] in [node for node, reason in job.ends() if reason == "Completed"]


def test_a_job_that_asks_for_too_much_says_so_and_goes_on_with_less(field: Space, tmp_path: Path) -> None:
    role = {"resources": {"memory": "16Gi"}, "min_resources": {"memory": "256Mi"}}
    fault = {"unschedulable": {"shrink_after": 2}}
    job = ReadingClusterJob(field, tmp_path, workers=1, role=role, spec={"fault": fault}).submit()
    job.wait_for(lambda: "FailedScheduling" in job.told(), "the scheduler's word")
    job.wait_for_workers(1)
    job.finish()


def test_a_job_that_no_machine_can_run_says_so_and_gives_up_at_its_limit_with_the_numbers(
    field: Space, tmp_path: Path
) -> None:
    fault = {"unschedulable": {"give_up_after": 10}}
    role = {"resources": {"memory": "1000Gi"}}
    job = ClusterJob(field, tmp_path, ["true"], workers=1, role=role, spec={"fault": fault}).submit()
    condition = job.wait_for_condition("WaitingForNodes", "RequestTooLarge")
    assert (
        "worker-0 cannot be scheduled: 1024000 MB of memory requested, the largest machine has" in condition["message"]
    )
    status = job.wait_for_phase("Failed")
    assert "gave up on worker-0: 1024000 MB of memory requested, the largest machine has" in status["message"]
    assert "waited 10 s (fault.unschedulable.give_up_after)" in status["message"]
    assert job.nodes("Pending") == []


def test_a_quota_holds_a_job_back_until_there_is_room(field: Space, tmp_path: Path) -> None:
    field.create(QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}})
    job = ReadingClusterJob(field, tmp_path, workers="1:2").submit()
    job.wait_for_workers(1)
    job.wait_for(lambda: "exceeded quota" in job.told() + str(job.plans()), "the quota's word")
    field.delete(QUOTAS, "few")
    job.wait_for_workers(2)
    job.finish()
