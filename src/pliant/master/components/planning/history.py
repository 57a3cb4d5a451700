"""What the planner of a job plans by (``core/planning/history.py``), from the job's state machines and statistics.

Only reads. The *desired* configuration is what the node book says of roles; the *running* one, by which rates are kept, has the CPU
that nodes were in fact given. A configuration is *ready* once all of its nodes run and every worker has trained since it started:
only then do rates say something of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low

from pliant.core.end_policy import PARAMETER_SERVER
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.capacity import Capacity
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import Node, NodeState
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import (
    ChangeCosts,
    FinishedJob,
    JobHistory,
    JobKind,
    NodeView,
    Objective,
    OutOfMemory,
    Room,
    StepParts,
)
from pliant.core.planning.node_summary import mean_parts
from pliant.core.planning.objectives import score
from pliant.core.planning.past_jobs import Fingerprint, PastJob
from pliant.core.planning.plan_record import Outcome
from pliant.core.planning.start_time import with_measured_start
from pliant.core.resources import Resources
from pliant.core.status import Progress
from pliant.core.status_builder import build_status
from pliant.master.components.stats import MemoryStats

WORKER = "worker"
RECENT_S = 60.0  # over which the use of a node is averaged
MAX_OOMS = 20  # the last ones


@dataclass(frozen=True, slots=True)
class RoleTerms:
    """Of a role, what the job's description says of each node; zero: nothing."""

    min: Resources = field(default_factory=Resources)
    max: Resources = field(default_factory=Resources)


