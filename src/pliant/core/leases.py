"""What is held, asked and answered about shards: leases, the sessions that hold them, and the answers to their requests.

``core.shards`` is the state machine over these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pliant.core.datasets import Extent
from pliant.core.shard_queue import Piece


class Supply(StrEnum):
    """What a program that wants more shards of a dataset should do."""

    MORE = "more"  # there is more
    WAIT = "wait"  # nothing now, but something may come back or grow
    END = "end"  # all done


@dataclass(frozen=True, slots=True)
class Lease:
    number: int
    dataset: str
    piece: Piece
    extent: Extent
    indices: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return self.extent.end - self.extent.start


@dataclass(frozen=True, slots=True)
class Accepted:
    """Records ``[begin, end)`` of a shard, in its own order, that now count. For the audit."""

    lease: Lease
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Answer:
    leases: tuple[Lease, ...]
    refused: tuple[int, ...]
    supply: Supply
    accepted: tuple[Accepted, ...] = ()
    repeated: bool = False  # this request was answered before


@dataclass(frozen=True, slots=True)
class OverdueLease:
    session: str
    dataset: str
    lease: int
    silent: float
    allowed: float


@dataclass(frozen=True, slots=True)
class Revoked:
    """What is left of a lease that was taken away: enough to refuse it, and to learn from a report that comes late."""

    dataset: str
    since: float  # when it became the head
    most: float = 0.0  # seconds that a late report may teach, fixed once so that many reports teach no more than one


@dataclass(slots=True)
class Session:
    node: str
    incarnation: int
    granted: int = 0
    held: dict[int, Lease] = field(default_factory=dict)
    revoked: dict[int, Revoked] = field(default_factory=dict)
    head_since: dict[str, float] = field(default_factory=dict)  # dataset -> seconds
    request: int = 0
    answer: tuple[tuple[int, ...], tuple[int, ...], str] = ((), (), Supply.WAIT.value)  # leases, refused, supply


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
