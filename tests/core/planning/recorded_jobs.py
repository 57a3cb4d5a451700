"""Recorded jobs whose truth is known: their periods are made of truths of the simulator, outside of every fitted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, NodeView, Period, Room
from pliant.core.planning.proposal import Prediction, Proposal
from pliant.core.planning.replay import RecordedJob
from pliant.sim.truth.allreduce import AllreduceTruth
from pliant.sim.truth.base import Truth, groups_of
from pliant.sim.truth.queue import QueueTruth
from pliant.sim.truth.servers import ServersTruth

BEGAN = 1_000_000.0
KNEE = QueueTruth(source_limit=600.0, thrash=0.3)  # more than about 8 workers bring nothing, then harm
TRUTHS: dict[str, Truth] = {
    "queue": KNEE,
    "allreduce": AllreduceTruth(virtual_workers=32, knee_workers=12),
    "servers": ServersTruth(),
}


def configuration(truth: Truth, workers: int) -> Configuration:
    return Configuration(
        Shape(workers, 1.0, 1024), Shape(2, 2.0, 2048) if isinstance(truth, ServersTruth) else None, 32
    )


def recorded(name: str, truth: Truth, tried: Sequence[int]) -> RecordedJob:
    """It had so many workers, one after the other, for 500 s each and 100 s in between."""
    periods = []
    for i, workers in enumerate(tried):
        found = configuration(truth, workers)
        flow = truth.throughput(groups_of(found.worker), groups_of(found.server))
        began = BEGAN + 600.0 * i + 100.0
        periods.append(Period(found, began, began + 500.0, flow.rate, 0.01 * flow.rate, 100, flow.parts))
    last = periods[-1].configuration
    server = RoleBounds(2, 2) if last.server is not None else None
    history = JobHistory(
        truth.kind,
        last,
        Bounds(RoleBounds(1, 64), server),
        started=BEGAN,
        virtual_workers=truth.virtual_workers,
        remaining_records=1_000_000,
        budget_node_s=None,
        periods=tuple(periods),
        nodes=tuple(NodeView(f"worker-{i}", "worker", cpu=0.5, cpu_limit=1.0) for i in range(last.worker.replicas)),
        room=Room(10.0, 10_000.0),
    )
    return RecordedJob(name, history)


@dataclass(frozen=True)
class Doubles:
    """Twice as many workers, always; it knows the truth of a queue, and says ``bias`` times as much."""

    name: str = "doubles"
    factor: float = 2.0
    bias: float = 1.0
    truth: Truth = KNEE

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        worker = history.configuration.worker
        new = replace(
            history.configuration, worker=replace(worker, replicas=max(1, int(worker.replicas * self.factor)))
        )
        if new == history.configuration or not history.bounds.allows(new):
            return None
        rate = self.truth.rate_of(new) * self.bias
        return Proposal(self.name, f"{self.factor:g} times as many", new, Prediction(rate, 0.9 * rate, 1.1 * rate))
