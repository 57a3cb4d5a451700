"""Machines and operators are lost; jobs are not.

These take away what other tests run on, so they run last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.kubernetes.harness import OPERATOR_NAMESPACE, Space, Testbed
from tests.kubernetes.jobs import ReadingClusterJob, process_of

from pliant.platforms.kubernetes.kinds import LEASES, Object
from pliant.platforms.kubernetes.plans import status_of

pytestmark = pytest.mark.losses


@pytest.fixture
def second_node(cluster: Testbed) -> Iterator[str]:
    """A node to lose; it comes back afterwards."""
    yield "node2"
    cluster.kubectl("uncordon", "node1", "node2")
    if not (cluster.cluster.run.folder / "node2.pid").exists():
        cluster.cluster.start_node(2, wait=False)


def leader(cluster: Testbed) -> str:
    """The Pod of the operator that leads."""
    lease = cluster.kube.get(LEASES, "pliant-operator", OPERATOR_NAMESPACE)
    return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]


def test_an_operator_is_frozen_and_its_successor_killed_and_never_two_act(
    cluster: Testbed, field: Space, tmp_path: Path
) -> None:
    job = ReadingClusterJob(field, tmp_path, workers="1:3")
    job.spec["roles"]["worker"]["replicas"]["wanted"] = 1
    job.submit()
    job.wait_for_workers(1)
    first = leader(cluster)
    frozen = field.wait_for(lambda: process_of(first, "pliant.operator"), "the process of the leading operator")
    frozen.suspend()
    try:
        field.kubectl("scale", "elasticjob", "job", "--replicas=2")
        second = job.wait_for(lambda: other if (other := leader(cluster)) != first else None, "another to lead")
        job.wait_for_workers(2)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):  # the kubelet may have lost patience with it
            frozen.resume()
    field.wait_for(lambda: process_of(second, "pliant.operator"), "the process of its successor").kill()
    field.kubectl("scale", "elasticjob", "job", "--replicas=3")
    job.wait_for_workers(3)
    job.finish()
    phases = [status_of(plan).get("phase") for plan in job.plans()]
    assert set(phases) == {"Succeeded"}, job.plans()


def test_a_drained_machine_gives_its_workers_to_another(
    cluster: Testbed, field: Space, tmp_path: Path, second_node: str
) -> None:
    elsewhere = {"master": {"node_selector": {"kubernetes.io/hostname": "node1"}}}
    job = ReadingClusterJob(
        field, tmp_path, workers=2, role={"template": prefers(second_node)}, kubernetes=elsewhere
    ).submit()
    nodes = job.wait_for_workers(2)
    job.wait_until_all_work(nodes)
    cluster.kubectl("drain", second_node, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=140s")
    cluster.kubectl("uncordon", second_node)
    job.wait_for(lambda: not set(job.nodes()) & set(nodes), "the old workers to go")
    job.wait_until_all_work(job.wait_for_workers(2))
    job.finish()
    assert {(node, "Preempted") for node in nodes} <= set(job.ends())
    assert "Error" not in dict(job.ends()).values()


def test_the_masters_machine_loses_power_and_the_job_goes_on_elsewhere(
    cluster: Testbed, field: Space, tmp_path: Path, second_node: str
) -> None:
    """Its journal lies on a claim."""
    quick = {"master": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}
    job = ReadingClusterJob(field, tmp_path, workers=2, kubernetes=quick)
    cluster.kubectl("cordon", "node1")
    job.submit()
    job.wait_for(lambda: (job.find_master() or {}).get("spec", {}).get("nodeName") == second_node, "the master's place")
    cluster.kubectl("uncordon", "node1")
    job.wait_until_all_work(job.wait_for_workers(2))
    before = job.master()
    cluster.cluster.lose_node(2)
    job.wait_for_another_master(str(before["metadata"]["uid"]))
    assert job.master()["spec"]["nodeName"] == "node1"
    job.wait_until_all_work(job.wait_for_workers(2))
    job.finish()


def prefers(machine: str) -> Object:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [machine]}]}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    return {"spec": {"affinity": {"nodeAffinity": affinity}}}
