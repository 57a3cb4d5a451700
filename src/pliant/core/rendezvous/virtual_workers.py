"""Virtual workers: how the workers of a world host a job's fixed number N of data-parallel units.

N belongs to the job, the number of workers to the cluster. Each worker hosts some, and one that hosts
none is a hot spare: it holds current state and takes over when the next world is formed. The rendezvous
(``core/rendezvous/book.py``) decides the ranks and, by ``seat_assignment.py``, how many each hosts; which ones follows from
that, the same on every worker (``torch/gradients/unit_tree.py``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from fractions import Fraction

from pliant.core.errors import InvalidRequest


def hosted_counts(virtual_workers: int, workers: int) -> list[int]:
    """How many each rank hosts: floor(N/n) + 1 for the first N mod n ranks, else floor(N/n)."""
    _check_positive("virtual_workers", virtual_workers)
    _check_positive("workers", workers)
    each, surplus = divmod(virtual_workers, workers)
    return [each + 1] * surplus + [each] * (workers - surplus)


def weighted_counts(virtual_workers: int, weights: Sequence[float]) -> list[int]:
    """How many each rank hosts in proportion to its weight (its measured speed), by largest remainder; the sum is N.

    Weight 0 hosts none. Every positive weight hosts at least one if N is at least the number of positive weights;
    otherwise it is plain largest remainder, and the lightest host none. The lower rank wins a tie, so equal weights
    yield ``hosted_counts``. Computed in exact fractions: the same result on every machine.
    """
    _check_positive("virtual_workers", virtual_workers)
    exact = [_weight(rank, weight) for rank, weight in enumerate(weights)]
    open_ranks = [rank for rank, weight in enumerate(exact) if weight > 0]
    if not open_ranks:
        raise InvalidRequest("at least one weight must be greater than 0")
    counts = [0] * len(exact)
    left = virtual_workers
    if left >= len(open_ranks):
        # A rank whose quota is below one gets one; the others share the rest, which may put more of them below one.
        # It terminates: there are never fewer virtual workers left than ranks left.
        while small := _below_one(open_ranks, exact, left):
            for rank in small:
                counts[rank] = 1
            left -= len(small)
            open_ranks = [rank for rank in open_ranks if rank not in small]
    total = sum(exact[rank] for rank in open_ranks)
    quotas = {rank: left * exact[rank] / total for rank in open_ranks}
    for rank, quota in quotas.items():
        counts[rank] = math.floor(quota)
    surplus = left - sum(counts[rank] for rank in open_ranks)
    for rank in sorted(open_ranks, key=lambda rank: (counts[rank] - quotas[rank], rank))[:surplus]:
        counts[rank] += 1
    return counts


def _below_one(ranks: list[int], exact: list[Fraction], left: int) -> set[int]:
    total = sum(exact[rank] for rank in ranks)
    return {rank for rank in ranks if left * exact[rank] < total}


def _weight(rank: int, weight: float) -> Fraction:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight) or weight < 0:
        raise InvalidRequest(f"the weight of rank {rank} must be a finite number of at least 0, not {weight!r}")
    return Fraction(weight)


def _check_positive(field: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRequest(f"{field} must be an integer of at least 1, not {value!r}")


def share_missing(total: int, done: Sequence[Collection[int]], weights: Sequence[int] | None = None) -> list[list[int]]:
    """Who computes the missing units: ``done[r]`` are the units that worker ``r`` has, of ``range(total)``.

    The missing ones go, in order, to the worker with the fewest so far (with ``weights``: that would have the fewest for its
    weight, and none to a weight of 0), the lower rank first; every worker computes the same assignment. Returns the units to
    compute per worker.
    """
    if not done:
        raise InvalidRequest("units can only be shared among at least one worker")
    weights = weights or [1] * len(done)
    ranks = [rank for rank, weight in enumerate(weights) if weight > 0]
    have = set().union(*done)
    counts = [len(set(units)) for units in done]
    shares: list[list[int]] = [[] for _ in done]
    for unit in range(total):
        if unit not in have:
            rank = min(ranks, key=lambda r: (Fraction(counts[r] + 1, weights[r]), r))
            counts[rank] += 1
            shares[rank].append(unit)
    return shares