@dataclass(frozen=True, slots=True)
class PlanningTerms:
    """What the user asks of plans."""

    objective: Objective = Objective.BALANCED
    deadline_s: float = 0.0  # after the start; 0: none
    budget_node_s: float = 0.0  # 0: no limit
    roles: dict[str, RoleTerms] = field(default_factory=dict)
    worker_unit: int = 1  # workers come in multiples of it
    max_memory_mb: int = 0  # of a node, by the fault policy; 0: what a machine has


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known from outside of the job."""

    capacity: Capacity | None = None
    room: Room | None = None
    similar: tuple[FinishedJob, ...] = ()
    costs: ChangeCosts = field(default_factory=ChangeCosts)
    can_resize: bool = True
    is_single_machine: bool = False


class HistoryBuilder:
    def __init__(self, state: JobState, stats: MemoryStats, terms: PlanningTerms) -> None:
        assert state.nodes is not None
        assert state.periods is not None
        assert state.planner is not None
        self._state = state
        self._nodes: NodeBook = state.nodes
        self._periods = state.periods
        self._planner = state.planner
        self._stats = stats
        self._terms = terms

    # --- the configuration

    def desired(self) -> Configuration:
        return Configuration(self._shape(WORKER), self._shape(PARAMETER_SERVER) if self._has_servers else None)

    def running(self) -> Configuration:
        """As desired, with the CPU that nodes have."""
        found = self.desired()
        worker = replace(found.worker, cpu=self._given_cpu(WORKER, found.worker.cpu))
        server = found.server
        if server is not None:
            server = replace(server, cpu=self._given_cpu(PARAMETER_SERVER, server.cpu))
        return replace(found, worker=worker, server=server)

    def is_ready(self) -> bool:
        if self._nodes.suspended or self.is_draining():
            return False
        for role in self.roles():
            state, active = self._nodes.role(role), self._nodes.active(role)
            running = [node for node in active if node.state is NodeState.RUNNING and node.pid]
            if state.rollout is not None or len(running) != len(active) or len(active) != state.spec.replicas:
                return False
            if role == WORKER and not all(self._has_trained(node) for node in running):
                return False
        return not any(node.removal is not None for node in self._nodes.live())

    def is_draining(self) -> bool:
        """Workers have finished: there is nothing more to plan."""
        return any(self._nodes.role(role).succeeded for role in self.roles())

    def roles(self) -> list[str]:
        return [WORKER, PARAMETER_SERVER] if self._has_servers else [WORKER]

    # --- progress

    def progress(self, now: float) -> Progress:
        status = build_status("", self._state, now, self._stats.figures())
        return status.progress

    def records(self) -> float:
        """Accepted so far; of a program that counts none, its steps."""
        return float(self._stats.accepted_records() or self._stats.training.progress.step)

    def parts(self) -> StepParts | None:
        """Where the time of workers goes, on average; None: they do not say."""
        return mean_parts(self._stats.view(node.name, RECENT_S) for node in self._nodes.active(WORKER))

    # --- all of it

    def build(self, now: float, around: Surroundings) -> JobHistory:
        job, progress, terms = self._state.job, self.progress(now), self._terms
        changes = self._state.changes
        waiting = [node for node in self._nodes.live() if node.waiting_since is not None]
        seats = self._state.rendezvous.hosted() if self._state.rendezvous is not None else {}
        return JobHistory(
            kind=self.kind(),
            configuration=self.desired(),
            bounds=self.bounds(around.capacity),
            started=job.started_at or now,
            version=changes.version if changes is not None else 0,
            virtual_workers=self.virtual_workers(),
            remaining_records=_remaining(progress),
            objective=terms.objective,
            deadline=(job.started_at or now) + terms.deadline_s if terms.deadline_s else None,
            budget_node_s=self._budget(now) if terms.budget_node_s else None,
            periods=self._periods.periods(),
            settling_since=self._periods.settling_since,
            nodes=tuple(self._view(node, now, seats) for role in self.roles() for node in self._running_nodes(role)),
            pending=tuple(node.name for node in waiting),
            pending_since=min((node.waiting_since for node in waiting if node.waiting_since), default=None),
            out_of_memory=self._out_of_memory(),
            similar=around.similar,
            room=around.room,
            costs=with_measured_start(around.costs, self._nodes.nodes()),
            can_resize=around.can_resize,
            is_single_machine=around.is_single_machine,
            replaced_stragglers=self._replaced_stragglers(),
        )

    def kind(self) -> JobKind:
        parameters, rendezvous = self._state.parameters, self._state.rendezvous
        if parameters is not None:
            return JobKind.PS_SYNC if parameters.options.sync else JobKind.PS_ASYNC
        return JobKind.ALLREDUCE if rendezvous is not None and rendezvous.world is not None else JobKind.QUEUE

    def virtual_workers(self) -> int:
        rendezvous = self._state.rendezvous
        return rendezvous.virtual_workers if rendezvous is not None else 0

    def bounds(self, capacity: Capacity | None) -> Bounds:
        worker = self._role_bounds(WORKER, capacity, self._terms.worker_unit)
        server = self._role_bounds(PARAMETER_SERVER, capacity) if self._has_servers else None
        return Bounds(worker, server)

    def past_job(self, now: float, mark: Fingerprint, *, succeeded: bool) -> PastJob | None:
        """What this job taught; None: nothing was measured."""
        periods = self._periods.periods()
        if not periods:
            return None
        best = max(periods, key=lambda period: score(self._terms.objective, period.rate, period.configuration))
        shards = self._state.shards
        records = sum(queue.records_per_epoch for queue in shards.queues()) if shards is not None else 0
        return PastJob(
            replace(mark, records=records),
            now,
            succeeded,
            best.configuration,
            best.rate,
            self._peak_mb(WORKER),
            self._peak_mb(PARAMETER_SERVER) if self._has_servers else 0.0,
        )

    # --- inside

    def _peak_mb(self, role: str) -> float:
        nodes = [node for node in self._nodes.nodes() if node.role == role]
        return max((max(float(node.peak_mb), self._stats.peak_memory(node.name)) for node in nodes), default=0.0)

    @property
    def _has_servers(self) -> bool:
        return self._state.parameters is not None and PARAMETER_SERVER in self._nodes.roles()

    def _shape(self, role: str) -> Shape:
        spec = self._nodes.role(role).spec
        return Shape(spec.replicas, spec.resources.cpu, spec.resources.memory_mb, spec.resources.gpu)

    def _given_cpu(self, role: str, desired: float) -> float:
        given = [node.resources.cpu for node in self._nodes.active(role)]
        return median_low(given) if given else desired

    def _running_nodes(self, role: str) -> Sequence[Node]:
        return [node for node in self._nodes.active(role) if node.state is NodeState.RUNNING]

    def _has_trained(self, node: Node) -> bool:
        stats = self._stats.node(node.name)
        return stats.records.total > 0 or stats.step > 0

    def _role_bounds(self, role: str, capacity: Capacity | None, unit: int = 1) -> RoleBounds:
        spec, terms = self._nodes.role(role).spec, self._terms.roles.get(role, RoleTerms())
        machine_cpu = (capacity.largest("cpu") if capacity is not None else None) or 0.0
        machine_mb = (capacity.max_memory_mb if capacity is not None else None) or 0
        max_cpu = _tighter(terms.max.cpu, machine_cpu)
        max_memory = _tighter(terms.max.memory_mb, self._terms.max_memory_mb, machine_mb)
        return RoleBounds(
            max(1, spec.min_replicas),
            max(1, spec.max_replicas),
            unit,
            min_cpu=terms.min.cpu,
            max_cpu=max(max_cpu, spec.resources.cpu) if max_cpu else 0.0,
            min_memory_mb=terms.min.memory_mb,
            max_memory_mb=int(max(max_memory, spec.resources.memory_mb)) if max_memory else 0,
        )

    def _budget(self, now: float) -> float:
        used = sum((node.ended_at or now) - node.started_at for node in self._nodes.nodes() if node.started_at)
        return max(0.0, self._terms.budget_node_s - used)

    def _view(self, node: Node, now: float, seats: Mapping[str, int]) -> NodeView:
        """Limits are those that it was given; the machine around a node is none of its own."""
        return self._stats.view(node.name, RECENT_S).view(
            node.name,
            node.role,
            cpu_limit=node.resources.cpu,
            memory_limit_mb=float(node.resources.memory_mb),
            virtual_workers=seats.get(node.name, 0),
            age_s=max(0.0, now - (node.started_at or now)),
            host=node.host,
        )

    def _out_of_memory(self) -> tuple[OutOfMemory, ...]:
        ended = [node for node in self._nodes.nodes() if node.exit_reason is ExitReason.OOM and node.ended_at]
        found = [
            OutOfMemory(node.ended_at or 0.0, node.role, float(node.resources.memory_mb), float(node.peak_mb))
            for node in ended
            if node.resources.memory_mb
        ]
        return tuple(sorted(found, key=lambda oom: oom.time)[-MAX_OOMS:])

    def _replaced_stragglers(self) -> int:
        done = (Outcome.CARRIED_OUT, Outcome.KEPT, Outcome.SUPERSEDED)
        return sum(len(r.proposal.replace) for r in self._planner.records() if r.outcome in done)


def _remaining(progress: Progress) -> int | None:
    if progress.records_total:
        return max(0, progress.records_total - progress.records_done)
    if progress.total_steps and not progress.records_done:
        return max(0, progress.total_steps - progress.step)
    return None


def _tighter(*limits: float) -> float:
    return min((limit for limit in limits if limit), default=0.0)
