"""The speed of parameter-server training: a worker's own time, and that of the servers that all workers share.

With w workers of c_w cores, p servers of c_p cores and micro-batches of m records, one step of a worker takes

    own:     1 (overhead), m / c_w (compute)
    shared:  w / (p c_p) (CPU of the servers), w / p (requests at each server), m / p (transfer), and w if synchronous

each times a coefficient that is not negative. Asynchronous or not, w micro-batches are finished in that time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.fits.model import COMPUTE, PROPORTIONAL, SpeedModel, Speedup, Term, cores

_OWN = (Term("overhead of a worker", False), Term(COMPUTE, False))
_SHARED = (
    Term("CPU of servers", True, 1.0),
    Term("requests at servers", True, 1.5),
    Term("transfer to servers", True, 1.0),
)
_PEERS = Term("waiting for other workers", True, 2.0)


@dataclass(frozen=True)
class PsModel(SpeedModel):
    synchronous: bool = False
    speedup: Speedup = PROPORTIONAL
    terms: tuple[Term, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", (*_OWN, *_SHARED, *([_PEERS] if self.synchronous else [])))

    def work(self, configuration: Configuration) -> float:
        return float(configuration.worker.replicas * max(1, configuration.micro_batch))

    def features(self, configuration: Configuration) -> list[float]:
        worker, server = configuration.worker, configuration.server
        assert server is not None, "a job with parameter servers has some"
        workers, servers = float(worker.replicas), float(max(1, server.replicas))
        batch = float(max(1, configuration.micro_batch))
        found = [
            1.0,
            batch / self.speedup.of(worker.cpu),
            workers / (servers * cores(server.cpu)),
            workers / servers,
            batch / servers,
        ]
        return [*found, workers] if self.synchronous else found
