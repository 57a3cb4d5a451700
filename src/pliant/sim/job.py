"""One simulated job: the real books drive its nodes, its truth says how fast it is, and a policy plans for it.

Between two events its rate is constant. Each event first settles what happened since the last one (``_advance``), changes
something, and then computes the rate anew (``_recompute``), with which the moments of the next out-of-memory and of the end are
known.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from pliant.core.change_resolver import decide
from pliant.core.changes import DesiredJob, DesiredRole, DesiredState, plan_request
from pliant.core.end_policy import PARAMETER_SERVER
from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.states import RoleSpec
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import (
    ChangeCosts,
    JobHistory,
    NodeView,
    Objective,
    OutOfMemory,
    StepParts,
)
from pliant.core.planning.memory_points import MemoryPoints
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.start_time import with_measured_start
from pliant.core.resources import Resources, RolloutMode
from pliant.sim.cluster import VirtualCluster
from pliant.sim.events import Event, EventQueue
from pliant.sim.fleet import Fleet, Grants, SimNode
from pliant.sim.outcome import JobOutcome, PlanRecord
from pliant.sim.policies.base import ClusterView, Policy, clip
from pliant.sim.recorder import PeriodRecorder
from pliant.sim.truth.base import Throughput, Truth

ROLES = ("worker", PARAMETER_SERVER)
WAKE_S = 1.0  # until a job has heard of it
MEMORY_NOISE = 0.01  # of a sample


@dataclass(frozen=True, slots=True)
class SimulatedSpec:
    """What is submitted: the truth is hidden from policies."""

    name: str
    truth: Truth
    bounds: Bounds
    objective: Objective = Objective.BALANCED
    arrival: float = 0.0
    deadline_s: float | None = None  # after the arrival
    faults: FaultPolicy = field(default_factory=FaultPolicy)


class SimulatedJob:
    def __init__(
        self,
        spec: SimulatedSpec,
        policy: Policy,
        cluster: VirtualCluster,
        queue: EventQueue,
        grants: Grants,
        seed: str,
        *,
        view: Callable[[], ClusterView],
        on_end: Callable[[SimulatedJob], None],
    ) -> None:
        """``seed`` decides all that is random, whatever the policy does. ``view``: the cluster as policies see it."""
        self.spec, self.truth, self.policy = spec, spec.truth, policy
        self.outcome = JobOutcome(spec.name, policy.name, spec.arrival, spec.truth.records)
        self.records = 0.0
        self._queue, self._cluster, self._view, self._on_end = queue, cluster, view, on_end
        self._random = Random(seed)
        self._measuring = Random(f"{seed} measuring")
        self._recorder = PeriodRecorder(self.truth.noise, self._measuring, queue.now)
        self._memory = {role: MemoryPoints() for role in ROLES}
        self._drift = 0.0
        self._was_complete = False
        self._stalled_s = 0.0  # in which nodes stood still for a change
        self._measured_from: tuple[float, tuple[str, ...]] | None = None
        self._replaced_stragglers = 0
        self._last = queue.now
        self._stalled_until = 0.0
        self._now_doing = Throughput()
        self._events: dict[str, Event] = {}
        self._interval = policy.interval_s
        self._costs = ChangeCosts()
        self._open_plan: PlanRecord | None = None
        self._configuration = clip(policy.first(spec.name, history_of(spec, cluster), view()), spec.bounds)
        self._running = self._configuration  # as it is measured
        self.outcome.first = self._configuration
        self.state = _state_of(spec, self._configuration)
        self.fleet = Fleet(
            *(spec.name, self.state, self.truth, cluster, queue, Random(f"{seed} nodes"), grants),
            before_change=self._advance,
            after_change=self._fleet_changed,
        )
        self._can_resize = grants.can_resize

    # --- its life

    def start(self, now: float) -> None:
        self.fleet.start(now)
        self._recompute(now)
        self._plan_again("plan", now + self._interval, self._tick)
        if self.truth.noise.drift_sigma:
            self._plan_again("drift", now, self._drift_on)

    @property
    def is_over(self) -> bool:
        return self.outcome.ended is not None

    def cut_off(self, now: float) -> None:
        """The simulation ends before the job does."""
        self._advance(now)
        self._judge(now)
        self.outcome.records_done = self.records

    def _end(self, now: float, failure: str = "") -> None:
        self._advance(now)
        self._judge(now)
        self.outcome.ended, self.outcome.failure = now, failure
        self.outcome.records_done = self.records
        self.outcome.ooms = len(self.fleet.out_of_memory)
        self.outcome.add_point(now, 0.0, 0)
        for event in self._events.values():
            event.cancel()
        self.fleet.stop(now)
        self.policy.ended(self.spec.name)
        self._on_end(self)

    # --- time and rate

    def _advance(self, now: float) -> None:
        seconds = now - self._last
        if seconds <= 0:
            return
        nodes = self.fleet.nodes.values()
        self.outcome.node_seconds += seconds * len(nodes)
        self.outcome.core_seconds += seconds * sum(node.resources.cpu or 1.0 for node in nodes)
        self.outcome.memory_mb_seconds += seconds * sum(node.resources.memory_mb for node in nodes)
        rate = self._now_doing.rate
        self._stalled_s += seconds if self._last < self._stalled_until else 0.0
        self.records = min(self.truth.records, self.records + rate * seconds)
        if self.policy.needs_samples:
            self._recorder.observe(
                *(self._last, now, self._running, rate, self._now_doing.parts),
                is_whole=self._was_complete,
            )
        self._last = now

    def _is_complete(self) -> bool:
        """All nodes of the configuration work, with what it says."""
        for role, shape in self._shapes():
            if len(self.fleet.ready(role)) != shape.replicas or self.fleet.book.role(role).rollout is not None:
                return False
        return True

    def _shapes(self) -> list[tuple[str, Shape]]:
        found: list[tuple[str, Shape | None]] = [
            ("worker", self._configuration.worker),
            (PARAMETER_SERVER, self._configuration.server),
        ]
        return [(role, shape) for role, shape in found if shape is not None]

    def _follow_books(self) -> None:
        """What is desired now and what runs, by the books: they give a line of nodes up by themselves when its budget is used up,
        and resources for nodes that come later are desired, but not yet those of the nodes that run."""
        desired: dict[str, Shape] = {}
        running: dict[str, Shape] = {}
        for role, _ in self._shapes():
            state = self.fleet.book.role(role)
            resources, cpus = state.spec.resources, [node.resources.cpu for node in self.fleet.ready(role)]
            desired[role] = Shape(state.spec.replicas, resources.cpu, resources.memory_mb)
            running[role] = replace(desired[role], cpu=statistics.median_low(cpus) if cpus else resources.cpu)
        before = self._configuration
        self._configuration = replace(before, worker=desired["worker"], server=desired.get(PARAMETER_SERVER))
        self._running = replace(before, worker=running["worker"], server=running.get(PARAMETER_SERVER))

    def _recompute(self, now: float) -> None:
        """The rate from now on, and when it will have led to something."""
        self._advance(now)
        self._follow_books()
        done = self.truth.throughput(self.fleet.groups("worker"), self.fleet.groups(PARAMETER_SERVER))
        factor = 0.0 if now < self._stalled_until else math.exp(self._drift)
        self._now_doing = replace(
            done, rate=done.rate * factor, worker_rate=tuple(rate * factor for rate in done.worker_rate)
        )
        rate = self._now_doing.rate
        self._was_complete = now >= self._stalled_until and self._is_complete()
        self.outcome.add_point(now, rate, len(self.fleet.nodes))
        for name in ("end", "memory", "resume"):
            if name in self._events:
                self._events[name].cancel()
        if now < self._stalled_until:
            self._plan_again("resume", self._stalled_until, self._recompute)
        elif rate > 0:
            left = max(0.0, self.truth.records - self.records)
            self._plan_again("end", now + left / rate + self.truth.tail_s, self._finished)
            self._foresee_memory(now, rate, left)
        if self.state.nodes is not None and self.state.nodes.failure is not None and not self.is_over:
            self._plan_again("fail", now, self._failed)

    def _finished(self, now: float) -> None:
        self._advance(now)
        self.records = self.truth.records
        self._end(now)

    def _failed(self, now: float) -> None:
        failure = self.state.nodes.failure if self.state.nodes is not None else None
        self._end(now, failure.reason if failure is not None else "failed")

    def _drift_on(self, now: float) -> None:
        noise = self.truth.noise
        self._drift = 0.7 * self._drift + math.sqrt(1 - 0.49) * self._random.gauss(0.0, noise.drift_sigma)
        self._recompute(now)
        self._plan_again("drift", now + noise.drift_interval_s, self._drift_on)

    def _plan_again(self, name: str, at: float, action: Callable[[float], None]) -> None:
        if name in self._events:
            self._events[name].cancel()
        self._events[name] = self._queue.at(at, action)

    # --- memory

    def _limit_of(self, node: SimNode) -> float:
        return node.resources.memory_mb or float(self._cluster.capacity.max_memory_mb or math.inf)

    def _memory_mb(self, role: str, progress: float | None = None) -> float:
        done = self.records / self.truth.records if progress is None else progress
        nodes = len(self.fleet.ready(role)) if role == PARAMETER_SERVER else 1
        return self.truth.memory_of(role).at(done, nodes)

    def _foresee_memory(self, now: float, rate: float, left: float) -> None:
        """The first node that will use more than it is allowed to, if there is one."""
        first: tuple[float, str] | None = None
        for role in ROLES:
            nodes = self.fleet.ready(role)
            share = len(nodes) if role == PARAMETER_SERVER else 1
            for node in nodes:
                at = self.truth.memory_of(role).progress_at(self._limit_of(node), share) * self.truth.records
                if at < self.records + left and (first is None or at < first[0]):
                    first = (at, node.name)
        if first is not None:
            at, name = first
            wait = max(0.0, at - self.records) / rate
            self._plan_again("memory", now + max(wait, 0.5), lambda when: self._out_of_memory(when, name))

    def _out_of_memory(self, now: float, name: str) -> None:
        self._advance(now)
        node = self.fleet.nodes.get(name)
        if node is not None and node.is_ready:
            self.fleet.exhaust_memory_of(now, name, self._limit_of(node))
            self.outcome.ooms = len(self.fleet.out_of_memory)
        self._recompute(now)

    # --- changes

    def _fleet_changed(self, now: float, what: str) -> None:
        """Nodes came or went: synchronous jobs stop for a moment, moved or lost parameters take longer."""
        role, _, how = what.partition(" ")
        costs, stall = self.truth.costs, 0.0
        if role == PARAMETER_SERVER and how in ("joined", "left"):
            stall = costs.move_s / max(1, len(self.fleet.ready(role)))
        elif role == PARAMETER_SERVER and how == "died":
            stall = costs.restore_s
        elif self.truth.is_synchronous and how in ("joined", "left", "died"):
            stall = costs.reform_s
        if how == "died" and role == "worker" and not self.truth.is_synchronous and self._now_doing.worker_rate:
            lost = costs.reprocess_s * max(self._now_doing.worker_rate)
            self.records = max(0.0, self.records - lost)
        self._stalled_until = max(self._stalled_until, now + stall) if stall else self._stalled_until
        self._recorder.changed(now)
        self._interval = self.policy.interval_s
        self._recompute(now)

    def carry_out(self, now: float, plan: ResourcePlan) -> str:
        """Through the request for changes that a master would handle. Returns why it was refused; empty: it was not."""
        self._advance(now)
        wanted = self._planned(plan)
        if not self.spec.bounds.allows(wanted):
            self.outcome.out_of_bounds += 1
            return f"outside of the bounds: {wanted}"
        if plan.expires is not None and now > plan.expires:
            return "expired"
        if self._is_desired_already(plan):
            return ""
        assert self.state.changes is not None
        request = plan_request(replace(plan, id=f"{plan.id}/{now:.3f}", seats={}, moves={}))
        decision = decide(self.state, request, now, can_resize=self._can_resize)
        if decision.answer.refusal:
            return decision.answer.refusal
        self._judge(now)
        for change in decision.changes:
            for operation in change.operations:
                self.state.apply(operation)
        if decision.record is not None:
            self.state.apply(decision.record)
        self._measure_cost_of(wanted, plan)
        self._follow_books()
        self._recorder.changed(now)
        self.fleet.give_seats(plan.seats)
        if self.fleet.move_partitions(plan.moves):
            share = sum(plan.moves.values()) / max(1, len(self.fleet.ready(PARAMETER_SERVER)))
            self._stalled_until = max(self._stalled_until, now + self.truth.costs.move_s * share)
        self.fleet.reconcile(now)
        self._open_plan = PlanRecord.of(plan, now, wanted)
        self.outcome.plans.append(self._open_plan)
        self._recompute(now)
        return ""

    def _is_desired_already(self, plan: ResourcePlan) -> bool:
        """It is only about resources of nodes that come later, and they are those that such nodes get anyway."""
        return (
            bool(plan.roles)
            and not (plan.replace or plan.seats or plan.moves)
            and all(
                change.replicas is None
                and change.rollout is RolloutMode.NEW_NODES
                and change.resources in (None, self.fleet.book.role(role).spec.resources)
                for role, change in plan.roles.items()
            )
        )

    def _planned(self, plan: ResourcePlan) -> Configuration:
        shapes: dict[str, Shape] = dict(self._shapes())
        for role, change in plan.roles.items():
            old = shapes[role]
            given = change.resources or self.fleet.book.role(role).spec.resources
            replicas = old.replicas if change.replicas is None else change.replicas
            shapes[role] = replace(old, replicas=replicas, cpu=given.cpu, memory_mb=given.memory_mb)
        return replace(self._configuration, worker=shapes["worker"], server=shapes.get(PARAMETER_SERVER))

    def _measure_cost_of(self, wanted: Configuration, plan: ResourcePlan) -> None:
        """From now until it has settled; of several kinds of changes at once, each has its part."""
        before, kinds = self._configuration, []
        if wanted.worker.replicas != before.worker.replicas:
            kinds.append("scale_up_s" if wanted.worker.replicas > before.worker.replicas else "scale_down_s")
        if before.server is not None and wanted.server is not None:
            kinds += ["move_partitions_s"] if wanted.server.replicas != before.server.replicas or plan.moves else []
        if plan.replace or any(role.resources is not None for role in plan.roles.values()):
            kinds.append("replace_s")
        self._replaced_stragglers += len(plan.replace)
        self._measured_from = (self._stalled_s, tuple(kinds)) if kinds else None

    def _learn_costs(self) -> None:
        """Once the plan has settled."""
        if self._measured_from is None or self._recorder.settling_since is not None or not self._was_complete:
            return
        before, kinds = self._measured_from
        self._measured_from = None
        for kind in kinds:
            self._costs = replace(self._costs, **{kind: (self._stalled_s - before) / len(kinds)})

    def _judge(self, now: float) -> None:
        """What came of the plan before this moment, by the truth: the mean rate since it was carried out whole."""
        if self._open_plan is not None:
            self._open_plan.close(self.outcome, now)
            self._open_plan = None

    # --- planning

    def _tick(self, now: float) -> None:
        self._advance(now)
        self._sample_memory()
        self._learn_costs()
        plan = self.policy.plan(self.spec.name, self.history(now), now, self._view())
        if plan is not None:
            refusal = self.carry_out(now, plan)
            self.outcome.refused += bool(refusal)
            self.policy.answered(self.spec.name, plan, now, refusal)
        is_quiet = plan is None and self._recorder.settling_since is None and not self.fleet.pending
        self._interval = min(self._interval * 1.5, self.policy.max_interval_s) if is_quiet else self.policy.interval_s
        if not self.is_over:
            self._plan_again("plan", now + self._interval, self._tick)

    def wake(self, now: float) -> None:
        """Something is new for the policy."""
        self._plan_again("plan", now + WAKE_S, self._tick)

    def _sample_memory(self) -> None:
        for role in ROLES:
            if self.fleet.ready(role):
                noisy = self._memory_mb(role) * (1.0 + abs(self._measuring.gauss(0.0, MEMORY_NOISE)))
                self._memory[role].add(self.records, noisy)

    def history(self, now: float) -> JobHistory:
        """All that a planner may know."""
        assert self.state.changes is not None
        return replace(
            history_of(self.spec, self._cluster),
            configuration=self._configuration,
            remaining_records=int(self.truth.records - self.records),
            costs=with_measured_start(self._costs, self.fleet.book.nodes()),
            can_resize=self._can_resize,
            version=self.state.changes.version,
            replaced_stragglers=self._replaced_stragglers,
            periods=self._recorder.periods(),
            settling_since=self._recorder.settling_since,
            nodes=tuple(self._views(now)),
            pending=tuple(self.fleet.pending),
            pending_since=self.fleet.pending_since(),
            out_of_memory=tuple(
                OutOfMemory(time, role, limit, peak) for time, role, limit, peak in self.fleet.out_of_memory
            ),
        )

    def _views(self, now: float) -> list[NodeView]:
        doing, views = self._now_doing, []
        for role in ROLES:
            memory, points = self._memory_mb(role), self._memory[role]
            used = doing.server_cpu if role == PARAMETER_SERVER else doing.worker_cpu
            for number, nodes in enumerate(self.fleet.grouping(role).values()):
                if number >= len(used):
                    break
                is_worker = role == "worker"
                for node in nodes:
                    noise = math.exp(self._measuring.gauss(0.0, self.truth.noise.sample_sigma / 4))
                    limit = node.resources.cpu
                    cpu = min(used[number] * noise, limit or math.inf)
                    views.append(
                        NodeView(
                            *(node.name, role, cpu, min(cpu * 1.05, limit or math.inf), limit),
                            throttled=max(0.0, cpu / limit - 0.9) * 5 if limit else 0.0,
                            memory_mb=memory,
                            memory_peak_mb=max(memory, points.peak),
                            memory_limit_mb=node.resources.memory_mb,
                            memory_points=points.points,
                            records_per_second=doing.worker_rate[number] * noise if is_worker else 0.0,
                            unit_seconds=doing.unit_seconds[number] * noise
                            if is_worker and doing.unit_seconds
                            else 0.0,
                            virtual_workers=node.seats,
                            age_s=now - node.granted_at,
                            host=node.host,
                            partition_load=_partitions(node.share),
                        )
                    )
        return views

    @property
    def configuration(self) -> Configuration:
        return self._configuration

    @property
    def parts(self) -> StepParts:
        return self._now_doing.parts


def _partitions(share: float) -> tuple[tuple[int, float], ...]:
    """Sixteen partitions of equal load: any of them may be moved."""
    return tuple((number, 1 / 16) for number in range(16)) if share else ()


def history_of(spec: SimulatedSpec, cluster: VirtualCluster) -> JobHistory:
    """All that a planner may know before the job begins."""
    return JobHistory(
        kind=spec.truth.kind,
        configuration=_smallest(spec.bounds),
        bounds=spec.bounds,
        started=spec.arrival,
        virtual_workers=spec.truth.virtual_workers,
        remaining_records=spec.truth.records,
        objective=spec.objective,
        deadline=spec.arrival + spec.deadline_s if spec.deadline_s else None,
        room=cluster.room(),
    )


def _smallest(bounds: Bounds) -> Configuration:
    def least(role: RoleBounds) -> Shape:
        """Nobody says how much memory it needs."""
        return role.clip(Shape(max(1, role.min_replicas), role.min_cpu))

    return Configuration(least(bounds.worker), least(bounds.server) if bounds.server is not None else None)


def _state_of(spec: SimulatedSpec, first: Configuration) -> JobState:
    """As ``spec.initial_state`` makes it, for the machines that a simulated job needs."""
    roles, desired = {}, {}
    bounds_of: dict[str, tuple[RoleBounds | None, Shape | None]] = {
        "worker": (spec.bounds.worker, first.worker),
        PARAMETER_SERVER: (spec.bounds.server, first.server),
    }
    for name, (bounds, shape) in bounds_of.items():
        if bounds is None or shape is None:
            continue
        resources = Resources(shape.cpu, shape.memory_mb)
        limits = (bounds.min_replicas, bounds.max_replicas, shape.replicas)
        roles[name] = RoleSpec(name, *limits, resources, critical=name == PARAMETER_SERVER)
        desired[name] = DesiredRole(*limits, resources)
    return JobState(job=JobBook(), nodes=NodeBook(roles, spec.faults), changes=DesiredState(DesiredJob(desired)))
