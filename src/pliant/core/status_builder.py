"""Makes a ``JobStatus`` from the state of a job, and from what only a living master knows.

Pure: the same ``JobState`` at the same time yields the same status, whether a master holds it, the journal was replayed into
it, or a simulation drives it. What is in no state machine (use of resources, rates, statistics of parameter servers) comes
as ``LiveFigures``; without a master there are none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime

from pliant.core.changes import DesiredState
from pliant.core.checkpoints.book import CheckpointBook
from pliant.core.checkpoints.destination import Destination
from pliant.core.checkpoints.policy import warning
from pliant.core.end_policy import optional_datasets
from pliant.core.job import JobBook, Phase
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.states import Node, NodeState
from pliant.core.parameters.book import ParameterBook
from pliant.core.planning.planner import Planner
from pliant.core.planning.planner_status import planner_status
from pliant.core.progress import TrainingProgress
from pliant.core.shards.datasets import MAX_RECORDS
from pliant.core.shards.queue import ShardQueue
from pliant.core.status import (
    CHECKPOINTS_FAILING,
    CheckpointStatus,
    Condition,
    DatasetStatus,
    EvaluationStatus,
    JobStatus,
    NodeStatus,
    ParametersStatus,
    ParkedShard,
    PartitionStatus,
    PlanStatus,
    Progress,
    RoleStatus,
    SeatStatus,
    ServerStats,
)
from pliant.core.takeover import JOURNAL_LOST
from pliant.core.training import Result
from pliant.core.waiting import waiting_condition

COMPONENTS = ("nodes", "shards", "rendezvous", "training", "parameters")  # of a master that people know of


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """What is measured of one node."""

    cpu: float = 0.0  # cores
    memory_mb: float = 0.0
    memory_limit_mb: float = 0.0  # 0: unknown
    records_per_second: float = 0.0
    records: int = 0  # since this master started
    peak_memory_mb: float = 0.0  # since then
    unit_seconds: float = 0.0  # for one micro-batch of a step, lately; 0: unknown


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """What is known of one parameter server beside its seat."""

    stats: ServerStats = field(default_factory=ServerStats)
    order: int = 0  # the last one that it executed


@dataclass(frozen=True, slots=True)
class ParameterFigures:
    """What is known of the parameter servers; counts are since this master started."""

    stale: int = 0  # pushes that were too old
    moved: int = 0  # pushes that had to be staged again elsewhere
    moves: int = 0  # orders to move partitions
    servers: Mapping[int, ServerFigures] = field(default_factory=dict)  # by seat


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """What only a living master knows of its job."""

    records_per_second: float = 0.0
    training: TrainingProgress | None = None  # as programs report it; None: as the journal has it
    steps_per_second: float = 0.0
    goodput: float | None = None  # percent
    refusal: str = ""  # why the last change that somebody asked for was refused
    nodes: Mapping[str, NodeFigures] = field(default_factory=dict)
    parameters: ParameterFigures = field(default_factory=ParameterFigures)
    brain: str = ""  # whether it leads: see ``PlannerStatus``


NOTHING_LIVE = LiveFigures()


def build_status(name: str, state: JobState, now: float, live: LiveFigures = NOTHING_LIVE) -> JobStatus:
    job, nodes, training = state.job, state.nodes, state.training
    roles = role_statuses(nodes) if nodes is not None else ()
    phase = _phase(job, nodes, roles)
    progress = _progress(state, live)
    waiting = waiting_condition(state, now)
    hosted = state.rendezvous.hosted() if state.rendezvous is not None else {}
    return JobStatus(
        name=name,
        phase=phase,
        reason=job.reason or (nodes.suspended if nodes is not None else ""),
        message=_message(job, nodes, live.refusal, waiting),
        started_at=job.started_at,
        suspended_at=_suspended_at(job, nodes) if nodes is not None and phase is Phase.SUSPENDED else 0.0,
        ended_at=job.ended_at,
        time=now,
        master_starts=job.master_starts,
        conditions=tuple(
            condition
            for condition in (_journal_lost(job), waiting, *_warnings(job), *_checkpoints_failing(state.checkpoints))
            if condition
        ),
        components=tuple(component for component in COMPONENTS if getattr(state, component) is not None),
        roles=roles,
        nodes=tuple(
            _node(node, live.nodes.get(node.name, NodeFigures()), hosted.get(node.name, 0))
            for node in (nodes.nodes() if nodes else ())
        ),
        datasets=tuple(_dataset(queue) for queue in state.shards.queues()) if state.shards is not None else (),
        progress=progress,
        records_per_second=live.records_per_second,
        steps_per_second=live.steps_per_second,
        stalled_seconds=state.shards.pace.stalled if state.shards is not None else 0.0,
        eta=None if job.over else _eta(progress, live),
        goodput=live.goodput,
        evaluations=tuple(map(evaluation_status, training.results.values())) if training is not None else (),
        best=evaluation_status(training.best) if training is not None and training.best is not None else None,
        first_failure=job.first_failure,
        last_plan=_last_plan(state.changes, state.planner),
        planner=planner_status(state.planner, live.brain) if state.planner is not None else None,
        world=state.rendezvous.world if state.rendezvous is not None else None,
        parameters=_parameters(state.parameters, live.parameters) if state.parameters is not None else None,
        checkpoints=tuple(map(_checkpoint, state.checkpoints.destinations())),
    )


def _journal_lost(job: JobBook) -> Condition | None:
    lost = job.recovery
    if lost is None:
        return None
    return Condition(JOURNAL_LOST, "True", lost.outcome.value, lost.message, _rfc3339(lost.time))


def _warnings(job: JobBook) -> list[Condition]:
    return [Condition(kind, "True", kind, w.message, _rfc3339(w.time)) for kind, w in job.warnings.items()]


def _checkpoints_failing(book: CheckpointBook) -> list[Condition]:
    """One condition for each destination: a program has one, as a rule."""
    return [
        Condition(CHECKPOINTS_FAILING, "True", "CannotWrite", warning(found), _rfc3339(found.failing_since))
        for found in book.failing()
    ]


def _checkpoint(found: Destination) -> CheckpointStatus:
    return CheckpointStatus(**{field.name: getattr(found, field.name) for field in fields(CheckpointStatus)})


def _last_plan(desired: DesiredState | None, planner: Planner | None) -> PlanStatus | None:
    """The newer one of what changed the job last and what the planner made last."""
    plan = desired.last_plan if desired is not None else None
    record = next(reversed(planner.records()), None) if planner is not None else None
    if record is not None and (plan is None or record.time >= plan.time or record.id == plan.name):
        return PlanStatus(
            record.id,
            record.proposal.reason,
            _rfc3339(record.time),
            record.proposal.algorithm,
            record.standing,
            record.judgement,
        )
    return PlanStatus(plan.name, plan.reason, _rfc3339(plan.time)) if plan is not None else None


def _rfc3339(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def role_statuses(book: NodeBook) -> tuple[RoleStatus, ...]:
    return tuple(_role(book, name) for name in book.roles())


def _role(book: NodeBook, name: str) -> RoleStatus:
    role, counts = book.role(name), book.counts(name)
    resources, (done, total) = role.spec.resources, book.rollout_progress(name)
    return RoleStatus(
        name=name,
        min=role.spec.min_replicas,
        max=role.spec.max_replicas,
        wanted=role.spec.replicas,
        ready=counts[NodeState.RUNNING],
        pending=counts[NodeState.PENDING] + counts[NodeState.CREATING],
        succeeded=role.succeeded,
        failed=counts[NodeState.FAILED],
        cpu=resources.cpu,
        memory_mb=float(resources.memory_mb),
        gpu=resources.gpu,
        rollout=role.rollout.mode.value if role.rollout is not None and total else "",
        rollout_done=done,
        rollout_total=total,
    )


def _phase(job: JobBook, nodes: NodeBook | None, roles: tuple[RoleStatus, ...]) -> Phase:
    if job.over or nodes is None or not nodes.suspended:
        return job.phase
    return Phase.SUSPENDING if any(role.ready or role.pending for role in roles) else Phase.SUSPENDED


def _suspended_at(job: JobBook, nodes: NodeBook) -> float:
    """When it was suspended and its last node had ended."""
    ended = (node.ended_at for node in nodes.nodes() if node.ended_at is not None)
    return max(job.started_at, nodes.suspended_at, *ended)


def _message(job: JobBook, nodes: NodeBook | None, refusal: str, waiting: Condition | None) -> str:
    if job.over:
        return _ending(job, nodes)
    rollouts = _rollouts(nodes) if nodes is not None else ""
    return refusal or (waiting.message if waiting is not None else rollouts)


def _ending(job: JobBook, nodes: NodeBook | None) -> str:
    """Why it is over; of a failure also the message of the node that caused it."""
    failure = nodes.failure if nodes is not None else None
    if nodes is None or failure is None:
        return job.reason
    return f"{job.reason}: {nodes.get(failure.node).message}"


def _rollouts(nodes: NodeBook) -> str:
    roles = (role for role in role_statuses(nodes) if role.rollout)
    return "; ".join(
        f"{role.name}: {role.rollout} {role.rollout_done}/{role.rollout_total} to {role.resources}" for role in roles
    )


def _progress(state: JobState, live: LiveFigures) -> Progress:
    optional = optional_datasets(state)
    every = state.shards.queues() if state.shards is not None else []
    queues = [queue for queue in every if queue.spec.name not in optional]
    reported = live.training or state.progress.latest
    # Each dataset has at most MAX_RECORDS, and a sum travels as 64 bits like a part.
    done = min(MAX_RECORDS, sum(queue.finished_records for queue in queues))
    total = min(MAX_RECORDS, sum(queue.records_per_epoch * queue.spec.epochs for queue in queues))
    if reported.records_total or not total:  # the programs know it of the whole training, or there are no shards
        done, total = reported.records_done, reported.records_total
    return Progress(
        records_done=done,
        records_total=total,
        step=reported.step,
        epoch=max((reported.epoch, *(queue.epochs_done for queue in queues))),
        total_steps=reported.total_steps,
        metrics=reported.metrics,
    )


def _eta(progress: Progress, live: LiveFigures) -> float | None:
    if progress.total_steps and live.steps_per_second:
        left, rate = progress.total_steps - progress.step, live.steps_per_second
    else:
        left, rate = progress.records_total - progress.records_done, live.records_per_second
    return left / rate if rate and left > 0 else None


def _node(node: Node, live: NodeFigures, virtual_workers: int) -> NodeStatus:
    return NodeStatus(
        name=node.name,
        role=node.role,
        state=node.state,
        exit_reason=node.exit_reason,
        message=node.message,
        pid=node.pid or 0,
        agent_pid=node.agent_pid or 0,
        host=node.host,
        restarts=node.restarts,
        replaces=node.replaces or "",
        cpu=0.0 if node.ended else live.cpu,
        memory_mb=0.0 if node.ended else live.memory_mb,
        memory_limit_mb=(0.0 if node.ended else live.memory_limit_mb) or node.resources.memory_mb,
        records_per_second=0.0 if node.ended else live.records_per_second,
        created_at=node.created_at,
        ended_at=node.ended_at or 0.0,
        records=live.records,
        cpu_limit=node.resources.cpu,
        gpu=node.resources.gpu,
        peak_memory_mb=max(float(node.peak_mb), live.peak_memory_mb),
        virtual_workers=virtual_workers,
        unit_seconds=0.0 if node.ended else live.unit_seconds,
    )


def _dataset(queue: ShardQueue) -> DatasetStatus:
    spec = queue.spec
    return DatasetStatus(
        name=spec.name,
        type=spec.type,
        records_per_epoch=queue.records_per_epoch,
        records_done=queue.finished_records,
        records_total=queue.records_per_epoch * spec.epochs,
        epochs=spec.epochs,
        epochs_done=queue.epochs_done,
        shards_done=queue.finished_shards,
        shards_total=queue.shards_per_epoch * spec.epochs,
        shards_in_work=queue.out,
        shards_waiting=len(queue.returned),
        parked=tuple(
            ParkedShard(
                name=parked.extent.name,
                start=parked.extent.start,
                end=parked.extent.end,
                epoch=parked.shard.epoch,
                failures=parked.shard.failures + parked.shard.timeouts,
                message=parked.message,
            )
            for parked in (*queue.parked, *queue.lost)
        ),
        complete=queue.complete,
        lease_timeout=queue.lease_timeout(),
        exact=queue.is_exact,
        records_restored=queue.restored.records if queue.restored is not None else 0,
        partitions=_partitions(queue),
    )


def _partitions(queue: ShardQueue) -> tuple[PartitionStatus, ...]:
    if queue.stream is None or not queue.stream.is_partitioned:
        return ()
    return tuple(
        PartitionStatus(
            name=part.name,
            start=part.start,
            position=part.position(queue.spec.shard_size),
            end=part.end,
            closed=part.closed,
            records_done=part.finished,
        )
        for part in queue.stream.partitions
    )


def evaluation_status(result: Result) -> EvaluationStatus:
    metrics = {name: value if math.isfinite(value) else None for name, value in result.metrics.items()}
    return EvaluationStatus(result.version, metrics, result.records)


def _parameters(book: ParameterBook, live: ParameterFigures) -> ParametersStatus:
    return ParametersStatus(
        sync=book.options.sync,
        iteration=book.iteration,
        batch=book.options.batch,
        contributions=book.contributions,
        examples=book.examples,
        stale=live.stale,
        moved=live.moved,
        last_order=book.last,
        dump_order=book.base.order,
        dump_iteration=book.base.iteration,
        map_version=book.map.version,
        seats=seat_statuses(book, live.servers),
        staleness=tuple(book.staleness),
        moves=live.moves,
    )


def seat_statuses(book: ParameterBook, servers: Mapping[int, ServerFigures]) -> tuple[SeatStatus, ...]:
    seats = book.seats()
    floats = book.map.floats({seat.number: seat.weight for seat in seats})
    return tuple(
        SeatStatus(
            seat=seat.number,
            node=seat.node,
            address=seat.address,
            fencing_token=seat.fencing_token,
            partitions=book.map.partitions.count(seat.number),
            floats=floats[seat.number],
            weight=seat.weight,
            leaving=seat.leaving,
            stats=(server := servers.get(seat.number, ServerFigures())).stats,
            order=server.order,
        )
        for seat in seats
    )
