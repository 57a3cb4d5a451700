"""What a job has: nodes per role and what each is given; and the bounds that no plan may leave.

A ``Configuration`` is the unit that is measured (a *period* is a stretch of time with one of them, ``history.py``), fitted,
enumerated and planned. Bounds come from the spec, the platform and a quota; they are never overridden, not even for an instant
while a plan is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Shape:
    """The nodes of one role. Zero CPU or memory: no limit is set."""

    replicas: int
    cpu: float = 0.0  # cores of each node
    memory_mb: int = 0  # of each node
    gpu: int = 0  # of each node; no algorithm changes it

    def __str__(self) -> str:
        parts = [
            f"{self.cpu:g} CPU" if self.cpu else "",
            f"{self.memory_mb} MB" if self.memory_mb else "",
            f"{self.gpu} GPU" if self.gpu else "",
        ]
        each = ", ".join(part for part in parts if part)
        return f"{self.replicas} x ({each})" if each else str(self.replicas)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Of a job: its workers, its parameter servers if it has some, and the records of one micro-batch."""

    worker: Shape
    server: Shape | None = None
    micro_batch: int = 0  # records; 0: unknown, or each worker's own business

    @property
    def nodes(self) -> int:
        return self.worker.replicas + (self.server.replicas if self.server is not None else 0)

    @property
    def cpu(self) -> float:
        """Cores over all nodes; a node without a limit counts as one core."""
        shapes = [self.worker, self.server] if self.server is not None else [self.worker]
        return sum(shape.replicas * (shape.cpu or 1.0) for shape in shapes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Configuration:
        server = value["server"]
        return cls(Shape(**value["worker"]), Shape(**server) if server is not None else None, value["micro_batch"])

    def __str__(self) -> str:
        workers = f"workers {self.worker}"
        return workers if self.server is None else f"{workers}, servers {self.server}"


@dataclass(frozen=True, slots=True)
class RoleBounds:
    """Of one role. Zero as a maximum of CPU or memory: there is none."""

    min_replicas: int
    max_replicas: int
    unit: int = 1  # replicas come in multiples of it
    min_cpu: float = 0.0
    max_cpu: float = 0.0
    min_memory_mb: int = 0
    max_memory_mb: int = 0

    def allows(self, shape: Shape) -> bool:
        return (shape.replicas, shape.cpu, shape.memory_mb) == self._clipped(shape)

    def clip(self, shape: Shape) -> Shape:
        """The nearest shape within the bounds."""
        replicas, cpu, memory_mb = self._clipped(shape)
        return Shape(replicas, cpu, memory_mb, shape.gpu)

    def _clipped(self, shape: Shape) -> tuple[int, float, int]:
        units = max(
            -(-self.min_replicas // self.unit), min(self.max_replicas // self.unit, shape.replicas // self.unit)
        )
        return (
            min(max(units * self.unit, self.min_replicas), self.max_replicas),
            _between(shape.cpu, self.min_cpu, self.max_cpu),
            int(_between(shape.memory_mb, self.min_memory_mb, self.max_memory_mb)),
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    worker: RoleBounds
    server: RoleBounds | None = None
    max_cpu: float = 0.0  # over all nodes, by the machine or a quota; 0: no limit
    max_memory_mb: int = 0

    def allows(self, configuration: Configuration) -> bool:
        worker, server = configuration.worker, configuration.server
        if (server is None) != (self.server is None) or not self.worker.allows(worker):
            return False
        if server is not None and self.server is not None and not self.server.allows(server):
            return False
        memory = worker.replicas * worker.memory_mb + (server.replicas * server.memory_mb if server is not None else 0)
        has_cpu = not self.max_cpu or configuration.cpu <= self.max_cpu + 1e-9
        return has_cpu and (not self.max_memory_mb or memory <= self.max_memory_mb)

    def clip(self, configuration: Configuration) -> Configuration:
        """The nearest one within the bounds of each role; the sums may still be too much."""
        server = configuration.server
        if server is not None and self.server is not None:
            server = self.server.clip(server)
        return Configuration(self.worker.clip(configuration.worker), server, configuration.micro_batch)


def _between(value: float, low: float, high: float) -> float:
    if not value:  # nothing is asked for, and no limit is set
        return value
    return max(low, min(value, high)) if high else max(low, value)
