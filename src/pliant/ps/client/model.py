"""What a client returns: parameters of one iteration, and what became of a push."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.ps.payloads import Floats


@dataclass(frozen=True)
class Model:
    """Parameters as they were at one iteration (the oldest of all, if they differ: ps-async)."""

    iteration: int
    dense: dict[str, Floats]
    rows: dict[str, Floats]


@dataclass(frozen=True)
class Contributed:
    """What became of a push. Neither accepted nor stale: a shard was ``lost`` to another worker, or training is over."""

    accepted: bool
    stale: bool
    iteration: int  # the newest
    staleness: int = 0
    reason: str = ""
    lost: tuple[int, ...] = ()  # leases
