"""What one node is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
