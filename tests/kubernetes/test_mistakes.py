"""What people get wrong, and what clusters are short of, is told where they look: in the answer, the status, the events."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kubernetes.harness import Space
from tests.kubernetes.jobs import ClusterJob, ReadingClusterJob

from pliant.core.errors import InvalidRequest
from pliant.platforms.kubernetes.kinds import Kind

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


def test_a_worker_that_runs_out_of_memory_is_replaced_by_a_larger_one(field: Space, tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "limit = int(os.environ['PLIANT_MEMORY_MB'])\n"
        "if limit < 250:\n"
        "    hog = [bytearray(2**20) for _ in range(2 * limit)]\n"
        "print('enough with', limit)\n"
    )
    role = {"resources": {"memory": "200Mi"}}
    job = ClusterJob(
        field, tmp_path, ["python", "train.py"], workers=1, files={"train.py": program}, role=role
    ).submit()
    status = job.wait_for_phase("Succeeded", "Failed")
    assert status["phase"] == "Succeeded", job.report()
    assert any("memory" in event.message.lower() for event in job.events()), job.events()


def test_a_job_that_asks_for_too_much_says_so_and_goes_on_with_less(field: Space, tmp_path: Path) -> None:
    role = {"resources": {"memory": "16Gi"}, "min_resources": {"memory": "256Mi"}}
    fault = {"unschedulable": {"shrink_after": 2}}
    job = ReadingClusterJob(field, tmp_path, workers=1, role=role, spec={"fault": fault}).submit()
    job.wait_for(lambda: "FailedScheduling" in job.told(), "the scheduler's word")
    job.wait_for_workers(1)
    job.finish()


def test_a_quota_holds_a_job_back_until_there_is_room(field: Space, tmp_path: Path) -> None:
    field.create(QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}})
    job = ReadingClusterJob(field, tmp_path, workers="1:2").submit()
    job.wait_for_workers(1)
    job.wait_for(lambda: "exceeded quota" in job.told() + str(job.plans()), "the quota's word")
    field.delete(QUOTAS, "few")
    job.wait_for_workers(2)
    job.finish()
