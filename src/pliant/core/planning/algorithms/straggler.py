"""Slow workers: fewer seats, or other nodes, if what they waste exceeds what a replacement costs.

In synchronous training all wait for the slowest, and all have the rate of the slowest, so what counts is the time of one unit
before they meet. There it is urgent, and it comes before anything is judged: what a configuration achieves with a straggler in it
says little about the configuration. All slow ones are dealt with at once, since as long as one is left nothing is gained. In an
allreduce job their virtual workers go to the others, in proportion to measured speed; the sum stays N, and the result of training
is the same bit for bit: that costs a moment, so it comes first. If steps are still clearly longer than without stragglers, and in
other jobs anyway, other nodes replace them. Workers that take from a queue just take less, so there it is worth less, and nothing
where the other node would be on the same machine.

Slow is judged against the median, by the median absolute deviation: a spread that all have is no straggler, and neither are nodes
with less CPU than others while new resources are rolled out. A job replaces a limited number of them: if new nodes are as slow, it
is not the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pliant.core.planning.history import JobHistory, JobKind, NodeView
from pliant.core.planning.objectives import IN_STEP, WORKER, remaining_s
from pliant.core.planning.proposal import Proposal
from pliant.core.rendezvous.virtual_workers import weighted_counts

MIN_GAIN = 0.9  # steps that are shorter by less do not pay for another node
MAX_NAMED = 8  # of slow workers, in a reason
MAD_SCALE = 1.4826  # of a normal distribution: its standard deviation


@dataclass(frozen=True, slots=True)
class Straggler:
    name: str = "straggler"
    deviations: float = 4.0
    slower: float = 1.3  # times the median, at least
    min_age_s: float = 30.0
    max_replaced: int = 3  # of one job, or ...
    max_share: float = 0.25  # ... of its workers

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        workers = [n for n in history.nodes if n.role == WORKER and n.age_s >= self.min_age_s]
        times = {node.name: found for node in workers if (found := _seconds(history, node)) > 0}
        is_in_step = history.kind in IN_STEP
        if len(times) < 3 and not (len(times) == 2 and is_in_step):
            return None
        if len(times) < history.configuration.worker.replicas or len({node.cpu_limit for node in workers}) > 1:
            return None  # some are new, or not heard of: wait for them
        slow, middle = self._slow(times)
        if not slow:
            return None
        why = _reason(slow, times, middle, {node.name: node for node in workers})
        if history.kind is JobKind.ALLREDUCE:
            if seats := self._seats(history, workers, times):
                return _fewer_seats(self.name, history, workers, slow, seats, why)
            if _ideal(history, middle) > MIN_GAIN * max(node.virtual_workers * times[node.name] for node in workers):
                return None  # with the seats that they have, they keep nobody waiting
        if history.is_single_machine and not is_in_step:
            return None
        replaced = self._replaced(history, now, slow, times, middle)
        if not replaced:
            return None
        what = "another node" if len(replaced) == 1 else "other nodes"
        is_urgent = is_in_step and (history.kind is not JobKind.ALLREDUCE or _has_even_share(history, workers, slow))
        return Proposal(
            self.name, f"{why}: replaced by {what}", history.configuration, replace=tuple(replaced), urgent=is_urgent
        )

    def _slow(self, times: Mapping[str, float]) -> tuple[list[str], float]:
        """Slowest first, and the median of the others."""
        ordered = sorted(times, key=lambda name: (-times[name], name))
        for count in range(min(len(ordered) - 1, max(1, len(ordered) // 2)), 0, -1):
            others = [times[name] for name in ordered[count:]]
            middle = median(others)
            spread = MAD_SCALE * median(abs(seconds - middle) for seconds in others)
            if times[ordered[count - 1]] >= max(self.slower * middle, middle + self.deviations * spread):
                return ordered[:count], middle
        return [], 0.0

    def _replaced(
        self, history: JobHistory, now: float, slow: Sequence[str], times: Mapping[str, float], middle: float
    ) -> list[str]:
        limit = max(self.max_replaced, int(self.max_share * len(times))) - history.replaced_stragglers
        paying = [name for name in slow if self._pays(history, now, middle / times[name])]
        is_in_vain = history.kind in IN_STEP and len(paying) > limit  # those that are left keep all of them waiting
        return [] if is_in_vain and history.replaced_stragglers else paying[: max(0, limit)]

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


def _fewer_seats(
    name: str, history: JobHistory, workers: Sequence[NodeView], slow: Sequence[str], seats: Mapping[str, int], why: str
) -> Proposal:
    named = slow[:MAX_NAMED]
    what = ", ".join(f"{seats[node.name]} instead of {node.virtual_workers}" for node in workers if node.name in named)
    is_urgent = _has_even_share(history, workers, slow)
    return Proposal(name, f"{why}: {what} virtual workers", history.configuration, seats=seats, urgent=is_urgent)


def _has_even_share(history: JobHistory, workers: Sequence[NodeView], slow: Sequence[str]) -> bool:
    """A slow one hosts as many virtual workers as the others: nobody has done anything about it."""
    return any(n.virtual_workers * len(workers) >= history.virtual_workers for n in workers if n.name in slow)


def _ideal(history: JobHistory, middle: float) -> float:
    """Seconds of a step before the collective, if nobody was slow."""
    return -(-history.virtual_workers // max(1, history.configuration.worker.replicas)) * middle


def _reason(slow: Sequence[str], times: Mapping[str, float], middle: float, nodes: Mapping[str, NodeView]) -> str:
    throttled = nodes[slow[0]].throttled
    held_back = (
        f", held back by its CPU limit {throttled:.0%} of the time" if throttled > 0.1 and len(slow) == 1 else ""
    )
    listed = [*slow[:MAX_NAMED], f"{len(slow) - MAX_NAMED} more"] if len(slow) > MAX_NAMED else slow
    names = slow[0] if len(slow) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    verb = "needs" if len(slow) == 1 else "need up to"
    return f"{names} {verb} {times[slow[0]] / middle:.1f} times as long as the others{held_back}"


def _seconds(history: JobHistory, node: NodeView) -> float:
    """For the same work: of one virtual worker, or of one record."""
    if history.kind in IN_STEP:
        return node.unit_seconds
    return 1.0 / node.records_per_second if node.records_per_second > 0 else 0.0
