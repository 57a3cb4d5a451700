"""Usage of nodes as the cluster measures it. The group ``metrics.k8s.io`` is served by the real API server, from a CRD."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.kubernetes.harness import Space, Testbed
from tests.kubernetes.test_master import MasterProcess, master

from pliant.core.errors import MasterUnavailable
from pliant.files.atomic import read_json
from pliant.handles.job_handle import Caller
from pliant.master.job_dir import JobDir
from pliant.platforms.base import Measured
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import CRDS, POD_METRICS
from pliant.platforms.kubernetes.names import labels_of
from pliant.platforms.kubernetes.usage import measured

__all__ = ["master"]
pytestmark = pytest.mark.xdist_group("metrics")  # the group is served, or not, for the whole cluster

CRD_NAME = f"{POD_METRICS.plural}.{POD_METRICS.group}"


def serve_metrics(testbed: Testbed, space: Space) -> None:
    """A group of Kubernetes' own may only be served from a CRD that says so."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": POD_METRICS.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": POD_METRICS.group,
        "names": {"kind": POD_METRICS.kind, "plural": POD_METRICS.plural},
        "scope": "Namespaced",
        "versions": [version],
    }
    note = {"api-approved.kubernetes.io": "unapproved, a test"}
    testbed.kube.create(CRDS, {"metadata": {"name": CRD_NAME, "annotations": note}, "spec": spec})
    space.wait_for(testbed.cluster.crds_are_established, "the custom resource to be known")
    space.wait_for(lambda: _served(space), "the group to be served")


def _served(space: Space) -> bool:
    return space.kubectl("get", CRD_NAME, check=False).returncode == 0


def put_metrics(space: Space, node: str, cpu: str, memory: str) -> None:
    """As a metrics server tells of a Pod."""
    usage = {"name": "main", "usage": {"cpu": cpu, "memory": memory}}
    metadata = {"name": f"job-{node}", "labels": labels_of("job", role="worker", node=node)}
    space.create(POD_METRICS, {"metadata": metadata, "window": "30s", "containers": [usage]})


@pytest.fixture
def cleaned(control_plane: Testbed) -> Iterator[None]:
    yield
    with contextlib.suppress(Exception):
        control_plane.kube.delete(CRDS, CRD_NAME)


def test_usage_is_read_once_the_group_is_served_and_not_asked_for_often_before(
    control_plane: Testbed, space: Space, cleaned: None
) -> None:
    async def first_reading() -> tuple[Measured, ...]:
        async with KubeApi.load(control_plane.kubeconfig) as api:
            readings = measured(api, "job", space.name, every=0.1, absent=0.5)
            waiting = asyncio.ensure_future(anext(readings))
            begun = time.monotonic()
            while not api.calls or time.monotonic() < begun + 1.2:
                done, _ = await asyncio.wait([waiting], timeout=0.1)
                assert not done, "nothing is served"
            assert sum(api.calls.values()) <= 1 + (time.monotonic() - begun) / 0.5
            await asyncio.to_thread(serve_metrics, control_plane, space)
            await asyncio.to_thread(put_metrics, space, "worker-0", "250000000n", "65536Ki")
            found = await waiting
            while not found:
                found = await anext(readings)
            return tuple(found)

    assert asyncio.run(asyncio.wait_for(first_reading(), 120.0)) == (Measured("worker-0", 0.25, 64.0),)


def test_a_master_shows_what_the_cluster_measured_of_a_node_whose_agent_is_silent(
    control_plane: Testbed, cleaned: None, master: MasterProcess
) -> None:
    master.end(15)
    serve_metrics(control_plane, master.space)
    put_metrics(master.space, "worker-1", "1500m", "128Mi")
    master.start()  # its Pods have no agents at all
    home = JobDir(master.folder / master.journal)

    def usage() -> dict[str, tuple[float, float]]:
        told = read_json(home.master_file) or {}
        try:
            with Caller(replace(home.address(), target=told["listens"], allows_plaintext=True)) as caller:
                return {node.name: (node.cpu, node.memory_mb) for node in caller.status().nodes}
        except MasterUnavailable:
            return {}  # it is still starting

    master.space.wait_for(lambda: usage().get("worker-1") == (1.5, 128.0) or None, "its usage in the status")
    assert usage()["worker-0"] == (0.0, 0.0)
