"""New resources for nodes that run already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind
from pliant.core.plurals import counted
from pliant.core.resources import Resources, RolloutMode


@dataclass(frozen=True, kw_only=True)
class RolloutStarted(Event, kind=EventKind.ROLLOUT):
    """Nodes that run already get the new resources of their role."""

    role: str
    mode: RolloutMode
    nodes: int
    before: Mapping[str, float]
    resources: Mapping[str, float]
    reason: str

    def _sentence(self) -> str:
        how = "to be resized in place" if self.mode is RolloutMode.IN_PLACE else "to be replaced one by one"
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.role}: {_words(self.before)} -> {_words(self.resources)} each; {counted(self.nodes, 'node')} {how}{why}"


@dataclass(frozen=True, kw_only=True)
class RolloutFinished(Event, kind=EventKind.ROLLED_OUT):
    role: str
    nodes: int
    resources: Mapping[str, float]
    seconds: float
    reason: str

    def _sentence(self) -> str:
        updated = f"{counted(self.nodes, 'node')} updated in {self.seconds:.1f} s"
        return f"{self.role}: all nodes have {_words(self.resources)}; {updated}"


@dataclass(frozen=True, kw_only=True)
class NodeResized(Event, kind=EventKind.RESIZE):
    node: str
    before: Mapping[str, float]
    resources: Mapping[str, float]
    reason: str

    def _sentence(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"resizing {self.node} in place: {_words(self.before)} -> {_words(self.resources)}{why}"


@dataclass(frozen=True, kw_only=True)
class ResizeRefused(Event, kind=EventKind.RESIZE_REFUSED):
    node: str
    resources: Mapping[str, float]
    reason: str

    def _sentence(self) -> str:
        return f"{self.node} cannot be resized to {_words(self.resources)} now: {self.reason}"


def _words(resources: Mapping[str, float]) -> str:
    return str(Resources.from_json({"cpu": 0, "memory_mb": 0, "gpu": 0, **resources}))
