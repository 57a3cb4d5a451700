"""The speed of independent workers that take shards from a queue.

A worker needs its own time for a record (a part of it divided by its cores) and a shared one that grows with the number of workers:
with nothing overlapping, w / (a + b w), which saturates; with full overlap, the lower of w / a and 1 / b, a hard knee. The square
of w lets the rate fall again where workers hinder each other (the universal scalability law).

Where the CPU of the machine runs out is known before it is tried: ``knee`` workers use all of it, and more are as fast as that.
"""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.fits.model import COMPUTE, PROPORTIONAL, SpeedModel, Speedup, Term


@dataclass(frozen=True)
class QueueModel(SpeedModel):
    knee: float | None = None  # workers
    speedup: Speedup = PROPORTIONAL
    terms: tuple[Term, ...] = (
        Term("waiting of workers", False),
        Term(COMPUTE, False),
        Term("what workers share", True, 1.0),
        Term("workers that hinder each other", True, 2.0),
    )

    def effective(self, configuration: Configuration) -> float:
        workers = float(configuration.worker.replicas)
        return workers if self.knee is None else min(workers, self.knee)

    def work(self, configuration: Configuration) -> float:
        return self.effective(configuration)

    def features(self, configuration: Configuration) -> list[float]:
        workers = self.effective(configuration)
        return [1.0, 1.0 / self.speedup.of(configuration.worker.cpu), workers, workers * workers]
