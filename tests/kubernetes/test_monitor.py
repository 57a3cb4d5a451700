"""The monitor on a real API server: machines and Pods as it shows them, use as its metrics group measures it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import PATIENCE, Space, Testbed
from tests.monitors.recording_brain import RecordingBrain

from pliant.monitors.base import Amounts, Observation, ObservedMachine, ObservedNode
from pliant.monitors.kubernetes import KubernetesMonitor
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import CRDS, NODE_METRICS, NODES, POD_METRICS, PODS, Kind, Object
from pliant.platforms.kubernetes.names import labels_of

pytestmark = pytest.mark.xdist_group("metrics")  # the group is served, or not, for the whole cluster

MEASURED = (NODE_METRICS, POD_METRICS)


def a_pod(
    space: Space, name: str, *, machine: str = "", labels: Mapping[str, str] | None = None, **asks: str
) -> Object:
    container = {"name": "main", "image": "fake", "resources": {"requests": asks, "limits": asks}}
    spec: Object = {"containers": [container], **({"nodeName": machine} if machine else {})}
    spec |= {} if machine else {"nodeSelector": {"kubernetes.io/hostname": "of-nobody"}}
    return space.create(PODS, {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec})


def worker(number: int) -> dict[str, str]:
    return labels_of("digits", role="worker", node=f"worker-{number}")


def see(testbed: Testbed) -> Observation:
    async def once() -> Observation:
        monitor = KubernetesMonitor(KubeApi.load(testbed.kubeconfig))
        try:
            return await monitor.observe()
        finally:
            await monitor.close()

    return asyncio.run(once())


def machines_of(seen: Observation, kubelet: FakeKubelet) -> list[ObservedMachine]:
    """Other tests have machines there too."""
    return [machine for machine in seen.machines if machine.name in kubelet.nodes]


def nodes_of(seen: Observation, space: Space) -> dict[str, ObservedNode]:
    return {node.name: node for node in seen.nodes if node.namespace == space.name}


def test_machines_and_the_pods_of_jobs_are_seen_and_pods_of_others_take_room(
    control_plane: Testbed, space: Space, kubelet: FakeKubelet
) -> None:
    first, second = kubelet.nodes
    kubelet.run(a_pod(space, "digits-worker-0", machine=first, labels=worker(0), cpu="2", memory="4Gi"))
    kubelet.run(a_pod(space, "digits-master", machine=second, labels=labels_of("digits", role="master"), cpu="100m"))
    kubelet.run(a_pod(space, "of-others", machine=first, cpu="1500m", memory="1Gi"))
    kubelet.succeed(a_pod(space, "over", machine=first, labels=worker(7), cpu="8"))
    a_pod(space, "digits-worker-1", labels=worker(1), cpu="2")
    seen = see(control_plane)
    one, two = machines_of(seen, kubelet)
    assert (one.name, one.size, one.is_ready) == (first, Amounts(64.0, 262144.0), True)
    assert one.free == Amounts(64.0 - 3.5, 262144.0 - 5 * 1024)
    assert two.free.cpu == pytest.approx(63.9)
    nodes = nodes_of(seen, space)
    assert nodes.keys() == {"worker-0", "worker-1", "master"}
    assert nodes["worker-0"] == ObservedNode(
        space.name, "digits", "worker-0", "worker", "Running", first, Amounts(2.0, 4096.0)
    )
    assert (nodes["worker-1"].phase, nodes["worker-1"].machine) == ("Pending", "")
    assert (nodes["master"].role, nodes["master"].machine) == ("master", second)


def test_a_machine_that_is_cordoned_takes_no_nodes(control_plane: Testbed, kubelet: FakeKubelet) -> None:
    control_plane.kube.patch(NODES, kubelet.nodes[1], {"spec": {"unschedulable": True}})
    assert [machine.is_ready for machine in machines_of(see(control_plane), kubelet)] == [True, False]


@pytest.fixture
def metrics(control_plane: Testbed, space: Space) -> Iterator[Testbed]:
    """A group of Kubernetes' own may only be served from a CRD that says so."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for kind in MEASURED:
        version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        naming = {"kind": kind.kind, "plural": kind.plural}
        scope = "Namespaced" if kind.namespaced else "Cluster"
        spec = {"group": kind.group, "names": naming, "scope": scope, "versions": [version]}
        note = {"api-approved.kubernetes.io": "unapproved, a test"}
        control_plane.kube.create(CRDS, {"metadata": {"name": kind.full_name, "annotations": note}, "spec": spec})
    space.wait_for(lambda: all(_is_served(space, kind) for kind in MEASURED), "both kinds to be served")
    yield control_plane
    for kind in MEASURED:
        with contextlib.suppress(Exception):
            control_plane.kube.delete(CRDS, kind.full_name)


def _is_served(space: Space, kind: Kind) -> bool:
    return space.kubectl("get", kind.full_name, check=False).returncode == 0


def test_use_is_told_where_the_cluster_measures_it(metrics: Testbed, space: Space, kubelet: FakeKubelet) -> None:
    first = kubelet.nodes[0]
    kubelet.run(a_pod(space, "digits-worker-0", machine=first, labels=worker(0), cpu="2"))
    use = {"name": "main", "usage": {"cpu": "250000000n", "memory": "65536Ki"}}
    space.create(POD_METRICS, {"metadata": {"name": "digits-worker-0"}, "window": "30s", "containers": [use]})
    machine_use = {"metadata": {"name": first}, "window": "30s", "usage": {"cpu": "3500m", "memory": "2Gi"}}
    metrics.kube.create(NODE_METRICS, machine_use)
    seen = see(metrics)
    assert nodes_of(seen, space)["worker-0"].used == Amounts(0.25, 64.0)
    one, two = machines_of(seen, kubelet)
    assert (one.used, two.used) == (Amounts(3.5, 2048.0), Amounts())


def test_the_command_reports_a_cluster(
    control_plane: Testbed, space: Space, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    kubelet.run(a_pod(space, "digits-worker-0", machine=kubelet.nodes[0], labels=worker(0), cpu="2"))
    with RecordingBrain(tmp_path) as brain:
        command = [
            sys.executable,
            "-m",
            "pliant.cli",
            "brain",
            "monitor",
            "--platform",
            "kubernetes",
            "--once",
            "--json",
        ]
        command += ["--brain", brain.address, "--brain-dir", str(brain.folder.path)]
        environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert done.returncode == 0, done.stderr
    [sent] = brain.observed
    assert sent.cluster == "kubernetes"
    assert {machine.name for machine in sent.machines} >= set(kubelet.nodes)
    assert [node.name for node in sent.nodes if node.namespace == space.name] == ["worker-0"]
    assert len(json.loads(done.stdout)["machines"]) == len(sent.machines)
