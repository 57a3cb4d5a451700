"""What an algorithm answers: a change with its reason, and what it predicts of it.

A proposal says nothing of ids, versions or expiry: the planner (``planner.py``) makes a ``ResourcePlan`` of it, one at a time,
and judges it by its prediction afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of the settled state after the change; the interval is meant to hold in 90 of 100 cases."""

    rate: float  # records per second
    low: float
    high: float
    memory_mb: float = 0.0  # of the fullest node; 0: not predicted
    node_seconds: float = 0.0  # until the job's end; 0: not predicted
    change_s: float = 0.0  # seconds without a record, for the change itself

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Proposal:
    algorithm: str
    reason: str  # one sentence that a person understands
    configuration: Configuration  # all of what is desired; equal to the present one if only nodes change
    prediction: Prediction | None = None  # None: it is not about speed (memory, a node that is slow)
    replace: tuple[str, ...] = ()  # nodes
    seats: Mapping[str, int] = field(default_factory=dict)  # virtual workers by worker; empty: as they are
    moves: Mapping[str, float] = field(default_factory=dict)  # of a server: share of its partitions that moves away
    urgent: bool = False  # waits for no cool-down: memory that runs out
    at_next_restart: bool = False  # only for nodes that are launched anyway
    advice: bool = False  # for people only, by its reason: nothing of it may be carried out while the job runs

    def to_json(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "reason": self.reason,
            "configuration": self.configuration.to_json(),
            "prediction": self.prediction.to_json() if self.prediction is not None else None,
            "replace": list(self.replace),
            "seats": dict(self.seats),
            "moves": dict(self.moves),
            "urgent": self.urgent,
            "at_next_restart": self.at_next_restart,
            "advice": self.advice,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Proposal:
        prediction = value["prediction"]
        return cls(
            **{
                **value,
                "configuration": Configuration.from_json(value["configuration"]),
                "prediction": Prediction(**prediction) if prediction is not None else None,
                "replace": tuple(value["replace"]),
            }
        )


class Algorithm(Protocol):
    """A pure function: opens no socket, reads no clock and no database; deterministic."""

    @property
    def name(self) -> str: ...

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        """None: nothing to change, as far as this algorithm can see."""
