"""What a master knows of its job's Pods and plans: the state that its scaler and its watcher share.

A node is there from the moment that a plan asks for it, not only once its Pod is: the operator may be away for a while. So
the nodes of a job are its Pods and the ``create`` entries of plans that are not executed yet, whether they are ScalePlans already
or only in the outbox. Pure; fed by the watcher.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pliant.core.nodes.fault_policy import ExitReason
from pliant.platforms.base import NodeEvent
from pliant.platforms.kubernetes.exits import PodState, pod_state
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import MADE_BY_LABEL, MADE_BY_MASTER, node_of, plan_name
from pliant.platforms.kubernetes.outbox import as_plan, recorded_sequence, requested_plans
from pliant.platforms.kubernetes.plans import PLAN_ENDED, status_of

NEVER_MADE = "its Pod could not be created"


def is_ours(plan: Object) -> bool:
    """Made by a master, as opposed to a person."""
    return bool((plan["metadata"].get("labels") or {}).get(MADE_BY_LABEL) == MADE_BY_MASTER)


def is_open(plan: Object) -> bool:
    return status_of(plan).get("phase") not in PLAN_ENDED


@dataclass(slots=True)
class View:
    pods: dict[str, Object] = field(default_factory=dict)  # by node
    plans: dict[str, Object] = field(default_factory=dict)  # the master's, by name
    seen: set[str] = field(default_factory=set)  # nodes whose Pods were there at some time
    sequence: int = 0  # of the newest plan
    outbox: set[int] | None = None  # numbers of the plans that have an entry there; None: not read yet

    # --- what is seen

    def outbox_seen(self, job: Object) -> None:
        """The ElasticJob, read before its ScalePlans: it may have plans that the operator has not recorded yet."""
        name, recorded, requests = job["metadata"]["name"], recorded_sequence(job), requested_plans(job)
        self.outbox = set(requests)
        self.sequence = max(self.sequence, recorded)
        for sequence, request in requests.items():
            if sequence > recorded:
                self.plan_seen(as_plan(name, sequence, request))

    def pod_seen(self, pod: Object, *, now: float, gone: bool = False) -> PodState | None:
        """None: an old one of the same name, or no node at all."""
        node = node_of(pod)
        known = self.pods.get(node)
        if not node or (gone and known is not None and known["metadata"]["uid"] != pod["metadata"]["uid"]):
            return None
        self.seen.add(node)
        if gone:
            self.pods.pop(node, None)
        else:
            self.pods[node] = pod
        return pod_state(pod, now=now, gone=gone)

    def plan_seen(self, plan: Object, *, gone: bool = False) -> list[NodeEvent]:
        """What a plan says of nodes that have no Pod: that the cluster does not take them."""
        if not is_ours(plan):
            return []
        self.sequence = max(self.sequence, int(plan["spec"].get("sequence") or 0))
        name, status = plan["metadata"]["name"], status_of(plan)
        if gone:
            self.plans.pop(name, None)
        else:
            self.plans[name] = plan
        refused = {problem["node"]: problem["message"] for problem in status.get("refused") or []}
        wanted = [entry["node"] for entry in plan["spec"].get("create") or [] if entry["node"] not in self.seen]
        if status.get("phase") == "Failed" or (gone and is_open(plan)):
            why = status.get("message") or NEVER_MADE
            # Of a plan that failed in part, the others were made: their Pods will be seen.
            lost = [node for node in wanted if not refused or node in refused]
            return [NodeEvent(node, False, ExitReason.UNKNOWN, refused.get(node, why)) for node in lost]
        if not is_open(plan):
            return []
        return [NodeEvent(node, True, unschedulable=refused[node]) for node in wanted if node in refused]

    def unseen(self, plan: Object) -> list[str]:
        """Nodes that an executed plan made, and of whose Pods nothing was seen so far."""
        if not is_ours(plan) or status_of(plan).get("phase") != "Succeeded":
            return []
        return [entry["node"] for entry in plan["spec"].get("create") or [] if entry["node"] not in self.seen]

    # --- what is asked

    def finished_in_outbox(self, job: str) -> set[int]:
        """Entries that can go: their ScalePlans are finished, or deleted."""
        plans = {sequence: self.plans.get(plan_name(job, sequence)) for sequence in self.outbox or ()}
        return {sequence for sequence, plan in plans.items() if plan is None or not is_open(plan)}

    def is_there(self, node: str) -> bool:
        return node in self.pods or node in self._being_created()

    def nodes(self, *, now: float) -> list[PodState]:
        """Every node that the cluster knows of."""
        waiting = sorted(self._being_created() - set(self.pods))
        pods = (pod_state(pod, now=now) for pod in self.pods.values())
        return [*pods, *(PodState(NodeEvent(node, True)) for node in waiting)]

    def ended_pods(self) -> list[str]:
        """Nodes whose Pods are over and kept for their logs, the oldest first."""
        over = [(p["metadata"]["creationTimestamp"], n) for n, p in self.pods.items() if _is_over(p)]
        return [node for _, node in sorted(over)]

    def _being_created(self) -> set[str]:
        return {
            entry["node"]
            for plan in _open(self.plans.values())
            for entry in plan["spec"].get("create") or []
            if entry["node"] not in self.seen
        }


def _open(plans: Iterable[Object]) -> list[Object]:
    return [plan for plan in plans if is_open(plan)]


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
