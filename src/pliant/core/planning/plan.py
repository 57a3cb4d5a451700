"""A resource plan: what a job should have from now on, by role and by node.

A ``ResourceGenerator`` (``master/components/scaling.py``) makes plans, of what a person asked for or of what the planner
(``planner.py``) proposes; ``core/changes.py`` turns one into a request for changes, so that it is checked, journaled and answered
like the request of a person. A plan that was made for another version of the desired state is refused, and never merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pliant.core.planning.proposal import Prediction
from pliant.core.resources import Resources, RolloutMode


class JobStage(StrEnum):
    CREATE = "create"  # before the first node is launched
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class RolePlan:
    replicas: int | None = None  # None: as many as now
    resources: Resources | None = None  # of nodes launched from now on; None: as they are
    rollout: RolloutMode = RolloutMode.NEW_NODES  # what becomes of nodes that run already


@dataclass(frozen=True, slots=True)
class Replacement:
    """A node to be replaced by a new one."""

    node: str
    resources: Resources | None = None  # of the new one; None: as this plan says of its role, or as the old one


@dataclass(frozen=True, slots=True)
class ResourcePlan:
    id: str  # a plan is carried out once
    reason: str  # for people
    roles: Mapping[str, RolePlan] = field(default_factory=dict)
    replace: tuple[Replacement, ...] = ()
    base_version: int | None = None  # of the desired state that it was made for; None: of any
    algorithm: str = ""  # that made it; empty: a person
    prediction: Prediction | None = None  # what it will be judged by
    expires: float | None = None  # seconds since the epoch: not carried out after that; None: never
    seats: Mapping[str, int] = field(default_factory=dict)  # virtual workers by worker; empty: as they are
    moves: Mapping[str, float] = field(default_factory=dict)  # of a server: share of its partitions that moves away
    micro_batch: int = 0  # records; 0: as it is
