"""An event with its number and time, as the journal has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.core.events.base import Event, describe, event_from_facts
from pliant.core.events.kinds import EventKind


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event as the journal has it. Numbers begin with 1 and are never used again."""

    number: int
    time: float  # seconds since the epoch
    event: Event

    @property
    def kind(self) -> EventKind:
        return self.event.kind

    @property
    def node(self) -> str:
        """Empty: it concerns no single node."""
        return str(getattr(self.event, "node", ""))

    @property
    def facts(self) -> dict[str, Any]:
        return self.event.facts()

    @property
    def message(self) -> str:
        return describe(self.event)

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "time": self.time,
            "kind": self.kind.value,
            "node": self.node,
            "facts": self.facts,
            "message": self.message,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EventRecord:
        return cls(int(value["number"]), float(value["time"]), event_from_facts(value["kind"], value["facts"]))
