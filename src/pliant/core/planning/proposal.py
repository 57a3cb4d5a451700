"""What an algorithm answers: a change with its reason, and what it predicts of it.

A proposal says nothing of ids, versions or expiry: the planner (``planner.py``) makes a ``ResourcePlan`` of it, one at a time,
and judges it by its prediction afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

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


class Algorithm(Protocol):
    """A pure function: opens no socket, reads no clock and no database; deterministic."""

    name: str

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        """None: nothing to change, as far as this algorithm can see."""
