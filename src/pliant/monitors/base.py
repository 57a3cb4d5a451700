"""What a monitor sees of its platform: all machines, and every Pliant node as the platform shows it.

``free`` of a machine is what nobody asked for, which is not what nobody uses: a scheduler places nodes by what was asked for. Both
are told. An ``Observation`` is whole: a machine or a node that is not in it is not there any more.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from pliant.core.resources import Resources

DEFAULT_INTERVAL_S = 5.0  # from one observation to the next


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of a machine or a node: cores, MB, GPUs."""

    cpu: float = 0.0
    memory_mb: float = 0.0
    gpu: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu + other.cpu, self.memory_mb + other.memory_mb, self.gpu + other.gpu)

    def without(self, taken: Amounts) -> Amounts:
        """What is left; of an overcommitted machine that is nothing."""
        return Amounts(
            max(0.0, self.cpu - taken.cpu),
            max(0.0, self.memory_mb - taken.memory_mb),
            max(0, self.gpu - taken.gpu),
        )

    def at_least(self, other: Amounts) -> Amounts:
        """Of each the larger one."""
        return Amounts(max(self.cpu, other.cpu), max(self.memory_mb, other.memory_mb), max(self.gpu, other.gpu))

    @classmethod
    def of(cls, resources: Resources) -> Amounts:
        return cls(resources.cpu, float(resources.memory_mb), resources.gpu)


@dataclass(frozen=True, slots=True)
class ObservedMachine:
    name: str
    size: Amounts  # that can be given to nodes
    free: Amounts  # not asked for by anybody
    used: Amounts = field(default_factory=Amounts)  # measured; zero where the platform does not say
    is_ready: bool = True  # it takes nodes


@dataclass(frozen=True, slots=True)
class ObservedNode:
    namespace: str
    job: str
    name: str
    role: str
    phase: str  # in the words of the platform
    machine: str  # empty: not on one yet
    asked: Amounts
    used: Amounts = field(default_factory=Amounts)


@dataclass(frozen=True, slots=True)
class Observation:
    machines: tuple[ObservedMachine, ...]
    nodes: tuple[ObservedNode, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class ClusterMonitor(ABC):
    """One platform, as it is now. Constructed without arguments by ``registry.make_monitor``."""

    platform: ClassVar[str]

    @abstractmethod
    async def observe(self) -> Observation:
        """All that there is. ``RetryableError``: it cannot be seen now; then nothing is sent."""

    async def close(self) -> None:
        return

    @property
    def title(self) -> str:
        """Its platform and where it runs, for people."""
        return f"{self.platform} monitor on {socket.gethostname()}"
