"""What nodes are given, and plans to change it. Plans carry their reason as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Resources:
    """Of one node. Zero means that nothing is asked for and no limit is set."""

    cpu: float = 0.0
    memory_mb: int = 0
    gpu: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"cpu": self.cpu, "memory_mb": self.memory_mb, "gpu": self.gpu}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Resources:
        return cls(float(value["cpu"]), int(value["memory_mb"]), int(value["gpu"]))


@dataclass(frozen=True, slots=True)
class RolePlan:
    replicas: int
    resources: Resources | None = None  # None: as they are


@dataclass(frozen=True, slots=True)
class ResourcePlan:
    """What the job should have from now on."""

    roles: Mapping[str, RolePlan]
    reason: str
    replace: tuple[str, ...] = field(default=())  # nodes to be replaced by new ones with the role's resources
