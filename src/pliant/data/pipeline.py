"""From leased shards to records in a training loop.

The invariant: **a shard is acknowledged as done only when everything that was made from its records has been consumed**, and its
progress never counts a record of which something is still on its way. A value is consumed when the loop asks for the one
after it: until then the loop may still be working on it. So a worker that is killed loses nothing; what it had read ahead, held
in a shuffle buffer or collected for a batch is read again by another.

How it is ensured, by what ``dataset_fn`` is:

- none: blocks of neighbouring records go through untouched, and progress is a count within the block;
- a chain of ``Dataset`` methods: each value carries the marks of its records (see ``stream``), whatever the chain drops,
  delays or joins. Batches and shuffles reach over the borders of shards;
- anything else that can be iterated (a generator over the dataset, say): what it holds back cannot be seen, so it is
  applied to each shard by itself, and a shard is done when the values of its run are all consumed.

All acknowledgements are made in the consuming thread. Leaving the loop early reports what was consumed and acknowledges no more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import length_hint
from typing import Any, cast

from pliant.core.errors import InvalidRequest, PliantError
from pliant.data.channel import Closed
from pliant.data.contract import DataReader, LazyBlock, Metadata
from pliant.data.feed import Blocks, Failure, ReadThread
from pliant.data.progress import LeasedShard, ShardProgress
from pliant.data.stream import PAUSE, Dataset, Item, Signal
from pliant.files.time_meter import time_meter

DatasetFn = Callable[[Dataset, str, Metadata], Any]
Shards = Iterable[LeasedShard | None]

PREFETCH = 2048  # records read ahead
FLUSH_AFTER = 0.5  # seconds without a new shard before held-back values are sent


def records_of(
    shards: Shards,
    reader: DataReader,
    *,
    dataset_fn: DatasetFn | None = None,
    mode: str = "train",
    prefetch: int = PREFETCH,
    flush_after: float = FLUSH_AFTER,
) -> Records:
    """The records of leased shards, through the user's ``dataset_fn(dataset, mode, metadata)`` if there is one.

    ``shards`` yields leased shards, and may yield ``None`` to say that there are none for now; a source that just waits
    is taken to be dry after ``flush_after`` seconds.
    """
    return leased_records(
        lambda: nullcontext(shards),
        reader,
        dataset_fn=dataset_fn,
        mode=mode,
        prefetch=prefetch,
        flush_after=flush_after,
    )


def leased_records(
    lease: Callable[[], AbstractContextManager[Shards]],
    reader: DataReader,
    *,
    dataset_fn: DatasetFn | None = None,
    mode: str = "train",
    prefetch: int = PREFETCH,
    flush_after: float = FLUSH_AFTER,
) -> Records:
    """The same for shards that are leased when the loop begins, and released when it ends."""
    if prefetch < 1:
        raise InvalidRequest(f"prefetch is {prefetch}; allowed: 1 record or more")
    work = _plain if dataset_fn is None else _Transform(dataset_fn, mode)

    def make_thread(shards: Shards) -> ReadThread:
        return ReadThread(shards, reader, work, prefetch=prefetch, flush_after=flush_after)

    return Records.over(_Consumption(lease, make_thread))


def batches_of(
    shards: Shards,
    reader: DataReader,
    batch_size: int,
    *,
    dataset_fn: DatasetFn | None = None,
    mode: str = "train",
    drop_remainder: bool = False,
    **options: Any,
) -> Iterator[Any]:
    """Batches as NumPy arrays (see ``collate``), for JAX and plain NumPy. ``dataset_fn`` must return a ``Dataset``."""

    def batched(dataset: Dataset, mode: str, metadata: Metadata) -> Any:
        made = dataset if dataset_fn is None else dataset_fn(dataset, mode, metadata)
        return (made if isinstance(made, Dataset) else Dataset.of(made)).batch(
            batch_size, drop_remainder=drop_remainder
        )

    return records_of(shards, reader, dataset_fn=batched, mode=mode, **options)


class Records(chain[Any]):
    """Values for a loop, which takes them without any Python code between two of them; ``close`` ends it early."""

    _runs: Generator[Iterable[Any], None, None]

    @classmethod
    def over(cls, consumption: _Consumption) -> Records:
        runs = consumption.runs()
        made = cast(Records, cls.from_iterable(runs))
        made._runs = runs
        return made

    def close(self) -> None:
        """Report what was consumed, and lease no more. Also what happens when the iterator is dropped."""
        self._runs.close()


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring records that the loop takes from a list, one by one; how many it took, the list's iterator knows."""

    progress: ShardProgress
    base: int  # records of the shard before them
    size: int
    records: Iterator[Any]  # of a list

    @property
    def consumed(self) -> int:
        """The last one that was taken may not be finished."""
        return max(0, self.size - length_hint(self.records) - 1)

    def report(self) -> None:
        self.progress.report(self.base + self.consumed)

    def abandon(self) -> None:
        """The loop gets no more of them."""
        self.progress.advance(self.base + self.consumed - self.progress.prefix, now=True)
        for _ in self.records:
            continue


