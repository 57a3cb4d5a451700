"""Jobs and simulations that the tests of the simulator share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, Objective
from pliant.core.planning.plan import ResourcePlan
from pliant.sim.job import SimulatedJob, SimulatedSpec
from pliant.sim.policies.base import ClusterView, Policy, plan_for
from pliant.sim.simulation import Simulation, World
from pliant.sim.truth.base import Costs, Noise, Truth
from pliant.sim.truth.queue import QueueTruth

WORKERS = RoleBounds(1, 8, min_cpu=1, max_cpu=2, max_memory_mb=8192)
SERVERS = RoleBounds(1, 4, min_cpu=1, max_cpu=4, max_memory_mb=16384)
QUIET = Noise(sample_sigma=0.0)
FAST = Costs(start_s=10.0, reform_s=2.0)


def queue_truth(**changes: Any) -> QueueTruth:
    """Ten records per second and worker, without noise."""
    truth = QueueTruth(records=100_000, wait_s=0.1, cpu_s=0.0, noise=QUIET, costs=FAST)
    return replace(truth, **changes)


def spec_of(truth: Truth, bounds: Bounds | None = None, **changes: Any) -> SimulatedSpec:
    return replace(SimulatedSpec("job", truth, bounds or Bounds(WORKERS), Objective.FASTEST), **changes)


class Scripted(Policy):
    """Begins with so many workers, and makes the plans of a script: (not before, configuration)."""

    name = "scripted"
    interval_s = max_interval_s = 10.0

    def __init__(self, first: Configuration, *script: tuple[float, Configuration]) -> None:
        self.configuration = first
        self.script = list(script)
        self.histories: list[JobHistory] = []
        self.refusals: list[str] = []

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        return self.configuration

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        self.histories.append(history)
        if not self.script or now < self.script[0][0]:
            return None
        return plan_for(history, self.script.pop(0)[1], now, algorithm="script", reason="as the script says")

    def answered(self, job: str, plan: ResourcePlan, now: float, refusal: str) -> None:
        self.refusals.append(refusal)


def workers(replicas: int, cpu: float = 1.0, memory_mb: int = 1024) -> Configuration:
    return Configuration(Shape(replicas, cpu, memory_mb))


def simulate(
    truth: Truth, policy: Policy, *, world: World | None = None, bounds: Bounds | None = None, seed: int = 1
) -> SimulatedJob:
    """Of one job, to its end."""
    simulation = Simulation(world or World(), [spec_of(truth, bounds)], policy, seed)
    simulation.run()
    return simulation.jobs["job"]
