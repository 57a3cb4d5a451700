"""Virtual workers: how a job's N fixed data-parallel seats are hosted by the workers of a world.

N belongs to the job, the number of workers to the cluster. The seats are dealt in rank order, each worker hosting
a contiguous range, so that every worker computes the same answer from (rank, workers, N) and nothing is sent.
A worker without a seat is a hot spare: it holds current state and takes over when the next world is formed.
The rendezvous (``core/rendezvous.py``) decides the ranks; these are the functions that follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from fractions import Fraction

from pliant.core.errors import InvalidRequest


def seats_per_worker(virtual_workers: int, workers: int) -> list[int]:
    """Seats of each rank: floor(N/n) + 1 for the first N mod n ranks, else floor(N/n)."""
    _check_positive("virtual_workers", virtual_workers)
    _check_positive("workers", workers)
    each, surplus = divmod(virtual_workers, workers)
    return [each + 1] * surplus + [each] * (workers - surplus)


def seats_of(rank: int, workers: int, virtual_workers: int) -> range:
    """The seats that ``rank`` hosts; over all ranks they are 0..N-1 in order, each once. Takes constant time."""
    _check_positive("virtual_workers", virtual_workers)
    _check_positive("workers", workers)
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < workers:
        raise InvalidRequest(f"rank must be between 0 and {workers - 1} in a world of {workers}, not {rank!r}")
    each, surplus = divmod(virtual_workers, workers)
    start = rank * each + min(rank, surplus)
    return range(start, start + each + (rank < surplus))


def weighted_seats(virtual_workers: int, weights: Sequence[float]) -> list[int]:
    """Seats in proportion to each rank's weight (its measured speed), by largest remainder; their sum is always N.

    Weight 0 gets no seat. Every positive weight gets at least one seat if there are enough for that (N at least the
    number of positive weights); with fewer seats it is plain largest remainder and the lightest go without.
    The lower rank wins a tie, so equal weights give ``seats_per_worker``. Computed in exact fractions: the same
    weights give the same seats on every machine.
    """
    _check_positive("virtual_workers", virtual_workers)
    exact = [_weight(rank, weight) for rank, weight in enumerate(weights)]
    open_ranks = [rank for rank, weight in enumerate(exact) if weight > 0]
    if not open_ranks:
        raise InvalidRequest("at least one weight must be greater than 0")
    seats = [0] * len(exact)
    left = virtual_workers
    if left >= len(open_ranks):
        # Whoever is due less than one seat gets one; the others share what is left, which may put more of them
        # below one. It ends: the seats left are never fewer than the ranks left.
        while small := _due_less_than_one(open_ranks, exact, left):
            for rank in small:
                seats[rank] = 1
            left -= len(small)
            open_ranks = [rank for rank in open_ranks if rank not in small]
    total = sum(exact[rank] for rank in open_ranks)
    quotas = {rank: left * exact[rank] / total for rank in open_ranks}
    for rank, quota in quotas.items():
        seats[rank] = math.floor(quota)
    surplus = left - sum(seats[rank] for rank in open_ranks)
    for rank in sorted(open_ranks, key=lambda rank: (seats[rank] - quotas[rank], rank))[:surplus]:
        seats[rank] += 1
    return seats


def _due_less_than_one(ranks: list[int], exact: list[Fraction], seats: int) -> set[int]:
    total = sum(exact[rank] for rank in ranks)
    return {rank for rank in ranks if seats * exact[rank] < total}


def _weight(rank: int, weight: float) -> Fraction:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight) or weight < 0:
        raise InvalidRequest(f"the weight of rank {rank} must be a finite number of at least 0, not {weight!r}")
    return Fraction(weight)


def _check_positive(field: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRequest(f"{field} must be a whole number of at least 1, not {value!r}")


def share_missing(total: int, done: Sequence[Collection[int]]) -> list[list[int]]:
    """Who computes what nobody has: ``done[r]`` are the units that worker ``r`` has, of ``range(total)``.

    The missing ones go, in order, to whoever has the fewest so far, the lower rank first; all workers come to the same
    answer by themselves. Gives the units to compute per worker.
    """
    if not done:
        raise InvalidRequest("units can only be shared among at least one worker")
    have = set().union(*done)
    counts = [len(set(units)) for units in done]
    shares: list[list[int]] = [[] for _ in done]
    for unit in range(total):
        if unit not in have:
            rank = min(range(len(done)), key=lambda r: (counts[r], r))
            counts[rank] += 1
            shares[rank].append(unit)
    return shares
