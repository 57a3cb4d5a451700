"""Torchrun groups and elastic worlds."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind
from pliant.core.plurals import counted


@dataclass(frozen=True, kw_only=True)
class GroupConnected(Event, kind=EventKind.GROUP_CONNECTED):
    node: str
    generation: int

    def _sentence(self) -> str:
        return f"the program of {self.node} connected to its peers (as under torchrun)"


@dataclass(frozen=True, kw_only=True)
class GroupRestarted(Event, kind=EventKind.GROUP_RESTART):
    role: str
    generation: int
    reason: str

    def _sentence(self) -> str:
        return f"all programs of role {self.role} restart after generation {self.generation}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class GroupFormed(Event, kind=EventKind.GROUP_FORMED):
    node: str  # of rank 0
    generation: int
    world_size: int

    def _sentence(self) -> str:
        return f"generation {self.generation} has {counted(self.world_size, 'program')}; {self.node} is rank 0"


@dataclass(frozen=True, kw_only=True)
class WorldFormed(Event, kind=EventKind.WORLD):
    round: int
    members: tuple[str, ...]
    reason: str

    def _sentence(self) -> str:
        return f"round {self.round}: {', '.join(self.members)} ({self.reason})"


@dataclass(frozen=True, kw_only=True)
class WorldLimitsSet(Event, kind=EventKind.WORLD_LIMITS):
    min_nodes: int
    max_nodes: int

    def _sentence(self) -> str:
        return f"worlds now have {self.min_nodes} to {counted(self.max_nodes, 'member')}"


@dataclass(frozen=True, kw_only=True)
class MemberSilent(Event, kind=EventKind.SILENT):
    node: str
    seconds: float

    def _sentence(self) -> str:
        return f"no message from {self.node} for {self.seconds:.0f} s; removed from its world"


@dataclass(frozen=True, kw_only=True)
class WorldTakenOver(Event, kind=EventKind.WORLD_TAKEN_OVER):
    node: str  # that announced it
    round: int
    members: tuple[str, ...]

    def _sentence(self) -> str:
        return f"round {self.round} of {counted(len(self.members), 'worker')} continues, as announced by {self.node}"
