"""What a generator plans by: samples of what nodes use and of how fast the job is, and the questions it may ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pliant.core.planning.time_spent import TimeSpent


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """One sample of one node."""

    time: float  # seconds since the epoch
    cpu: float = 0.0  # cores
    memory_mb: float = 0.0
    memory_limit_mb: float = 0.0
    cpu_limit: float = 0.0  # cores; 0: none
    throttled: float = 0.0  # share of the time in which the limit kept it from running
    time_spent: TimeSpent | None = None  # of its program, so far


@dataclass(frozen=True, slots=True)
class ThroughputSample:
    """How fast the job is now."""

    time: float  # seconds since the epoch
    records_per_second: float
    step: int  # the newest that any worker reported


class StatsQuery(ABC):
    """What was collected of a job."""

    @abstractmethod
    def usage_of(self, node: str) -> Sequence[NodeUsage]:
        """The samples that are kept of a node, oldest first."""

    @abstractmethod
    def report_resource_usage(self) -> Mapping[str, NodeUsage]:
        """The latest sample of each node."""

    @abstractmethod
    def throughput(self, node: str | None = None) -> ThroughputSample:
        """Of the job, or of one node."""
