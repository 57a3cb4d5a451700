"""The one interface of all policies, so that they are judged by the same events.

A policy sees what a planner would see (``JobHistory``) and answers with a ``ResourcePlan``, which the simulated job carries out
through the same request for changes as a real master. One policy object plans for all jobs of a simulation: some share out a
cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan import ResourcePlan, RolePlan
from pliant.core.planning.proposal import Prediction
from pliant.core.resources import Resources, RolloutMode


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What is known of the cluster as a whole."""

    total_cpu: float
    total_memory_mb: float
    job_count: int = 0  # that run now
    histories: Callable[[], Mapping[str, JobHistory]] = dict  # of all that run now
    free_cpu: float = 0.0  # that a job could take now
    wake: Callable[[str], None] = lambda job: None  # ask this job for a plan at once
    quota_cpu: float = 0.0  # that all jobs together may have; 0: no limit

    @property
    def shared_cpu(self) -> float:
        """What there is for all jobs together."""
        return min(self.quota_cpu or self.total_cpu, self.total_cpu)


class Policy(ABC):
    name: str
    interval_s: float = 30.0  # between two questions, as long as something happens
    max_interval_s: float = 120.0  # while nothing does
    needs_samples: bool = True  # it plans by rates; False spares a simulation the measuring

    def admits(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> bool:
        """Whether the job may begin; False: it is asked again after ``interval_s``. ``history``: with its least configuration."""
        return True

    @abstractmethod
    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        """What the job begins with. Clipped to its bounds."""

    @abstractmethod
    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        """What is to change now; None: nothing."""

    def answered(self, job: str, plan: ResourcePlan, now: float, refusal: str) -> None:
        """The plan was carried out, or (``refusal``) it was not."""
        return

    def ended(self, job: str) -> None:
        """Nothing more is asked of this job."""
        return


def plan_for(
    history: JobHistory,
    wanted: Configuration,
    now: float,
    *,
    algorithm: str,
    reason: str,
    prediction: Prediction | None = None,
    rollout: RolloutMode = RolloutMode.AUTO,
) -> ResourcePlan | None:
    """The plan that leads from the present configuration to this one, within the bounds; None: it is the present one."""
    wanted = clip(wanted, history.bounds)
    present = history.configuration
    roles: dict[str, RolePlan] = {}
    shapes = (("worker", present.worker, wanted.worker), ("ps", present.server, wanted.server))
    for role, old, new in shapes:
        if old is None or new is None or old == new:
            continue
        resources = Resources(new.cpu, new.memory_mb) if (old.cpu, old.memory_mb) != (new.cpu, new.memory_mb) else None
        replicas = new.replicas if new.replicas != old.replicas else None
        roles[role] = RolePlan(replicas, resources, rollout)
    if not roles:
        return None
    return ResourcePlan(
        f"{algorithm}-{now:.0f}",
        reason,
        roles,
        base_version=history.version,
        algorithm=algorithm,
        prediction=prediction,
    )


def clip(wanted: Configuration, bounds: Bounds) -> Configuration:
    """The nearest configuration that the bounds allow; fewer workers, then fewer servers, if all are too much together."""
    worker = bounds.worker.clip(wanted.worker)
    server = bounds.server.clip(wanted.server) if bounds.server is not None and wanted.server is not None else None
    found = Configuration(worker, server, wanted.micro_batch)
    while not bounds.allows(found):
        less = _one_less(found.worker, bounds.worker)
        if less is not None:
            found = Configuration(less, found.server, found.micro_batch)
            continue
        fewer = _one_less(found.server, bounds.server) if found.server and bounds.server else None
        if fewer is None:
            return found
        found = Configuration(found.worker, fewer, found.micro_batch)
    return found


def _one_less(shape: Shape, bounds: RoleBounds) -> Shape | None:
    fewer = shape.replicas - bounds.unit
    return Shape(fewer, shape.cpu, shape.memory_mb) if fewer >= max(1, bounds.min_replicas) else None


def shape_of(bounds: RoleBounds | None, replicas: int, cluster: ClusterView, cpu: float | None = None) -> Shape:
    """So many nodes with the most CPU that the bounds allow, unless it is given, and the memory that goes with it on the
    machines of the cluster: what a person writes who knows the machines and nothing of the job."""
    assert bounds is not None
    cores = bounds.max_cpu if cpu is None else cpu
    return bounds.clip(Shape(replicas, cores, int((cores or 1.0) * cluster.total_memory_mb / cluster.total_cpu)))
