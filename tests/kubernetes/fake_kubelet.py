"""Machines that only pretend: Nodes registered by hand, whose Pods are what a test says they are.

The scheduler binds Pods to them as to real ones, the API server keeps their status, and nobody runs anything. A
``FakeKubelet`` speaks verbs, one per thing that can happen to a Pod; ``obey_deletions`` removes Pods that are asked to go,
as a kubelet does when their containers have ended.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from tests.kubernetes.harness import LOOK_EVERY, PATIENCE, Kube

from pliant.core.errors import NotFound, PliantError
from pliant.platforms.kubernetes.kinds import NODES, PODS, Kind, Object
from pliant.testing import wait_until

LEASES = Kind("coordination.k8s.io", "v1", "Lease", "leases")
LEASE_PLACE = "kube-node-lease"
BEAT_EVERY = 2.0  # seconds; a Node that is silent for 8 is lost


class FakeKubelet:
    """``with FakeKubelet(kube, nodes=2) as kubelet: kubelet.run(pod)``. The Nodes beat until the block ends."""

    def __init__(
        self,
        kube: Kube,
        *,
        nodes: int = 1,
        cpu: str = "64",
        memory: str = "256Gi",
        pods: int = 500,
        prefix: str = "fake",
    ) -> None:
        self.nodes = [f"{prefix}-{number}" for number in range(nodes)]
        self._kube = kube
        self._capacity = {"cpu": cpu, "memory": memory, "pods": str(pods)}
        self._addresses = itertools.count(1)
        self._silent: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="fake-kubelet", daemon=True)

    def __enter__(self) -> Self:
        for name in self.nodes:
            self._kube.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
            lease = {"holderIdentity": name, "leaseDurationSeconds": 8, "renewTime": _now()}
            self._kube.create(LEASES, {"metadata": {"name": name}, "spec": lease}, LEASE_PLACE)
            self._kube.patch(NODES, name, self._node_status(), subresource="status")
        self._thread.start()
        wait_until(lambda: not any(map(self._is_tainted, self.nodes)), PATIENCE, every=LOOK_EVERY)
        return self

    def _is_tainted(self, name: str) -> bool:
        """A new Node is, until a controller has seen that it is ready."""
        return bool(self._kube.get(NODES, name)["spec"].get("taints"))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        for name in self.nodes:
            with contextlib.suppress(PliantError):
                self._kube.delete(NODES, name)
                self._kube.delete(LEASES, name, LEASE_PLACE)

    # --- what happens to a Node

    def fall_silent(self, node: str) -> None:
        """As after a power loss: it does not beat any more, and its Pods stay as they are."""
        self._silent.add(node)

    def come_back(self, node: str) -> None:
        self._silent.discard(node)
        self._kube.patch(NODES, node, self._node_status(), subresource="status")

    # --- what happens to a Pod

    def run(self, pod: Object) -> None:
        """Its containers run and are ready."""
        self._patch(pod, running(pod, next(self._addresses)))

    def succeed(self, pod: Object) -> None:
        self._tell(pod, {"phase": "Succeeded"}, _ended(0, "Completed"))

    def fail(self, pod: Object, exit_code: int = 1, message: str = "") -> None:
        """Its program ended with an error."""
        self._tell(pod, {"phase": "Failed"}, _ended(exit_code, "Error", message))

    def kill(self, pod: Object) -> None:
        """Its program was killed, and not for its memory."""
        self.fail(pod, 137)

    def run_out_of_memory(self, pod: Object) -> None:
        self._tell(pod, {"phase": "Failed"}, _ended(137, "OOMKilled"))

    def evict(self, pod: Object, message: str = "The node was low on resource: ephemeral-storage.") -> None:
        """By the kubelet, for want of something on its machine. The containers' states are lost, as in reality."""
        self._tell(pod, {"phase": "Failed", "reason": "Evicted", "message": message}, None)

    def cannot_pull(self, pod: Object, message: str = "pull access denied") -> None:
        """The image is not to be had; the kubelet keeps trying."""
        self._tell(pod, {"phase": "Pending"}, {"waiting": {"reason": "ImagePullBackOff", "message": message}})

    def remove(self, pod: Object) -> None:
        """It is gone, at once."""
        self._kube.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], grace=0)

    def obey_deletions(self, namespace: str, labels: str = "") -> None:
        """Until the block ends, Pods of a namespace that are asked to go, go."""
        threading.Thread(target=self._obey, args=(namespace, labels), name="fake-kubelet-obeys", daemon=True).start()

    def _obey(self, namespace: str, labels: str) -> None:
        while not self._stop.wait(LOOK_EVERY):
            with contextlib.suppress(PliantError):
                for pod in self._kube.list(PODS, namespace, labels=labels):
                    if pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName") not in self._silent:
                        self.remove(pod)

    def _tell(self, pod: Object, status: Mapping[str, Any], state: Object | None) -> None:
        self._patch(pod, _status(pod, status, state, ready=False))

    def _patch(self, pod: Object, status: Object) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        with contextlib.suppress(NotFound):
            self._kube.patch(PODS, name, {"status": status}, namespace, subresource="status")

    # --- being alive

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_EVERY):
            for name in self.nodes:
                if name not in self._silent:
                    with contextlib.suppress(PliantError):
                        self._kube.patch(LEASES, name, {"spec": {"renewTime": _now()}}, LEASE_PLACE)

    def _node_status(self) -> Object:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a test says so"}
        times = {"lastHeartbeatTime": _now(micro=False), "lastTransitionTime": _now(micro=False)}
        return {
            "status": {
                "capacity": self._capacity,
                "allocatable": self._capacity,
                "conditions": [{**ready, **times}],
                "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
            }
        }


def running(pod: Object, number: int) -> Object:
    """The status of a Pod that runs, with an address of its own by the number."""
    ip = f"10.88.{number // 250}.{number % 250 + 1}"
    state = {"running": {"startedAt": _now(micro=False)}}
    return _status(pod, {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}, state, ready=True)


def _status(pod: Object, status: Mapping[str, Any], state: Object | None, *, ready: bool) -> Object:
    words = "True" if ready else "False"
    conditions = [{"type": kind, "status": words} for kind in ("Ready", "ContainersReady")]
    conditions += [{"type": kind, "status": "True"} for kind in ("Initialized", "PodScheduled")]
    containers = [] if state is None else _containers(pod["spec"]["containers"], state, ready)
    return {"startTime": _now(micro=False), **status, "conditions": conditions, "containerStatuses": containers}


def _containers(containers: Sequence[Object], state: Object, ready: bool) -> list[Object]:
    told = {"ready": ready, "started": ready, "restartCount": 0, "imageID": "sha256:fake"}
    return [
        {**told, "name": each["name"], "image": each["image"], "state": state, "containerID": f"fake://{each['name']}"}
        for each in containers
    ]


def _ended(code: int, reason: str, message: str = "") -> Object:
    told = {"exitCode": code, "reason": reason, "message": message, "containerID": "fake://ended"}
    return {"terminated": {**told, "startedAt": _now(micro=False), "finishedAt": _now(micro=False)}}


def _now(micro: bool = True) -> str:
    """The API server refuses a time of a lease with zero microseconds."""
    now = datetime.now(UTC)
    return now.strftime(f"%Y-%m-%dT%H:%M:%S.{now.microsecond or 1:06d}Z" if micro else "%Y-%m-%dT%H:%M:%SZ")
