"""What one node is given, and how the nodes of a running job come by something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
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

    def __str__(self) -> str:
        parts = (
            (f"{self.cpu:g} CPU", self.cpu),
            (f"{self.memory_mb} MB", self.memory_mb),
            (f"{self.gpu} GPU", self.gpu),
        )
        return ", ".join(text for text, amount in parts if amount) or "no limits"


class RolloutMode(StrEnum):
    """How the nodes that run already get the new resources of their role."""

    AUTO = "auto"  # in place where the platform can resize a running node, else rolling
    IN_PLACE = "in-place"
    ROLLING = "rolling"  # they are replaced, one at a time
    NEW_NODES = "new-nodes"  # not at all: only nodes that are launched from now on
