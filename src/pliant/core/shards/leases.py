"""Leases of shards, the sessions that hold them, and the answers to their requests.

``core.shards.book`` is the state machine over these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pliant.core.shards.datasets import Extent
from pliant.core.shards.queue import EpochShard


class Availability(StrEnum):
    """What a program that wants more shards of a dataset should do."""

    MORE = "more"  # ask again at once
    WAIT = "wait"  # nothing now, but shards may be returned, or the stream may grow
    END = "end"  # all done


@dataclass(frozen=True, slots=True)
class Lease:
    number: int
    dataset: str
    shard: EpochShard
    extent: Extent
    indices: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return self.extent.end - self.extent.start


@dataclass(frozen=True, slots=True)
class Accepted:
    """Records ``[begin, end)`` of a shard, in its own order, that were accepted. For the audit."""

    lease: Lease
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Answer:
    leases: tuple[Lease, ...]
    refused: tuple[int, ...]
    availability: Availability
    accepted: tuple[Accepted, ...] = ()
    repeated: bool = False  # a retry: this request was answered before


@dataclass(frozen=True, slots=True)
class OverdueLease:
    session: str
    dataset: str
    lease: int
    silent: float
    allowed: float


@dataclass(frozen=True, slots=True)
class Revoked:
    """A lease that was revoked: what it takes to refuse a late report, and to lengthen the time-out by it."""

    dataset: str
    since: float  # when it became the head
    max_learned_s: float = 0.0  # limit on what late reports add to the time-out, fixed once


@dataclass(slots=True)
class Session:
    node: str
    incarnation: int
    granted: int = 0
    held: dict[int, Lease] = field(default_factory=dict)
    revoked: dict[int, Revoked] = field(default_factory=dict)
    head_since: dict[str, float] = field(default_factory=dict)  # dataset -> seconds
    timed_out: bool = False  # a lease of it was revoked, and it has reported nothing since
    waiting: set[str] = field(default_factory=set)  # datasets whose shards its program waits for
    request: int = 0
    answer: tuple[tuple[int, ...], tuple[int, ...], str] = (
        (),
        (),
        Availability.WAIT.value,
    )  # leases, refused, availability

    def is_after(self, dataset: str) -> bool:
        """Whether its program works on a dataset or waits for it, and so will take more of it."""
        return dataset in self.waiting or any(lease.dataset == dataset for lease in self.held.values())


@dataclass(slots=True)
class Pace:
    """How steadily records are accepted. A gap far above the typical one is a stall; its excess is counted."""

    last: float | None = None
    typical: float = 0.0  # seconds between two accepted reports, smoothed
    stalled: float = 0.0  # seconds

    def note(self, now: float) -> None:
        if self.last is not None:
            gap = max(0.0, now - self.last)
            if gap > max(0.5, 5 * self.typical):
                self.stalled += gap - self.typical
            else:
                self.typical += 0.1 * (gap - self.typical)
        self.last = now
