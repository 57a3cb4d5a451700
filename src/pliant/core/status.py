"""What is known of a job at one moment: the one status model of the project.

A living master, a reader of the journal (``master/offline.py``) and a simulation all make it with
``core.status_builder.build_status``. Whoever shows or sends it converts it, each in one place: ``core.status_json`` (the
summary and ``--json``), ``rpc.status`` (protobuf), ``platforms.kubernetes.job_status`` (the status of an ElasticJob) and
``master.metrics`` (Prometheus). Everything here is a frozen, plain value: two statuses are equal if they say the same.

Times are seconds since the epoch; 0 means not yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pliant.core.job import Failure, Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import ENDED as ENDED_NODE_STATES
from pliant.core.nodes.states import NodeState
from pliant.core.planning.planner_state import PlannerState
from pliant.core.plurals import counted
from pliant.core.progress import LOSS
from pliant.core.rendezvous.book import World
from pliant.core.resources import Resources
from pliant.core.shards.datasets import ShardType

WAITING = "WaitingForNodes"  # type of the condition that says what a job waits for (``core.waiting``)
SEPARATE_MODELS, INDEPENDENT_WORKERS = (
    "SeparateModels",
    "IndependentWorkers",
)  # likewise, of hints (``core.combination``)
CHECKPOINTS_FAILING = "CheckpointsFailing"  # likewise, of checkpoints (``core.checkpoints``)
WARNINGS = frozenset({SEPARATE_MODELS, INDEPENDENT_WORKERS, CHECKPOINTS_FAILING})
BRAIN_LEADS, BRAIN_AWAY = "leads", "away"  # what a planner's status says of the Brain; empty: the job has none


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as Kubernetes has them: what holds of the job, why, and since when (RFC 3339)."""

    type: str
    status: str  # True, False or Unknown
    reason: str = ""
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """The nodes of one role, by state."""

    name: str
    min: int
    max: int
    wanted: int  # how many there should be; those that succeeded count
    ready: int = 0  # running and registered
    pending: int = 0  # starting, or waiting for room
    succeeded: int = 0
    failed: int = 0
    cpu: float = 0.0  # cores that each node should have; 0: no limit
    memory_mb: float = 0.0  # likewise
    gpu: int = 0
    rollout: str = ""  # how nodes get these resources now: in-place or rolling; empty: they have them
    rollout_done: int = 0  # nodes that have got them
    rollout_total: int = 0  # nodes that have to get them

    @property
    def present(self) -> int:
        """Those that run, and those that are done: all of a job that succeeded."""
        return self.ready + self.succeeded

    @property
    def resources(self) -> Resources:
        return Resources(self.cpu, int(self.memory_mb), self.gpu)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    name: str
    role: str
    state: NodeState
    exit_reason: ExitReason | None = None
    message: str = ""
    pid: int = 0  # of the program; 0: none is known to run
    agent_pid: int = 0
    host: str = ""
    restarts: int = 0  # of the program, in place
    replaces: str = ""
    cpu: float = 0.0  # cores in use
    memory_mb: float = 0.0
    memory_limit_mb: float = 0.0
    records_per_second: float = 0.0
    created_at: float = 0.0
    ended_at: float = 0.0
    records: int = 0
    cpu_limit: float = 0.0  # cores that it was given; 0: no limit
    gpu: int = 0
    peak_memory_mb: float = 0.0  # the most that was measured; 0: nothing was
    virtual_workers: int = 0  # that it hosts now
    unit_seconds: float = (
        0.0  # that it needs for one micro-batch of a step, before it waits for others; 0: not measured
    )

    @property
    def ended(self) -> bool:
        return self.state in ENDED_NODE_STATES


