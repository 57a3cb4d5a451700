"""A Kubernetes cluster: its Nodes, what all Pods on them ask for, and Pliant's Pods among them.

Two lists for each observation, and two more where the cluster measures use (``metrics.k8s.io``). Where it does not, that is asked
again only now and then. Pods that have ended ask for nothing and are not listed; a Pod of anybody counts for what its machine has
left. Reads only: see the chart's role of the monitor.

A machine that takes no nodes is not ready: its kubelet is silent, it is cordoned, or it is kept for the control plane. Other
taints are not looked at, as in ``platforms/kubernetes/machines.py``: jobs may tolerate them.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pliant.core.errors import PermanentError
from pliant.monitors.base import Amounts, ClusterMonitor, Observation, ObservedMachine, ObservedNode
from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import NODE_METRICS, NODES, POD_METRICS, PODS, Kind, Object
from pliant.platforms.kubernetes.pods import GPU
from pliant.platforms.kubernetes.usage import amount

log = logging.getLogger(__name__)

MB = 1 << 20
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
TERMINATING = "Terminating"  # as kubectl calls it
RETRY_ABSENT_S = 300.0  # until use is asked for again where nobody measures it
CONTROL_PLANE = frozenset({"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"})  # taints
Key = tuple[str, str]  # namespace and name of a Pod; of a machine its name alone, the namespace is empty


class KubernetesMonitor(ClusterMonitor):
    platform = "kubernetes"

    def __init__(self, api: KubeApi | None = None, *, retry_absent: float = RETRY_ABSENT_S) -> None:
        """``api``: as kubectl finds it unless given."""
        self._api = api or KubeApi.load()
        self._retry_absent = retry_absent
        self._absent_until = {NODE_METRICS: 0.0, POD_METRICS: 0.0}

    async def observe(self) -> Observation:
        machines = (await self._api.list(NODES)).items
        pods = (await self._api.list(PODS, fields=NOT_ENDED)).items
        used = {**await self._measured(NODE_METRICS), **await self._measured(POD_METRICS)}
        return observation_of(machines, pods, used)

    async def close(self) -> None:
        await self._api.close()

    async def _measured(self, kind: Kind) -> dict[Key, Amounts]:
        """Empty: nobody measures it, or we may not read it."""
        if time.monotonic() < self._absent_until[kind]:
            return {}
        try:
            return measured_use((await self._api.list(kind)).items)
        except PermanentError as error:
            self._absent_until[kind] = time.monotonic() + self._retry_absent
            log.debug("%s is not available: %s", kind.full_name, error.message)
            return {}


def observation_of(
    machines: Iterable[Object], pods: Iterable[Object], used: Mapping[Key, Amounts] | None = None
) -> Observation:
    """``pods``: all that have not ended. ``used``: as measured, as far as it is."""
    used = used or {}
    taken: defaultdict[str, Amounts] = defaultdict(Amounts)
    nodes = []
    for pod in pods:
        asked = asked_by(pod["spec"])
        machine = str(pod["spec"].get("nodeName") or "")
        if machine:
            taken[machine] += asked
        if (node := _node(pod, asked, machine, used)) is not None:
            nodes.append(node)
    return Observation(tuple(_machine(machine, taken, used) for machine in machines), tuple(nodes))


def measured_use(items: Iterable[Object]) -> dict[Key, Amounts]:
    """Of PodMetrics (all containers together) and NodeMetrics."""
    found = {}
    for item in items:
        parts = [container.get("usage") or {} for container in item.get("containers") or ()] or [
            item.get("usage") or {}
        ]
        key = item["metadata"].get("namespace", ""), item["metadata"]["name"]
        found[key] = sum(map(amounts, parts), Amounts())
    return found


def asked_by(spec: Mapping[str, Any]) -> Amounts:
    """What a Pod asks for, as the scheduler counts it: its containers together, or the largest that runs before them."""
    together = sum((_requests(container) for container in spec.get("containers") or ()), Amounts())
    before = Amounts()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":  # a sidecar: runs beside what follows
            together += _requests(container)
        else:
            before = before.at_least(_requests(container))
    return together.at_least(before) + amounts(spec.get("overhead") or {})


def amounts(quantities: Mapping[str, Any]) -> Amounts:
    return Amounts(
        amount(quantities.get("cpu")) or 0.0,
        (amount(quantities.get("memory")) or 0.0) / MB,
        int(amount(quantities.get(GPU)) or 0),
    )


def _requests(container: Mapping[str, Any]) -> Amounts:
    return amounts((container.get("resources") or {}).get("requests") or {})


def _machine(machine: Object, taken: Mapping[str, Amounts], used: Mapping[Key, Amounts]) -> ObservedMachine:
    name = machine["metadata"]["name"]
    size = amounts((machine.get("status") or {}).get("allocatable") or {})
    left = size.without(taken.get(name, Amounts()))
    return ObservedMachine(name, size, left, used.get(("", name), Amounts()), _takes_nodes(machine))


def _takes_nodes(machine: Object) -> bool:
    spec = machine.get("spec") or {}
    conditions = (machine.get("status") or {}).get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    is_reserved = any(taint.get("key") in CONTROL_PLANE for taint in spec.get("taints") or ())
    return is_ready and not spec.get("unschedulable") and not is_reserved


def _node(pod: Object, asked: Amounts, machine: str, used: Mapping[Key, Amounts]) -> ObservedNode | None:
    """None: not a Pod of a job."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    job, role = labels.get(names.JOB_LABEL, ""), labels.get(names.ROLE_LABEL, "")
    name = labels.get(names.NODE_LABEL, "") or (names.MASTER_ROLE if role == names.MASTER_ROLE else "")
    if not job or not name:
        return None
    phase = TERMINATING if metadata.get("deletionTimestamp") else str((pod.get("status") or {}).get("phase") or "")
    use = used.get((metadata["namespace"], metadata["name"]), Amounts())
    return ObservedNode(metadata["namespace"], job, name, role, phase, machine, asked, use)
