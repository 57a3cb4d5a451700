"""Whole jobs on real nodes, as a user runs them: they end well, whatever happens to their Pods."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kubernetes.harness import Space
from tests.kubernetes.jobs import ClusterJob, ReadingClusterJob
from tools.kubernetes.testbed.images import INSIDE

from pliant.platforms.kubernetes.kinds import CLAIMS, CONFIG_MAPS, PODS, SCALE_PLANS, SECRETS, SERVICES
from pliant.platforms.kubernetes.names import SUMMARY_KEY

pytestmark = pytest.mark.xdist_group("cluster")


def test_a_job_reads_every_record_once_and_leaves_a_summary(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2).submit()
    job.wait_until_all_work(job.wait_for_workers(2))
    status = job.finish()
    assert status["progress"]["records"] == job.size
    summary = job.summary()
    assert summary["phase"] == "Succeeded"
    assert summary["records_done"] == job.size
    assert SUMMARY_KEY in field.get(CONFIG_MAPS, "job-summary")["data"]


def test_workers_and_the_master_are_deleted_and_no_record_is_lost(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2, size=200).submit()
    nodes = job.wait_for_workers(2)
    job.wait_until_all_work(nodes)
    job.delete_pod(nodes[0])
    job.wait_for(lambda: [node for node in job.nodes() if node not in nodes], "a worker with a new name")
    uid = job.delete_master()
    job.wait_for_another_master(uid)
    job.wait_until_all_work(job.wait_for_workers(2))
    job.finish()


@pytest.mark.losses  # takes minutes on two cores
def test_digits_are_learned_by_workers_of_which_one_is_deleted(field: Space, tmp_path: Path) -> None:
    program = str(INSIDE / "examples" / "02_cnn_digits.py")
    role = {"resources": {"cpu": "500m", "memory": "1Gi"}}
    job = ClusterJob(field, tmp_path, ["python", program, "--epochs", "6"], workers=2, role=role)
    job.submit()
    nodes = job.wait_for_workers(2)
    job.wait_for(lambda: any("loss" in field.logs(f"job-{node}") for node in nodes), "the first epoch")
    job.delete_pod(nodes[-1])
    status = job.wait_for_phase("Succeeded", "Failed")
    assert status["phase"] == "Succeeded", job.report()
    said = [field.logs(pod["metadata"]["name"]) for pod in field.list(PODS)]
    accuracy = [line for text in said for line in text.splitlines() if "accuracy" in line]
    assert accuracy, said
    assert float(accuracy[0].split(":")[1].split()[0]) > 80.0


def test_deleting_a_job_leaves_nothing_behind(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2).submit()
    job.wait_until_all_work(job.wait_for_workers(2))
    field.kubectl("delete", "elasticjob", "job", "--wait=false")
    kinds = (PODS, SERVICES, SECRETS, CONFIG_MAPS, CLAIMS, SCALE_PLANS)

    def left() -> list[str]:
        found = [f"{kind.plural}/{item['metadata']['name']}" for kind in kinds for item in field.list(kind)]
        return [name for name in found if "default-token" not in name and "kube-root-ca" not in name]

    field.wait_for(lambda: not left(), "everything to be gone", 120)


def test_a_job_is_suspended_and_goes_on(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2).submit()
    job.wait_until_all_work(job.wait_for_workers(2))
    field.kubectl("patch", "elasticjob", "job", "--type=merge", '--patch={"spec":{"suspend":true}}')
    job.wait_for_phase("Suspended")
    assert job.nodes() == []
    field.kubectl("patch", "elasticjob", "job", "--type=merge", '--patch={"spec":{"suspend":false}}')
    job.wait_for_workers(2)
    job.finish()