@dataclass(frozen=True, slots=True)
class ParkedShard:
    """A shard that is handed out no more: it failed too often, or was lost with its worker."""

    name: str
    start: int
    end: int
    epoch: int
    failures: int
    message: str


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition of a stream, in offsets of its own."""

    name: str
    start: int = 0
    position: int = 0  # of the next record to hand out
    end: int = 0  # as far as it has grown
    closed: bool = False
    records_done: int = 0


@dataclass(frozen=True, slots=True)
class DatasetStatus:
    name: str
    type: ShardType = ShardType.TRAIN
    records_per_epoch: int = 0
    records_done: int = 0
    records_total: int = 0  # over all epochs; of an open stream, what is known so far
    epochs: int = 1
    epochs_done: int = 0
    shards_done: int = 0
    shards_total: int = 0
    shards_in_work: int = 0
    shards_waiting: int = 0  # came back, not handed out again yet
    parked: tuple[ParkedShard, ...] = ()
    complete: bool = False
    lease_timeout: float = 0.0  # seconds
    partitions: tuple[PartitionStatus, ...] = ()  # of a stream that has some
    exact: bool = False  # each record was accepted exactly once, here or before the position it was restored from
    records_restored: int = 0  # of those done, at that position


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the job is: by its programs' reports, else over all datasets. A metric that is not a finite number is None."""

    records_done: int = 0
    records_total: int = 0  # of all epochs; 0: not known
    step: int = 0  # the newest training step
    epoch: int = 0  # epochs that are done
    total_steps: int = 0  # 0: not known
    metrics: Mapping[str, float | None] = field(default_factory=dict)  # the programs' own, last values

    @property
    def loss(self) -> float | None:
        """The last that was reported."""
        return self.metrics.get(LOSS)

    @property
    def percent(self) -> float | None:
        """Of the steps where their number is known, else of the records; None: neither is."""
        done, total = (self.step, self.total_steps) if self.total_steps else (self.records_done, self.records_total)
        return min(100.0, 100 * done / total) if total else None


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """The newest plan: of a person, or of the planner, whatever became of it."""

    name: str
    reason: str = ""
    time: str = ""  # when it was made, RFC 3339
    algorithm: str = ""  # that made it; empty: a person
    outcome: str = ""  # of a plan of the planner, as ``pliant plans`` has it
    judgement: str = ""  # for people: what came of it


@dataclass(frozen=True, slots=True)
class GrantStatus:
    """The most that a job may have under its quota, over all of its nodes, as the Brain said last."""

    nodes: int  # 0: nothing, the job is suspended until a later grant
    cpu: float = 0.0  # cores; a node without a limit counts as one
    memory_mb: float = 0.0  # 0: no limit
    reason: str = ""

    def __str__(self) -> str:
        if not self.nodes:
            return "nothing"
        memory = f", {self.memory_mb:.0f} MB" if self.memory_mb else ""
        return f"at most {counted(self.nodes, 'node')}, {self.cpu:g} CPU{memory}"

    def sentence(self) -> str:
        """For people."""
        return f"the quota grants {self}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class PlannerStatus:
    """Of a job that plans its own resources, or that the Brain plans for."""

    state: PlannerState
    until: float = 0.0  # end of the pause or the cool-down, which may be past; 0: neither
    reason: str = ""  # of the pause, or of the plan that is under way
    plan: str = ""  # the one that is under way; empty: none
    dry_run: bool = False  # plans are only shown
    brain: str = ""  # BRAIN_LEADS or BRAIN_AWAY; empty: the job has no Brain
    grant: GrantStatus | None = None  # None: no quota limits the job

    @property
    def planned_by(self) -> str:
        """For people: who plans now."""
        if self.brain == BRAIN_LEADS:
            return "planned by the Brain"
        return "the Brain is away: planned by the job's master" if self.brain else "planned by the job"

    def waits_for(self, now: float) -> str:
        """Why no plan is made now, whatever the algorithms say; empty: nothing keeps it."""
        left = f"for another {max(0.0, self.until - now):.0f} s"
        if self.state is PlannerState.PAUSED:
            return f"paused {left}: {self.reason}"
        if self.plan:
            return f"plan {self.plan} is {self.state.value}: {self.reason}"
        return f"cool-down {left}" if self.state is PlannerState.OBSERVING and now < self.until else ""

    def sentence(self, now: float) -> str:
        """For people."""
        waits = self.waits_for(now)
        text = f"{self.state.value}, {waits}" if waits.startswith("cool-down") else waits or self.state.value
        led = f"; {self.planned_by}" if self.brain else ""
        return f"{text} (dry run: plans are only shown){led}" if self.dry_run else f"{text}{led}"


def mode_of(planner: PlannerStatus | None) -> str:
    """The ``optimize.mode`` of a job with this planner."""
    if planner is None:
        return "manual"
    return "cluster" if planner.brain else "single-job"


@dataclass(frozen=True, slots=True)
class EvaluationStatus:
    """The result of one evaluation. A metric that is not a finite number is None."""

    version: int  # of the model
    metrics: Mapping[str, float | None]
    records: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """What became of the checkpoints for one destination."""

    directory: str
    written: int = 0  # complete checkpoints
    last_step: int = 0  # of the newest complete one
    last_time: float = 0.0
    failures: int = 0  # checkpoints that could not be written
    failures_in_a_row: int = 0  # up to now; 0: the last one was written
    failing_since: float = 0.0
    reason: str = ""  # of the last failure, also one that is over
    hint: str = ""
    node: str = ""  # that reported it