class _Consumption:
    def __init__(
        self,
        lease: Callable[[], AbstractContextManager[Shards]],
        make_thread: Callable[[Shards], ReadThread],
    ) -> None:
        self._lease = lease
        self._make_thread = make_thread
        self._current: _Run | None = None
        self._has_failed = False

    def runs(self) -> Generator[Iterable[Any], None, None]:
        """What the loop takes its values from, until there are no more shards."""
        with self._lease() as shards:
            thread = self._make_thread(shards)

            def report() -> None:
                if (current := self._current) is not None:
                    current.report()
                thread.report()

            on_flush = getattr(shards, "on_flush", None)  # a source that is asked for exact positions calls this first
            if callable(on_flush):
                on_flush(report)
            try:
                yield from self._runs_of(thread)
            finally:
                if callable(on_flush):
                    on_flush(None)
                thread.stop()

    def _runs_of(self, thread: ReadThread) -> Iterator[Iterable[Any]]:
        while True:
            try:
                with time_meter().data:
                    entry = thread.ready.get()
            except Closed:
                return
            if isinstance(entry, Failure):
                raise entry.error
            if isinstance(entry, Blocks):
                for block in entry.blocks:
                    yield from self._runs_of_block(entry.progress, block)
            else:
                yield self._values_of(entry)
                if self._has_failed:
                    return

    def _runs_of_block(self, progress: ShardProgress, block: Iterable[Any]) -> Iterator[Iterable[Any]]:
        """Progress advances when the block is consumed as a whole, or is left."""
        base = progress.prefix
        for records in (
            block.runs() if isinstance(block, LazyBlock) else [block if isinstance(block, list) else [*block]]
        ):
            run = self._current = _Run(progress, base, len(records), iter(records))
            try:
                yield run.records
            except GeneratorExit:  # the loop was left; the last record it received may not be finished
                self._current = None
                run.abandon()
                raise
            self._current = None
            base += run.size
        progress.advance(base - progress.prefix)

    def _values_of(self, items: list[Item]) -> Iterator[Any]:
        try:
            for value, marks in items:
                if not isinstance(value, Signal):
                    yield value
                for origin, position in marks:
                    origin.consumed(position)
        except Exception:
            self._has_failed = True
            raise


def _plain(thread: ReadThread) -> Iterator[Blocks]:
    for progress in filter(None, thread.shards()):
        blocks: list[Iterable[Any]] = [()]  # so that a shard without records is reported too
        waiting = 0
        try:
            for _, count, records in thread.blocks(progress):
                blocks.append(records)
                waiting += count
                if waiting >= thread.block:
                    yield Blocks(progress, blocks)
                    blocks, waiting = [], 0
        except PliantError:  # what was read before comes first
            yield Blocks(progress, blocks)
            raise
        if blocks:
            yield Blocks(progress, blocks)


class _Early(Exception):
    """The user's function iterated the dataset while it was being called."""


class _Transform:
    """Applies a ``dataset_fn`` to the stream as a whole where it can be followed, else shard by shard."""

    def __init__(self, function: DatasetFn, mode: str) -> None:
        self._function = function
        self._mode = mode

    def __call__(self, thread: ReadThread) -> Iterator[list[Item]]:
        metadata = thread.reader.metadata
        chain = self._chain(thread, metadata)
        items = self._by_shard(thread, metadata) if chain is None else chain.items()
        return _grouped(items, thread.block)

    def _chain(self, thread: ReadThread, metadata: Metadata) -> Dataset | None:
        started = False

        def source() -> Iterator[Item]:
            if not started:
                raise _Early
            return thread.items()

        try:
            made = self._function(Dataset(source), self._mode, metadata)
        except _Early:
            return None
        started = True
        return made if isinstance(made, Dataset) else None

    def _by_shard(self, thread: ReadThread, metadata: Metadata) -> Iterator[Item]:
        for progress in thread.shards():
            if progress is None:
                continue
            records = Dataset(partial(thread.items_of, progress))
            for value in self._function(records, self._mode, metadata):
                yield value, ()
            yield Signal.NOTHING, ((_WholeShard(progress), 0),)
            yield PAUSE


class _WholeShard:
    """The mark of a shard of which no single record can be followed."""

    def __init__(self, progress: ShardProgress) -> None:
        self._progress = progress

    def consumed(self, position: int) -> None:
        self._progress.finish()

    def describe(self, position: int) -> tuple[str, int]:
        return self._progress.describe(position)


def _grouped(items: Iterator[Item], maximum: int) -> Iterator[list[Item]]:
    """Several items at once through the channel, of up to ``maximum`` records, and none held back while the source waits."""
    group: list[Item] = []
    records = 0
    try:
        for item in items:
            value, marks = item
            if value is not Signal.FLUSH and value is not Signal.PAUSE:
                group.append(item)
                records += len(marks) or maximum
                if records < maximum:
                    continue
            if group:
                yield group
            group, records = [], 0
    except Exception:  # what was made before comes first
        yield group
        raise
    if group:
        yield group
