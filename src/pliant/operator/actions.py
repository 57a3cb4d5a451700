"""What the operator can do for a job, as plain values: ``*_decisions`` return them, ``executor`` carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.platforms.kubernetes.kinds import Object


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Fill in a part of the job's spec."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Update the job's status, unless the job changed since it was observed (optimistic concurrency)."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreateMaster:
    """Create the master's Pod and the objects that it needs, as far as they do not exist."""

    takes_over: bool = False  # the living nodes of a master whose journal is lost, see core/takeover.py
    life: str = ""  # of the job, which it continues


@dataclass(frozen=True, slots=True)
class DeletePod:
    name: str
    uid: str
    grace: float | None = None  # seconds; None: as the Pod says
    replaces_master: bool = False  # it failed; its successor is created after a back-off


@dataclass(frozen=True, slots=True)
class ForceDeleteIfLost:
    """Force-delete a Pod whose machine is lost and cannot confirm its end; leave it alone if the machine is there."""

    name: str
    uid: str
    machine: str
    overdue: float  # seconds


@dataclass(frozen=True, slots=True)
class RecordPlans:
    """Make ScalePlans of what the master requested, and note the number of the last one, so that each is made once."""

    plans: tuple[Object, ...]
    recorded: int


@dataclass(frozen=True, slots=True)
class DeletePlan:
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """Set a plan's owner, or its status."""

    plan: Object
    patch: Mapping[str, Any]
    status: bool


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """An Event of Kubernetes, which ``kubectl describe`` shows."""

    reason: str
    message: str
    warning: bool = False


Action = (
    PatchJob
    | PatchStatus
    | CreateMaster
    | DeletePod
    | ForceDeleteIfLost
    | RecordPlans
    | DeletePlan
    | PatchPlan
    | EmitEvent
)


@dataclass(frozen=True, slots=True)
class Decision:
    actions: tuple[Action, ...] = ()
    requeue_after: float | None = None  # seconds; None: reconcile again only when something changes
