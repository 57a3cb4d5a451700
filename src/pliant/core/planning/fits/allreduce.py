"""The speed of elastic allreduce: T = (T_grad^g + T_sync^g)^(1/g), as in Pollux, for a fixed number of virtual workers.

N virtual workers are spread over w workers, so the slowest one computes ceil(N / w) micro-batches in a step, and N of them are
finished in it: the rate has plateaus. T_grad = a + b units / c_w. T_sync is 0 for one worker, a' + b'(w - 2) on one machine and
a'' + b''(w - 2) across machines, and grows with the square of w where the network is congested. Without virtual workers (N = 0)
each worker computes one micro-batch: weak scaling.

A large g says that a collective as long as the step hides behind the computing, so that more cores would bring nothing: an easy
excuse for any rate that is lower than expected. A worker waits for the end of a collective, so g is small unless much speaks for
more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.fits.model import COMPUTE, PROPORTIONAL, SpeedModel, Speedup, Term

_OWN = (Term("overhead of a step", False, 1.0), Term(COMPUTE, False))
_LOCAL = (
    Term("collective", True, 1.0),
    Term("collective, by workers", True, 2.0),
    Term("collective, congested", True, 3.0),
)
_ACROSS = (Term("collective across machines", True, 1.0), Term("collective across machines, by workers", True, 2.0))


@dataclass(frozen=True)
class AllreduceModel(SpeedModel):
    virtual_workers: int = 0
    workers_per_host: int = 0  # more than that are on several machines; 0: all are on one, or nobody knows
    speedup: Speedup = PROPORTIONAL
    terms: tuple[Term, ...] = field(init=False, default=())
    overlap_penalty: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", (*_OWN, *_LOCAL, *(_ACROSS if self.workers_per_host else ())))

    def units(self, workers: int) -> int:
        """Micro-batches of the worker that has most."""
        return -(-self.virtual_workers // workers) if self.virtual_workers else 1

    def work(self, configuration: Configuration) -> float:
        return float((self.virtual_workers or configuration.worker.replicas) * max(1, configuration.micro_batch))

    def features(self, configuration: Configuration) -> list[float]:
        workers = max(1, configuration.worker.replicas)
        compute = self.units(workers) * max(1, configuration.micro_batch) / self.speedup.of(configuration.worker.cpu)
        sync = [1.0, float(workers - 2)] if workers > 1 else [0.0, 0.0]
        congested = float(workers - 2) ** 2 if workers > 1 else 0.0
        if not self.workers_per_host:
            return [1.0, compute, *sync, congested]
        is_across = workers > self.workers_per_host
        local, across = ([0.0, 0.0], sync) if is_across else (sync, [0.0, 0.0])
        return [1.0, compute, *local, congested, *across]
