"""Torchrun groups and elastic worlds."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind


@dataclass(frozen=True, kw_only=True)
class GroupConnected(Event, kind=EventKind.GROUP_CONNECTED):
    node: str
    generation: int

    def _sentence(self) -> str:
        return f"the program of {self.node} is connected to its peers, as under torchrun"


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
        return f"generation {self.generation} has {self.world_size} programs; {self.node} is rank 0"


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
        return f"worlds have {self.min_nodes} to {self.max_nodes} members from now on"


@dataclass(frozen=True, kw_only=True)
class MemberSilent(Event, kind=EventKind.SILENT):
    node: str
    seconds: float

    def _sentence(self) -> str:
        return f"{self.node} was silent for {self.seconds:.0f} s and is removed from its world"


@dataclass(frozen=True, kw_only=True)
class WorldTakenOver(Event, kind=EventKind.WORLD_TAKEN_OVER):
    node: str  # that announced it
    round: int
    members: tuple[str, ...]

    def _sentence(self) -> str:
        return f"round {self.round} of {len(self.members)} workers goes on, as {self.node} announced it"
