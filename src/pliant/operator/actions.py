"""What the operator may do for a job, as plain values: decided in one place, carried out in another."""

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
    """Tell how the job is doing, unless it changed since it was looked at: another may have told better."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreateMaster:
    """Make what a master needs, where it is not there yet, and its Pod."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    name: str
    uid: str
    grace: float | None = None  # seconds; None: as the Pod says
    replaces_master: bool = False  # it failed; the next one waits a little


@dataclass(frozen=True, slots=True)
class ForceIfLost:
    """Remove a Pod that cannot end since its machine is gone; leave it if the machine is there."""

    name: str
    uid: str
    machine: str
    overdue: float  # seconds


@dataclass(frozen=True, slots=True)
class DeletePlan:
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """Give a plan its owner, or an answer in its status."""

    plan: Object
    patch: Mapping[str, Any]
    status: bool


@dataclass(frozen=True, slots=True)
class Tell:
    """An Event of Kubernetes, which ``kubectl describe`` shows."""

    reason: str
    message: str
    warning: bool = False


Action = PatchJob | PatchStatus | CreateMaster | DeletePod | ForceIfLost | DeletePlan | PatchPlan | Tell


@dataclass(frozen=True, slots=True)
class Decision:
    actions: tuple[Action, ...] = ()
    again: float | None = None  # seconds until it is worth another look, if nothing changes before
