"""The two threads behind a pipeline: one leases shards, one reads and transforms their records, prefetching for the consuming loop.

    shards --lease thread--> channel(1) --read thread--> channel(prefetch) --> the consuming loop

Both channels are bounded, so a slow consumer stops reading and leasing. An error in a thread comes out of the
channel after everything that was read before it, and is raised in the consuming loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Thread
from typing import Any

from pliant.core.errors import PliantError
from pliant.data.channel import Channel, Closed, Empty
from pliant.data.contract import DataReader
from pliant.data.errors import RecordError
from pliant.data.progress import LeasedShard, ShardProgress
from pliant.data.stream import FLUSH, PAUSE, Item, Signal

REPORT_EVERY = 64  # records


@dataclass(frozen=True, slots=True)
class Failure:
    error: BaseException


@dataclass(frozen=True, slots=True)
class Blocks:
    """The next records of one shard, untouched by any function."""

    progress: ShardProgress
    blocks: list[Iterable[Any]]


class LeaseThread:
    """Asks for the next shard while the one before is being read. ``None``: nothing for now."""

    def __init__(self, shards: Iterable[LeasedShard | None]) -> None:
        self._shards = shards
        self.leased: Channel[LeasedShard | Failure | None] = Channel(1)
        Thread(target=self._run, name="pliant-lease", daemon=True).start()

    def _run(self) -> None:
        try:
            for shard in self._shards:
                self.leased.put(shard)
        except Closed:
            return
        except BaseException as error:  # noqa: BLE001  (the thread's border; raised again in the consuming loop)
            _put_last(self.leased, Failure(error))
        self.leased.close()

    def stop(self) -> None:
        """A shard iterator that waits for the master is cancelled, if it has a ``cancel``."""
        self.leased.close()
        if callable(cancel := getattr(self._shards, "cancel", None)):
            cancel()


class ReadThread:
    """Runs ``work``, which takes this object and yields what the consuming loop receives."""

    def __init__(
        self,
        shards: Iterable[LeasedShard | None],
        reader: DataReader,
        work: Callable[[ReadThread], Iterator[Any]],
        *,
        prefetch: int,
        flush_after: float,
    ) -> None:
        self.reader = reader
        self.block = max(1, min(512, prefetch // 4))  # records
        self._flush_after = flush_after
        self._lease = LeaseThread(shards)
        self._begun: list[ShardProgress] = []  # those not done
        self.ready: Channel[Any] = Channel(max(1, prefetch // self.block))
        self._work = work
        Thread(target=self._run, name="pliant-read", daemon=True).start()

    def _run(self) -> None:
        try:
            for entry in self._work(self):
                self.ready.put(entry)
        except Closed:
            pass
        except BaseException as error:  # noqa: BLE001  (the thread's border; raised again in the consuming loop)
            _put_last(self.ready, Failure(error))
        self.ready.close()
        self._lease.stop()

    def stop(self) -> None:
        self.ready.close()
        self._lease.stop()

    def report(self) -> None:
        """Report all that is consumed, however little it is."""
        for progress in self._begun:
            progress.report()

    def shards(self) -> Iterator[ShardProgress | None]:
        """Leased shards, and one ``None`` whenever the source has run dry for the moment."""
        dry = False
        while True:
            try:
                shard = self._lease.leased.get(None if dry else self._flush_after)
            except Empty:
                shard = None
            except Closed:
                return
            if isinstance(shard, Failure):
                raise shard.error
            if shard is not None:
                progress = ShardProgress(shard, self.reader, every=REPORT_EVERY)
                self._begun = [*(begun for begun in self._begun if not begun.is_done), progress]
                yield progress
            elif not dry:
                yield None
            dry = shard is None

    def blocks(self, progress: ShardProgress) -> Iterator[tuple[int, int, Iterable[Any]]]:
        """(position, number, records) of a shard, block by block."""
        position = 0
        blocks = self.reader.blocks(progress.indices, self.block)
        while True:
            try:
                count, records = next(blocks)
            except StopIteration:
                return
            except PliantError:
                raise
            except Exception as error:  # a user's reader; its failure names the record
                place, index = progress.describe(position)
                raise RecordError.at(f"{place} or shortly after it", index, error) from error
            yield position, count, records
            position += count

    def items(self) -> Iterator[Item]:
        """All records of all shards with their marks, for a stream."""
        for progress in self.shards():
            if progress is None:
                yield FLUSH
            else:
                yield from self.items_of(progress)
                yield PAUSE

    def items_of(self, progress: ShardProgress) -> Iterator[Item]:
        if not progress.indices:  # nothing is left to read, but it must still be reported
            yield Signal.NOTHING, ((progress, 0),)
        for position, _, records in self.blocks(progress):
            for place, record in enumerate(records, position):
                yield record, ((progress, place),)


def _put_last(channel: Channel[Any], failure: Failure) -> None:
    try:
        channel.put(failure)
    except Closed:
        return
