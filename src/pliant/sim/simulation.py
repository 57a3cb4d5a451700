"""The event loop over all jobs of a simulation, under one policy.

The same seed means the same truths, grants, preemptions and noise for every policy: each job draws from generators of its own,
so what one policy asks for does not change what happens to another's jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from pliant.core.planning.history import JobHistory
from pliant.sim.cluster import MachineSize, VirtualCluster
from pliant.sim.events import EventQueue
from pliant.sim.fleet import Grants
from pliant.sim.job import SimulatedJob, SimulatedSpec, history_of
from pliant.sim.outcome import JobOutcome
from pliant.sim.policies.base import ClusterView, Policy


@dataclass(frozen=True, slots=True)
class Outage:
    """Other tenants take a part of the machines for a while."""

    at: float
    duration_s: float
    share: float  # of the machines
    preempts: bool = True  # nodes that run there are ended; else only new ones are refused


@dataclass(frozen=True, slots=True)
class World:
    """Where jobs run."""

    machines: tuple[MachineSize, ...] = (MachineSize(64, 16.0, 65536),)
    grants: Grants = field(default_factory=Grants)
    outages: tuple[Outage, ...] = ()
    quota_cpu: float = 0.0  # cores that all jobs together may have; 0: no limit
    horizon_s: float = 86_400.0  # the simulation ends then, whatever runs


@dataclass(frozen=True, slots=True)
class UsePoint:
    time: float
    cores: float  # requested by all jobs
    running: int  # jobs
    waiting: int  # jobs without a node


@dataclass(slots=True)
class SimulationResult:
    policy: str
    seed: int
    jobs: list[JobOutcome]
    events: int = 0
    ended: float = 0.0
    total_cores: float = 0.0
    most_used_cores: float = 0.0  # at any moment
    use: list[UsePoint] = field(default_factory=list)


class Simulation:
    def __init__(self, world: World, jobs: Sequence[SimulatedSpec], policy: Policy, seed: int) -> None:
        self.queue = EventQueue()
        self.cluster = VirtualCluster(world.machines, world.quota_cpu)
        self.jobs: dict[str, SimulatedJob] = {}  # that have arrived
        self._running: dict[str, SimulatedJob] = {}
        self._waiting: dict[str, SimulatedSpec] = {}  # have arrived and may not begin yet
        self._world, self._policy, self._seed = world, policy, seed
        self._left = len(jobs)
        self.result = SimulationResult(policy.name, seed, [], total_cores=self.cluster.total_cpu)
        for spec in jobs:
            self.queue.at(spec.arrival, lambda now, spec=spec: self._arrive(now, spec))  # type: ignore[misc]
        for number, outage in enumerate(world.outages):
            self.queue.at(outage.at, lambda now, n=number, found=outage: self._take(now, n, found))  # type: ignore[misc]
        self._interval = max(10.0, world.horizon_s / 1000)
        if len(jobs) > 1:
            self.queue.at(0.0, self._note_use)

    def run(self) -> SimulationResult:
        self.queue.run(self._world.horizon_s, lambda: self._left == 0)
        now = self.queue.now if self._left == 0 else self._world.horizon_s
        for job in self._running.values():
            job.cut_off(now)
        self.result.ended, self.result.events = now, self.queue.handled
        self.result.most_used_cores = self.cluster.most_used_cpu
        self.result.jobs = [job.outcome for job in self.jobs.values()]
        for spec in self._waiting.values():
            self.result.jobs.append(JobOutcome(spec.name, self._policy.name, spec.arrival, spec.truth.records))
        return self.result

    def _arrive(self, now: float, spec: SimulatedSpec) -> None:
        if not self._policy.admits(spec.name, history_of(spec, self.cluster), now, self._view()):
            self._waiting[spec.name] = spec
            self.queue.at(now + self._policy.interval_s, lambda when: self._arrive(when, spec))
            return
        self._waiting.pop(spec.name, None)
        job = SimulatedJob(
            *(spec, self._policy, self.cluster, self.queue, self._world.grants, f"{self._seed} {spec.name}"),
            view=self._view,
            on_end=self._over,
        )
        self.jobs[spec.name] = self._running[spec.name] = job
        job.start(now)

    def _over(self, job: SimulatedJob) -> None:
        del self._running[job.spec.name]
        self._left -= 1

    def _view(self) -> ClusterView:
        cluster = self.cluster
        return ClusterView(
            *(cluster.total_cpu, cluster.total_memory_mb, len(self._running), self._histories),
            free_cpu=cluster.room().free_cpu,
            wake=self._wake,
            quota_cpu=self._world.quota_cpu,
        )

    def _wake(self, name: str) -> None:
        if name in self._running:
            self._running[name].wake(self.queue.now)

    def _histories(self) -> dict[str, JobHistory]:
        return {name: job.history(self.queue.now) for name, job in self._running.items()}

    def _note_use(self, now: float) -> None:
        waiting = sum(not job.fleet.nodes for job in self._running.values())
        cores = self.cluster.total_cpu - self.cluster.free_cpu
        self.result.use.append(UsePoint(now, cores, len(self._running) - waiting, waiting + len(self._waiting)))
        self.queue.at(now + self._interval, self._note_use)

    # --- other tenants

    def _take(self, now: float, number: int, outage: Outage) -> None:
        machines = self.cluster.machines
        taken = Random(f"{self._seed} outage {number}").sample(machines, round(outage.share * len(machines)))
        for machine in taken:
            self.cluster.set_available(machine, False)
            for job, node in self.cluster.nodes_on(machine) if outage.preempts else ():
                if job in self._running:
                    self._running[job].fleet.preempt(now, node)
        self.queue.at(now + outage.duration_s, lambda when: self._give_back(taken))

    def _give_back(self, machines: Sequence[str]) -> None:
        for machine in machines:
            self.cluster.set_available(machine, True)
