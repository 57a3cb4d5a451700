"""What the user's loop holds: a ``Shard``, and the iterator that yields one after the other.

A shard counts as done when the loop asks for the next one (or calls ``done``). A loop that is left early releases what
it has not finished. Whether it was left by ``break`` or by an error is not known at that moment; so the shard it was
at is kept a moment longer, and if the program ends by that error, the shard is blamed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from pliant.client.shuffled import elements_of
from pliant.core.errors import InvalidRequest
from pliant.core.shards.permutation import Permutation


class Source(Protocol):
    """Where shards come from and where reports go: a master, or this process itself."""

    def take(self) -> Shard | None:
        """The next shard, waiting for it if need be; None at the end."""

    def poll(self) -> Shard | None:
        """The next shard if one is ready; does not wait."""

    def done(self, shard: Shard, note: bytes | None = None) -> None: ...

    def progress(self, shard: Shard, records: int) -> None: ...

    def failed(self, shard: Shard, message: str) -> None: ...

    def released(self, shard: Shard) -> None: ...

    def flush(self, shard: Shard | None = None) -> bool:
        """Wait until all reports, progress too, are accepted; False if this shard was leased to another worker."""

    def settled(self, shard: Shard) -> None:
        """All of it was accepted with a contribution; nothing remains to be reported."""

    def abandon(self, shard: Shard | None) -> None:
        """The loop was left at this shard; does not wait."""

    def close(self) -> None: ...


class Shard(Sequence[int]):
    """Record indices to work on: ``for index in shard``. Iterating or indexing yields the remaining records, in order."""

    def __init__(
        self,
        source: Source,
        lease: int,
        dataset: str,
        name: str,
        start: int,
        end: int,
        *,
        epoch: int = 0,
        offset: int = 0,
        indices: Sequence[int] = (),
        shuffle_key: tuple[int | str, ...] | None = None,
        session: str = "",
        partition: str | None = None,
    ) -> None:
        self._source = source
        self.session = session  # with the lease, its name in the master's audit
        self.lease = lease
        self.dataset = dataset
        self.name = name  # of the file, of the partition, or of the dataset
        self.partition = partition  # of the stream, in whose offsets start and end are; None: it has no partitions
        self.start = start
        self.end = end
        self.epoch = epoch
        self.offset = offset  # records of it that another worker finished before
        self._listed = indices
        self._shuffle_key = shuffle_key
        self._order: Permutation | None = None  # made on first use: shards are leased by the hundred
        self.finished = False
        self.lost = False  # leased to another worker; work done on it here does not count

    def __len__(self) -> int:
        return self.end - self.start - self.offset

    def __getitem__(self, position):  # type: ignore[no-untyped-def]  # overloads of Sequence
        if isinstance(position, slice):
            return [self._at(i) for i in range(*position.indices(len(self)))]
        if position < 0:
            position += len(self)
        if not 0 <= position < len(self):
            raise IndexError(position)
        return self._at(position)

    def __iter__(self) -> Iterator[int]:
        return (self._at(i) for i in range(len(self)))

    def _at(self, position: int) -> int:
        at = self.offset + position
        if self._shuffle_key is not None:
            if self._order is None:
                self._order = Permutation(self.end - self.start, *self._shuffle_key)
            at = self._order[at]
        return self._listed[at] if self._listed else self.start + at

    def indices(self) -> list[int]:
        if self._listed or not len(self):
            return list(self)
        self._at(0)  # makes the order
        if self._order is None:
            return list(range(self.start + self.offset, self.end))
        return [self.start + i for i in elements_of(self._order, self.offset, self.end - self.start)]

    def progress(self, records: int) -> None:
        """The first ``records`` of this shard (as iterated) are done, and need not be done again whatever happens."""
        if not 0 <= records <= len(self):
            raise InvalidRequest(f"{records} records reported for a shard of {len(self)}")
        if not self.finished:
            self._source.progress(self, self.offset + records)

    def done(self, note: bytes | None = None) -> None:
        """All of it is done. The loop does this by itself when it asks for the next shard.

        ``note``: its result, for datasets of type ``eval`` and ``predict``; stored if and only if this report is accepted.
        """
        if not self.finished:
            self.finished = True
            self._source.done(self, note)

    def contributed(self, records: int) -> None:
        """The master has accepted the first ``records`` of it together with a gradient."""
        if records == len(self) and not self.finished:
            self.finished = True
            self._source.settled(self)

    def commit(self, note: bytes | None = None) -> bool:
        """As ``done``, and wait for the master's answer: False if the shard was leased to another worker meanwhile."""
        self.done(note)
        return self._source.flush(self)

    def fail(self, message: str) -> None:
        """Could not be done; it is retried, by any worker, up to the dataset's limit."""
        if not self.finished:
            self.finished = True
            self._source.failed(self, message)

    def release(self) -> None:
        """Not done; return it to the queue without blame."""
        if not self.finished:
            self.finished = True
            self._source.released(self)

    def __repr__(self) -> str:
        return f"Shard({self.name}[{self.start}:{self.end}], epoch {self.epoch})"


class ShardStream(Iterator[Shard]):
    """Iterates shards and acknowledges each when the next one is asked for.

    With ``acknowledge=False`` the caller acknowledges each shard; what is not done by the end is released.
    """

    def __init__(self, source: Source, *, acknowledge: bool = True) -> None:
        self._source = source
        self._acknowledge = acknowledge
        self._taken: list[Shard] = []  # without acknowledgement: those that are not finished
        self._current: Shard | None = None
        self._over = False
        self._before_flush: Callable[[], None] | None = None

    def __iter__(self) -> ShardStream:
        return self

    def __next__(self) -> Shard:
        if self._current is not None:
            self._current.done()
            self._current = None
        if self._over:
            raise StopIteration
        shard = self._source.take()
        if shard is None:
            self._source.flush()
            self.close()
            raise StopIteration
        if self._acknowledge:
            self._current = shard
        else:
            self._taken = [*(kept for kept in self._taken if not kept.finished), shard]
        return shard

    def poll(self) -> Shard | None:
        """As ``next``, without waiting: None if no shard is ready, now or for good. Needs ``acknowledge=False``."""
        if self._acknowledge:
            raise InvalidRequest("poll needs a stream with acknowledge=False: the caller acknowledges each shard")
        shard = None if self._over else self._source.poll()
        if shard is not None:
            self._taken = [*(kept for kept in self._taken if not kept.finished), shard]
        return shard

    def on_flush(self, report: Callable[[], None] | None) -> None:
        """Have this called before each ``flush``, to report what is finished and was not worth a report yet; None: no more."""
        self._before_flush = report

    def flush(self) -> None:
        """Wait until the master has all that was finished so far."""
        if self._before_flush is not None:
            self._before_flush()
        self._source.flush()

    @property
    def closed(self) -> bool:
        return self._over

    def close(self) -> None:
        """Release what was not finished. Called at the end, and when the loop is left early."""
        if not self._over:
            self._over = True
            if self._current is not None:
                self._current.release()
            for shard in self._taken:
                shard.release()
            self._source.close()

    def __enter__(self) -> ShardStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def drop(self) -> None:
        """End without a report: the program is dying, and its agent reports why."""
        self._over = True

    def __del__(self) -> None:
        if not self._over:
            self._over = True
            self._source.abandon(self._current)
