"""One slow worker: fewer seats first, then another node, if what it wastes exceeds what a replacement costs.

In synchronous training all wait for the slowest, and all have the rate of the slowest, so what counts is the time of one unit
before they meet. In an allreduce job its virtual workers go to the others, in proportion to measured speed; their sum stays N, and
the result of training is the same bit for bit. Otherwise only a replacement can help; workers that take from a queue just take
less, so there it is worth less. Slow is judged against the median, by the median absolute deviation: a spread that all have is no
straggler. A job replaces a limited number of them: if new nodes are as slow, it is not the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pliant.core.planning.history import JobHistory, JobKind, NodeView
from pliant.core.planning.objectives import WORKER, remaining_s
from pliant.core.planning.proposal import Proposal
from pliant.core.rendezvous.virtual_workers import weighted_counts

IN_STEP = frozenset({JobKind.ALLREDUCE, JobKind.PS_SYNC})  # all workers wait for the slowest
MAD_SCALE = 1.4826  # of a normal distribution: its standard deviation


@dataclass(frozen=True, slots=True)
class Straggler:
    name: str = "straggler"
    deviations: float = 4.0
    slower: float = 1.3  # times the median, at least
    min_age_s: float = 60.0
    max_replaced: int = 3  # of one job

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        workers = [n for n in history.nodes if n.role == WORKER and n.age_s >= self.min_age_s]
        times = {node.name: found for node in workers if (found := _seconds(history, node)) > 0}
        if len(times) < 3 and not (len(times) == 2 and history.kind in IN_STEP):
            return None
        if len(times) < history.configuration.worker.replicas:
            return None  # some are new, or not heard of: wait for them
        slowest = max(times, key=lambda name: (times[name], name))
        others = [seconds for name, seconds in times.items() if name != slowest]
        middle = median(others)
        spread = MAD_SCALE * median(abs(seconds - middle) for seconds in others)
        if times[slowest] < max(self.slower * middle, middle + self.deviations * spread):
            return None
        node = next(worker for worker in workers if worker.name == slowest)
        held_back = f", held back by its CPU limit {node.throttled:.0%} of the time" if node.throttled > 0.1 else ""
        why = f"{slowest} needs {times[slowest] / middle:.1f} times as long as the others{held_back}"
        if history.kind is JobKind.ALLREDUCE and (seats := self._seats(history, workers, times)):
            return Proposal(
                self.name,
                f"{why}: it gets {seats[slowest]} instead of {node.virtual_workers} virtual workers",
                history.configuration,
                seats=seats,
            )
        if history.replaced_stragglers >= self.max_replaced or not self._pays(history, now, middle / times[slowest]):
            return None
        return Proposal(self.name, f"{why}: replaced by another node", history.configuration, replace=(slowest,))

    def _seats(self, history: JobHistory, workers: Sequence[NodeView], times: Mapping[str, float]) -> dict[str, int]:
        """By speed; empty if a step would hardly be shorter."""
        if not history.virtual_workers or sum(node.virtual_workers for node in workers) != history.virtual_workers:
            return {}
        counts = weighted_counts(history.virtual_workers, [1.0 / times[node.name] for node in workers])
        before = max(node.virtual_workers * times[node.name] for node in workers)
        after = max(count * times[node.name] for node, count in zip(workers, counts, strict=True))
        return {n.name: c for n, c in zip(workers, counts, strict=True)} if after <= 0.95 * before else {}

    def _pays(self, history: JobHistory, now: float, speed: float) -> bool:
        """``speed``: of the straggler, as a share of the others'."""
        if not history.periods:
            return False
        left = remaining_s(history, history.periods[-1].rate, now)
        count = history.configuration.worker.replicas
        share = 1.0 if history.kind in IN_STEP else 1.0 / count
        return left * (1.0 - speed) * share > 2 * history.costs.replace_s * share


def _seconds(history: JobHistory, node: NodeView) -> float:
    """For the same work: of one virtual worker, or of one record."""
    if history.kind in IN_STEP:
        return node.unit_seconds
    return 1.0 / node.records_per_second if node.records_per_second > 0 else 0.0
