"""What algorithms plan by: all that is known of a job at one moment, as plain values.

``JobHistory`` is the whole input of an algorithm (``algorithms/``) beside the time. The master builds one from its samples, the
Brain from its database, the simulator from its virtual jobs; an algorithm cannot tell which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pliant.core.planning.configuration import Bounds, Configuration


class JobKind(StrEnum):
    """How workers depend on each other: what decides which model of speed is fitted."""

    QUEUE = "queue"  # shards only: workers are independent
    ALLREDUCE = "allreduce"  # synchronous, a fixed number of virtual workers
    PS_ASYNC = "ps-async"
    PS_SYNC = "ps-sync"


class Objective(StrEnum):
    FASTEST = "fastest"
    BALANCED = "balanced"  # the knee of rate and cost
    CHEAPEST = "cheapest"


@dataclass(frozen=True, slots=True)
class StepParts:
    """Where the time of a worker goes, as shares of it; they add up to at most 1, the rest is unknown."""

    data: float = 0.0  # waiting for shards or records
    compute: float = 0.0
    peers: float = 0.0  # waiting in a collective, a pull or a push


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of constant configuration; what came right after the change is cut off. Fits use periods, not points."""

    configuration: Configuration
    began: float  # seconds since the epoch, of the settled part
    ended: float
    rate: float  # accepted records per second
    error: float  # standard error of the rate
    samples: int
    parts: StepParts = StepParts()


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node, summed up over the last minutes."""

    name: str
    role: str
    cpu: float = 0.0  # cores used, mean
    cpu_p95: float = 0.0
    cpu_limit: float = 0.0  # 0: none
    throttled: float = 0.0  # share of time in which the cgroup held it back
    memory_mb: float = 0.0  # now
    memory_peak_mb: float = 0.0
    memory_limit_mb: float = 0.0  # 0: none
    memory_points: tuple[tuple[float, float], ...] = ()  # (records accepted by the job, MB), oldest first, thinned out
    records_per_second: float = 0.0
    unit_seconds: float = 0.0  # of an allreduce worker: time before the collective, for one virtual worker
    virtual_workers: int = 0
    age_s: float = 0.0
    host: str = ""
    rows: int = 0  # of a parameter server
    bytes_per_second: float = 0.0
    partition_load: tuple[tuple[int, float], ...] = ()  # (partition, share of the server's load), heaviest first


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A censored sample: the node would have used more than it was allowed to."""

    time: float
    role: str
    limit_mb: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """An earlier job of the same kind: what it ended with."""

    similarity: float  # 0 to 1
    ended: float
    configuration: Configuration
    rate: float
    worker_memory_p95_mb: float = 0.0
    server_memory_p95_mb: float = 0.0
    succeeded: bool = True


@dataclass(frozen=True, slots=True)
class Room:
    """What the platform could give beside what the job has. Free room for one more node is the largest shape that fits."""

    free_cpu: float
    free_memory_mb: float
    largest_cpu: float = 0.0  # that one more node could get
    largest_memory_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class ChangeCosts:
    """Measured: seconds without a record when the number of nodes or their resources change."""

    scale_up_s: float = 5.0
    scale_down_s: float = 1.0
    replace_s: float = 10.0
    move_partitions_s: float = 2.0
    start_s: float = 15.0  # from the decision to launch a node until it trains; others work meanwhile


@dataclass(frozen=True, slots=True)
class JobHistory:
    kind: JobKind
    configuration: Configuration  # as it is desired now
    bounds: Bounds
    started: float = 0.0
    version: int = 0  # of the desired state
    virtual_workers: int = 0  # of an allreduce job
    remaining_records: int | None = None  # None: unknown
    objective: Objective = Objective.BALANCED
    deadline: float | None = None  # seconds since the epoch
    budget_node_s: float | None = None  # that are left
    periods: tuple[Period, ...] = ()  # oldest first; the last one may still go on
    settling_since: float | None = None  # the configuration changed then and has not settled yet
    nodes: tuple[NodeView, ...] = ()
    pending: tuple[str, ...] = ()  # nodes that wait for room
    pending_since: float | None = None
    out_of_memory: tuple[OutOfMemory, ...] = ()
    similar: tuple[FinishedJob, ...] = ()
    room: Room | None = None
    costs: ChangeCosts = field(default_factory=ChangeCosts)
    replaced_stragglers: int = 0
    can_resize: bool = True  # the platform gives running nodes other resources; else they are replaced one by one
    is_single_machine: bool = False  # another node would be on the same one
