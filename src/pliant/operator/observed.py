"""The observed state of one job, and how a Pod's state is read.

An object belongs to a job if its owner reference has the job's uid: after a job was deleted and another of the same name
created, what is left of the old one does not belong to the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pliant.core.job import FINAL_PHASES, Phase
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import CONTAINER, MADE_BY_LABEL, MADE_BY_MASTER, life_of, master_name, node_of
from pliant.platforms.kubernetes.outbox import outbox_of, recorded_sequence, requested_plans
from pliant.platforms.kubernetes.plans import PLAN_ENDED, status_of

Key = tuple[str, str]  # namespace and name of a job
READY, NOT_READY = "True", "False"


@dataclass(frozen=True, slots=True)
class StatusReason:
    """One word for programs and a sentence for people, as conditions and Pods have them."""

    reason: str
    message: str = ""


@dataclass(frozen=True)  # without slots, for the cached properties
class ObservedJob:
    """The objects that name a job, whether or not they belong to it; ``job`` is None if no job of that name exists."""

    key: Key
    job: Object | None = None
    plans: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def phase(self) -> str:
        return str(status_of(self.job or {}).get("phase") or "")

    @property
    def ended(self) -> bool:
        return self.phase in FINAL_PHASES

    @property
    def suspended(self) -> bool:
        return bool(self.job and self.job["spec"].get("suspend"))

    @property
    def master(self) -> Object | None:
        return self.pods_by_name.get(master_name(self.name))

    @cached_property
    def pods_by_name(self) -> dict[str, Object]:
        """The job's own."""
        return {pod["metadata"]["name"]: pod for pod in self.own_pods}

    @cached_property
    def own_pods(self) -> tuple[Object, ...]:
        return tuple(pod for pod in self.pods if self.job is not None and owner_uid(pod) == uid_of(self.job))

    @cached_property
    def nodes(self) -> tuple[Object, ...]:
        """Pods of nodes, whatever their state."""
        return tuple(pod for pod in self.own_pods if node_of(pod))

    @cached_property
    def living_nodes(self) -> tuple[Object, ...]:
        """Pods of nodes that run, or will."""
        return tuple(pod for pod in self.nodes if not is_over(pod) and not is_deleting(pod))

    @property
    def datasets(self) -> list[str] | None:
        """Those that the master keeps account of, by its own report; None: it has not reported yet."""
        found = status_of(self.job or {}).get("datasets")
        return None if found is None else [str(name) for name in found]

    @property
    def life(self) -> str:
        """What names this life of the job: the uid of the master's Pod that it began with. A successor that takes over
        continues it."""
        if self.master is not None:
            return life_of(self.master) or uid_of(self.master)
        return next((life for pod in self.living_nodes if (life := life_of(pod))), "")

    @cached_property
    def requested_plans(self) -> dict[int, Object]:
        """What this very job's master asks for, by number, in the order in which it is executed. The API server lets nobody
        else write it but the operator: see ``job_objects.master_rules``."""
        return requested_plans(self.job) if self.job is not None else {}

    @property
    def recorded(self) -> int:
        """The number of the last request that became a ScalePlan."""
        return recorded_sequence(self.job) if self.job is not None else 0

    @property
    def answers(self) -> Mapping[str, Any]:
        """The master's answers to manual plans, by their uids."""
        return outbox_of(self.job or {}).get("answers") or {}

    @cached_property
    def master_plans(self) -> tuple[Object, ...]:
        """ScalePlans that say to be of this very job's master, by number. What they say to do is not executed, but what the master
        requested under this number."""
        mine = (
            plan for plan in self.plans if made_by_master(plan) and self.job and owner_uid(plan) == uid_of(self.job)
        )
        return tuple(sorted(mine, key=sequence_of))

    @property
    def manual_plans(self) -> tuple[Object, ...]:
        return tuple(plan for plan in self.plans if not made_by_master(plan))


def uid_of(item: Object) -> str:
    return str(item["metadata"]["uid"])


def owner_uid(item: Mapping[str, Any]) -> str:
    """Of the ElasticJob that owns it; empty where none does."""
    owners = item["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("kind") == "ElasticJob"), "")


def made_by_master(plan: Object) -> bool:
    return bool((plan["metadata"].get("labels") or {}).get(MADE_BY_LABEL) == MADE_BY_MASTER)


def sequence_of(plan: Object) -> int:
    return int(plan["spec"].get("sequence") or 0)


def has_started(job: Object) -> bool:
    return status_of(job).get("phase") not in (None, Phase.PENDING, Phase.INVALID)


def is_finished(plan: Object) -> bool:
    return status_of(plan).get("phase") in PLAN_ENDED


def is_deleting(item: Object) -> bool:
    return bool(item["metadata"].get("deletionTimestamp"))


def is_over(pod: Object) -> bool:
    """Whether its containers have terminated for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def condition(item: Object, kind: str) -> Object:
    found = (item.get("status") or {}).get("conditions") or ()
    return next((entry for entry in found if entry.get("type") == kind), {})


def is_ready(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == READY and not is_deleting(pod)


def container(pod: Object) -> Object:
    """The state of the node's or the master's own container; empty where nothing is known yet."""
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((entry for entry in found if entry.get("name") == CONTAINER), {})


def last_termination(pod: Object) -> Object:
    """How its container terminated, now or the last time; empty: it never did."""
    state = container(pod)
    now = (state.get("state") or {}).get("terminated")
    return now or (state.get("lastState") or {}).get("terminated") or {}


def micro_time(now: float) -> str:
    """As Leases and Events want it. A fraction of exactly zero is refused by some servers."""
    moment = datetime.fromtimestamp(now, UTC)
    return moment.replace(microsecond=moment.microsecond or 1).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
