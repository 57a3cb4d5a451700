"""How much of a leased shard is consumed: the acknowledgement, exact although records are consumed out of order.

A shard is done when all its records are consumed. Before that, progress is the length of the consumed *prefix*, because that is
what the master can cut off if the shard is leased to another worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pliant.data.contract import DataReader


class LeasedShard(Protocol):
    """What a source of shards yields. A shard may have been started by another worker: only its remainder counts here."""

    @property
    def name(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...

    def indices(self) -> Iterable[int]:
        """The remaining record numbers, in order."""

    def progress(self, records: int) -> None:
        """The first ``records`` of ``indices()`` are consumed (a total, not a difference)."""

    def done(self) -> None:
        """All of them are."""


class ShardProgress:
    """Belongs to the consuming thread. An ``Origin`` for the stream."""

    def __init__(self, shard: LeasedShard, reader: DataReader, *, every: int) -> None:
        self._shard = shard
        self._reader = reader
        self._every = every  # records between reports
        self.indices: Sequence[int] = reader.positions(shard)
        self._prefix = self._reported = 0
        self._early: set[int] = set()  # consumed, but after one that is not
        self._done = False

    @property
    def prefix(self) -> int:
        """Records that are consumed without a gap, from the first on."""
        return self._prefix

    @property
    def is_done(self) -> bool:
        return self._done

    def describe(self, position: int) -> tuple[str, int]:
        index = self.indices[position]
        part, number = self._reader.locate(index)
        return f"{part} record {number}", index

    def consumed(self, position: int) -> None:
        if position != self._prefix:
            self._early.add(position)
            return
        self._prefix += 1
        while self._prefix in self._early:
            self._early.remove(self._prefix)
            self._prefix += 1
        self._report()

    def advance(self, records: int, *, now: bool = False) -> None:
        """The next ``records`` in order are consumed."""
        self._prefix += records
        self._report(now)

    def report(self, upto: int | None = None) -> None:
        """Report at once that the first ``upto`` records are consumed, or as many as are known to be. May come from any thread."""
        known = self._prefix if upto is None else upto
        if known > self._reported and not self._done:
            self._reported = known
            self._shard.progress(known)

    def finish(self) -> None:
        self._prefix = len(self.indices)
        self._report()

    def _report(self, now: bool = False) -> None:
        if self._done:
            return
        if self._prefix >= len(self.indices):
            self._done = True
            self._shard.done()
        elif self._prefix - self._reported >= (1 if now else self._every):
            self._reported = self._prefix
            self._shard.progress(self._prefix)