@dataclass(frozen=True, slots=True)
class ServerStats:
    """What a parameter server says of itself."""

    rows: int = 0
    bytes: int = 0  # of memory that parameters take
    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0
    queue: int = 0  # requests in work, and pushes that wait for their order
    apply_seconds: float = 0.0
    cpu_seconds: float = 0.0
    log_bytes: int = 0
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class SeatStatus:
    """One seat of the parameter servers and the node that holds it."""

    seat: int
    node: str = ""
    address: str = ""  # empty: nobody serves it now
    fencing_token: int = 0
    partitions: int = 0
    floats: int = 0  # of dense variables
    weight: float = 1.0
    leaving: bool = False
    stats: ServerStats = ServerStats()
    order: int = 0  # the last one that it executed


@dataclass(frozen=True, slots=True)
class ParametersStatus:
    """The parameter servers and the replicated log of orders that they execute."""

    sync: bool
    iteration: int = 0
    batch: int = 0
    contributions: int = 0
    examples: int = 0  # applied
    stale: int = 0  # dropped since this master started
    moved: int = 0  # staged again, likewise
    last_order: int = 0
    dump_order: int = 0  # of the newest complete dump; 0: there is none
    dump_iteration: int = 0
    map_version: int = 0
    seats: tuple[SeatStatus, ...] = ()
    staleness: tuple[int, ...] = ()  # contributions that were 0, 1, 2, up to 4, 8, 16, 32, 64 and more iterations old
    moves: int = 0  # orders to move partitions, since this master started


@dataclass(frozen=True, slots=True)
class JobStatus:
    name: str
    phase: Phase
    reason: str = ""  # why it is in this phase
    message: str = (
        ""  # for people: what keeps it from running as wanted, or how it ended, with the failed node's message
    )
    started_at: float = 0.0
    suspended_at: float = 0.0
    ended_at: float = 0.0
    time: float = 0.0  # when this was so
    master_starts: int = 0
    components: tuple[str, ...] = ()  # of the master
    conditions: tuple[Condition, ...] = ()  # what holds of the job; on a cluster, as the platform states them
    roles: tuple[RoleStatus, ...] = ()
    nodes: tuple[NodeStatus, ...] = ()
    datasets: tuple[DatasetStatus, ...] = ()
    progress: Progress = Progress()
    records_per_second: float = 0.0
    steps_per_second: float = 0.0
    stalled_seconds: float = 0.0  # time in which no record was finished although there was work
    eta: float | None = None  # seconds until all steps or records are done
    goodput: float | None = None  # percent of the time of wanted workers in which they ran
    last_plan: PlanStatus | None = None
    planner: PlannerStatus | None = None  # None: nothing is planned
    evaluations: tuple[EvaluationStatus, ...] = ()
    best: EvaluationStatus | None = None
    first_failure: Failure | None = None
    world: World | None = None
    parameters: ParametersStatus | None = None
    checkpoints: tuple[CheckpointStatus, ...] = ()  # by destination

    @property
    def optimize(self) -> str:
        """Who plans resources: a person (manual), the job's master (single-job), or the Brain (cluster)."""
        return mode_of(self.planner)

    @property
    def global_step(self) -> int:
        return self.progress.step

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return max(0.0, (self.ended_at or self.time) - self.started_at) if self.started_at else 0.0

    @property
    def waiting(self) -> Condition | None:
        """What the job waits for, if it does: see ``core.waiting``."""
        return next((c for c in self.conditions if c.type == WAITING and c.status == "True"), None)

    @property
    def warnings(self) -> list[str]:
        """What people should know although the job goes on: see ``core.combination``, ``core.checkpoints``."""
        return [c.message for c in self.conditions if c.type in WARNINGS and c.status == "True"]

    @property
    def live_nodes(self) -> list[NodeStatus]:
        return [node for node in self.nodes if not node.ended]

    @property
    def journaled_datasets(self) -> tuple[str, ...]:
        """Those of which only the master's journal knows what is done. The train-end shard, which the training service makes by
        itself, is none of them until somebody takes it."""
        return tuple(dataset.name for dataset in self.used_datasets)

    @property
    def used_datasets(self) -> tuple[DatasetStatus, ...]:
        """All but a train-end shard that nobody took."""
        return tuple(
            dataset
            for dataset in self.datasets
            if dataset.type is not ShardType.TRAIN_END or dataset.shards_in_work or dataset.shards_done
        )

    @property
    def seats(self) -> tuple[SeatStatus, ...]:
        """Of the parameter servers, if there are any."""
        return self.parameters.seats if self.parameters is not None else ()

    def role(self, name: str) -> RoleStatus | None:
        return next((role for role in self.roles if role.name == name), None)
