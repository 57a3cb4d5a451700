"""The truth of a job: its rate on any set of nodes, its memory, its noise, and what a change costs.

A truth lies outside of the models that algorithms fit (``core/planning``): cores that help less and less, knees of contention,
waiting for the slowest of many, servers of unequal load. A ``Truth`` is a pure value; whatever is random is drawn by the
simulated job (``sim/job.py``) from its own seeded generator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobKind, StepParts


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one role that are alike."""

    count: int
    cpu: float = 0.0  # limit of each, in cores; 0: none
    speed: float = 1.0  # below 1: a straggler
    seats: int = 0  # virtual workers of each; 0: shared out evenly
    share: float = 0.0  # of a parameter server: its part of the load; 0: by the truth


@dataclass(frozen=True, slots=True)
class Throughput:
    """Of a job on some nodes. The tuples have one entry per group of nodes, in the order in which they were given."""

    rate: float = 0.0  # records per second
    parts: StepParts = field(default_factory=StepParts)
    worker_cpu: tuple[float, ...] = ()  # cores used by each
    worker_rate: tuple[float, ...] = ()  # records per second of each
    unit_seconds: tuple[float, ...] = ()  # before the collective, for one virtual worker
    server_cpu: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Cores:
    """How a program uses cores: at most ``limit`` of them, with a serial share (Amdahl)."""

    limit: float = 4.0
    serial: float = 0.05

    def speedup(self, cpu: float) -> float:
        """Against one core; ``cpu`` 0: there is no limit but the program's own."""
        given = min(cpu, self.limit) if cpu else self.limit
        return given if given <= 1.0 else 1.0 / (self.serial + (1.0 - self.serial) / given)


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one node in MB: a start, and growth with the job's records, straight or towards a ceiling."""

    start_mb: float = 300.0
    growth_mb: float = 0.0  # by the end of the job, if it is straight; of all servers together
    saturates: bool = False  # most of the growth comes early

    def at(self, progress: float, nodes: int = 1) -> float:
        """``progress``: share of the job's records, 0 to 1; ``nodes``: that share the growth."""
        grown = 1.0 - math.exp(-5.0 * progress) if self.saturates else progress
        return self.start_mb + self.growth_mb * grown / max(1, nodes)

    def progress_at(self, memory_mb: float, nodes: int = 1) -> float:
        """When it passes this amount, as progress; infinite: never."""
        growth = self.growth_mb / max(1, nodes)
        if memory_mb < self.start_mb:
            return 0.0
        if growth <= 0:
            return math.inf
        share = (memory_mb - self.start_mb) / growth
        if not self.saturates:
            return share
        return -math.log(1.0 - share) / 5.0 if share < 1.0 else math.inf


@dataclass(frozen=True, slots=True)
class Noise:
    sample_sigma: float = 0.05  # log-normal, of one sample of the rate
    drift_sigma: float = 0.0  # log-normal, of the rate itself, slowly
    drift_interval_s: float = 120.0
    lost_reports: float = 0.0  # share of samples that never arrive


@dataclass(frozen=True, slots=True)
class Costs:
    """Of a change, in seconds."""

    start_s: float = 15.0  # from the grant of a node until its program works
    reform_s: float = 1.0  # all wait, when workers join or leave (allreduce, synchronous servers)
    move_s: float = 20.0  # all wait, to move all parameters; a server that comes or goes moves its share
    restore_s: float = 20.0  # all wait, when a server dies: it replays
    reprocess_s: float = 5.0  # work of a worker that is lost with it


@dataclass(frozen=True, slots=True)
class Hardships:
    """What happens to nodes of the job by chance."""

    straggler_share: float = 0.0  # of nodes that are slow from their start on
    straggler_speed: float = 0.5
    slowdowns_per_hour: float = 0.0  # a worker becomes slow for the rest of its life


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth(ABC):
    records: int = 1_000_000
    worker_memory: Memory = field(default_factory=Memory)
    server_memory: Memory = field(default_factory=Memory)
    noise: Noise = field(default_factory=Noise)
    costs: Costs = field(default_factory=Costs)
    hardships: Hardships = field(default_factory=Hardships)
    virtual_workers: int = 0
    tail_s: float = 0.0  # after the last shard is handed out, a few workers still finish theirs

    @property
    @abstractmethod
    def kind(self) -> JobKind: ...

    @abstractmethod
    def throughput(self, workers: Sequence[NodeGroup], servers: Sequence[NodeGroup] = ()) -> Throughput:
        """On these nodes; no rate at all if there is nobody who could work."""

    def rate_of(self, configuration: Configuration) -> float:
        """With all nodes up and none slow."""
        return self.throughput(groups_of(configuration.worker), groups_of(configuration.server)).rate

    def balanced(self) -> Truth:
        """With the load spread as well as it can be."""
        return self

    @property
    def is_synchronous(self) -> bool:
        return self.kind in (JobKind.ALLREDUCE, JobKind.PS_SYNC)

    def memory_of(self, role: str) -> Memory:
        return self.server_memory if role == "ps" else self.worker_memory


def groups_of(shape: Shape | None) -> tuple[NodeGroup, ...]:
    return (NodeGroup(shape.replicas, shape.cpu),) if shape is not None and shape.replicas else ()


def soft_min(first: float, second: float, sharpness: float) -> float:
    """The smaller of two limits, with a rounded knee between them."""
    if first <= 0 or second <= 0:
        return 0.0
    low, high = sorted((first, second))
    return float(low * (1.0 + (low / high) ** sharpness) ** (-1.0 / sharpness))


def slowest_of(count: int, spread: float) -> float:
    """How much longer the slowest of so many takes than the mean, if each varies by this much."""
    return 1.0 + spread * math.sqrt(2.0 * math.log(count)) if count > 1 else 1.0
