"""Machines and operators are lost; jobs are not.

These take away what other tests run on, so they run alone: ``make test-losses``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.harness import OPERATOR_NAMESPACE, Space, Testbed
from tests.kubernetes.jobs import ReadingClusterJob, kill, process_of

from pliant.platforms.kubernetes.kinds import LEASES

pytestmark = pytest.mark.losses


@pytest.fixture
def second_node(cluster: Testbed) -> Iterator[str]:
    """A node to lose; it is there again afterwards."""
    yield "node2"
    cluster.kubectl("uncordon", "node2")
    if not (cluster.cluster.run.folder / "node2.pid").exists():
        cluster.cluster.start_node(2)


def acting(cluster: Testbed) -> str:
    """The Pod of the operator that acts."""
    lease = cluster.kube.get(LEASES, "pliant-operator", OPERATOR_NAMESPACE)
    return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]


def test_another_operator_takes_over_when_the_acting_one_is_killed(
    cluster: Testbed, field: Space, tmp_path: Path
) -> None:
    before = field.wait_for(lambda: acting(cluster), "an operator that acts")
    job = ReadingClusterJob(field, tmp_path, workers="1:2")
    job.spec["roles"]["worker"]["replicas"]["wanted"] = 1
    job.submit()
    job.wait_for_workers(1)
    kill(process_of(before, "pliant.operator"))
    field.kubectl("scale", "elasticjob", "job", "--replicas=2")
    job.wait_for_workers(2)
    job.finish()


def test_a_frozen_operator_is_replaced_and_two_never_act(cluster: Testbed, field: Space, tmp_path: Path) -> None:
    before = field.wait_for(lambda: acting(cluster), "an operator that acts")
    job = ReadingClusterJob(field, tmp_path, workers="1:2")
    job.spec["roles"]["worker"]["replicas"]["wanted"] = 1
    job.submit()
    job.wait_for_workers(1)
    frozen = process_of(before, "pliant.operator")
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        field.kubectl("scale", "elasticjob", "job", "--replicas=2")
        job.wait_for(lambda: acting(cluster) != before, "another operator to act")
        job.wait_for_workers(2)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    job.finish()
    names = [plan["metadata"]["name"] for plan in job.plans() if (plan.get("status") or {}).get("phase") == "Failed"]
    assert names == []


def test_a_drained_machine_gives_its_workers_to_another(
    cluster: Testbed, field: Space, tmp_path: Path, second_node: str
) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=2, role={"template": on(second_node, tmp_path)}, size=200)
    job.submit()
    nodes = job.wait_for_workers(2)
    job.wait_until_all_work(nodes)
    cluster.kubectl("drain", second_node, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=60s")
    job.wait_for(lambda: not set(job.nodes()) & set(nodes), "the old workers to go")
    cluster.kubectl("uncordon", second_node)
    job.wait_until_all_work(job.wait_for_workers(2))
    job.finish()


def test_a_machine_loses_power_and_a_job_with_its_journal_on_a_claim_goes_on(
    cluster: Testbed, field: Space, tmp_path: Path, second_node: str
) -> None:
    master = {"node_selector": {"kubernetes.io/hostname": second_node}}
    job = ReadingClusterJob(field, tmp_path, workers=2, size=200, kubernetes={"master": master}).submit()
    job.wait_until_all_work(job.wait_for_workers(2))
    uid = str(job.master()["metadata"]["uid"])
    cluster.cluster.lose_node(2)
    cluster.cluster.wait_for_node(second_node, ready=False)
    cluster.cluster.start_node(2)
    job.wait_for_another_master(uid)
    job.finish()


def test_a_master_without_a_claim_starts_over_and_says_so(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=1, journal="emptyDir").submit()
    job.wait_until_all_work(job.wait_for_workers(1))
    uid = job.delete_master()
    job.wait_for_another_master(uid)
    job.wait_for(lambda: "begins anew" in job.told(), "the operator's word")
    job.open_gate()
    assert job.wait_for_phase("Succeeded", "Failed")["phase"] == "Succeeded", job.report()
    assert job.summary()["records_done"] == job.size


def on(machine: str, tmp_path: Path) -> dict[str, object]:
    """A template that prefers a machine, beside the folder that every job of these tests shares with its test."""
    shared = {"name": "shared", "hostPath": {"path": str(tmp_path / "shared"), "type": "Directory"}}
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [machine]}]}
    prefers = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    mount = {"name": "shared", "mountPath": "/shared"}
    return {
        "spec": {
            "affinity": {"nodeAffinity": prefers},
            "volumes": [shared],
            "containers": [{"name": "main", "volumeMounts": [mount]}],
        }
    }
