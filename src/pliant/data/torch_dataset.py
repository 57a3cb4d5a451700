"""Leased shards for PyTorch: an ``IterableDataset``, and a ``DataLoader`` whose worker processes read for it.

Only the training process talks to the master and knows what its loop has consumed, so only it leases and acknowledges. Worker
processes are readers and nothing more: they are handed lists of record numbers and send back finished batches. That is torch's own
division of labour between a batch sampler and a map-style dataset, and ``ShardLoader`` is a ``DataLoader`` of that kind: its
sampler walks the leased shards, its batches arrive in the sampler's order, and the records of a batch are acknowledged
when the loop asks for the batch after it. Each record once, and none lost with a killed worker.

The sampler must not wait for shards while batches are on their way: the master may be waiting for exactly those. When the source
runs dry it ends the pass; the loader delivers what is on its way, and then begins another pass with the same processes.

Inside a plain ``DataLoader`` with ``num_workers > 0`` an ``IterableDataset`` cannot know when its records are consumed, so ours
refuses to run there and names ``loader()``, which takes the same arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, Sampler, default_collate, get_worker_info

from pliant.core.errors import InvalidRequest
from pliant.data.channel import Closed, Empty
from pliant.data.contract import DataReader
from pliant.data.feed import REPORT_EVERY, Failure, LeaseThread
from pliant.data.pipeline import FLUSH_AFTER, DatasetFn, Shards, records_of
from pliant.data.progress import ShardProgress
from pliant.data.stream import Dataset
from pliant.files.time_meter import time_meter

_UNBATCHED = 256  # records sent to a worker process at once where dataset_fn makes the batches


class ShardDataset(IterableDataset[Any]):
    """The records of leased shards, through ``dataset_fn``. For worker processes: ``dataset.loader(num_workers=…)``."""

    def __init__(
        self,
        shards: Shards,
        reader: DataReader,
        *,
        dataset_fn: DatasetFn | None = None,
        mode: str = "train",
        **options: Any,
    ) -> None:
        self._shards = shards
        self._reader = reader
        self._dataset_fn = dataset_fn
        self._mode = mode
        self._options = options

    def __iter__(self) -> Iterator[Any]:
        if get_worker_info() is not None:
            raise InvalidRequest(
                "leased shards cannot be read in the worker processes of a plain DataLoader",
                hint="use dataset.loader(batch_size=…, num_workers=…): a DataLoader that keeps acknowledgements exact",
            )
        return records_of(self._shards, self._reader, dataset_fn=self._dataset_fn, mode=self._mode, **self._options)

    def loader(self, **options: Any) -> ShardLoader:
        return ShardLoader(self._shards, self._reader, dataset_fn=self._dataset_fn, mode=self._mode, **options)


class ShardLoader(DataLoader[Any]):
    """A ``DataLoader`` over leased shards. ``batch_size=None``: ``dataset_fn`` makes the batches itself.

    ``dataset_fn`` is applied in the worker process to the records of one batch at a time, so a shuffle reaches as far as
    the batch, and a filter makes it smaller. Processes are spawned: ``dataset_fn`` must be a function of a module.
    """

    def __init__(
        self,
        shards: Shards,
        reader: DataReader,
        *,
        batch_size: int | None = 1,
        dataset_fn: DatasetFn | None = None,
        mode: str = "train",
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        num_workers: int = 0,
        flush_after: float = FLUSH_AFTER,
        **options: Any,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise InvalidRequest(f"batch_size is {batch_size}; allowed: 1 or more, or None")
        self._plan = _Plan(shards, reader, batch_size or _UNBATCHED, drop_last and batch_size is not None, flush_after)
        if num_workers:
            options.setdefault("multiprocessing_context", "spawn")
        super().__init__(
            _WorkerSide(reader, dataset_fn, mode),  # type: ignore[arg-type]  # has what a map-style dataset needs
            batch_sampler=self._plan,
            collate_fn=_Collate(None if batch_size is None else collate_fn or default_collate),
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            **options,
        )

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch names its private iterator class here
        while not self._plan.finished:
            for values in super().__iter__():
                yield from values
                self._plan.consumed()


class _WorkerSide:
    """What lives in a worker process: from record numbers to values."""

    def __init__(self, reader: DataReader, dataset_fn: DatasetFn | None, mode: str) -> None:
        self._reader = reader
        self._dataset_fn = dataset_fn
        self._mode = mode

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        records = self._reader.fetch(indices)
        if self._dataset_fn is None:
            return records
        marked = Dataset(lambda: ((record, ((self, i),)) for i, record in zip(indices, records, strict=True)))
        return list(self._dataset_fn(marked, self._mode, self._reader.metadata))

    def describe(self, position: int) -> tuple[str, int]:
        part, number = self._reader.locate(position)
        return f"{part} record {number}", position

    def consumed(self, position: int) -> None:
        """Known only in the training process."""


class _Collate:
    """A list of batches for each list of records: one, none where a filter left nothing, or what ``dataset_fn`` made."""

    def __init__(self, function: Callable[[list[Any]], Any] | None) -> None:
        self._function = function

    def __call__(self, values: list[Any]) -> list[Any]:
        if self._function is None:
            return values
        return [self._function(values)] if values else []


@dataclass(slots=True)
class _Batch:
    """Record numbers, and how many of each shard they advance."""

    indices: list[int] = field(default_factory=list)
    portions: list[tuple[ShardProgress, int]] = field(default_factory=list)

    def add(self, progress: ShardProgress, indices: Sequence[int]) -> None:
        self.indices += indices
        self.portions.append((progress, len(indices)))

    def consumed(self) -> None:
        for progress, records in self.portions:
            progress.advance(records)


class _Plan(Sampler[list[int]]):
    """The batch sampler: which records go into which batch, and which batches are still on their way."""

    def __init__(self, shards: Shards, reader: DataReader, size: int, drop_last: bool, flush_after: float) -> None:
        self._shards = shards
        self._reader = reader
        self._size = size
        self._drop_last = drop_last
        self._flush_after = flush_after
        self._lease: LeaseThread | None = None
        self._begun: ShardProgress | None = None  # a shard of which some records are in no batch yet
        self._taken = 0  # of its records
        self._under_way: deque[_Batch] = deque()
        self._leased: list[ShardProgress] = []  # those not done
        self.finished = False

    def consumed(self) -> None:
        """The oldest batch under way is used up."""
        self._under_way.popleft().consumed()

    def __iter__(self) -> Iterator[list[int]]:
        for batch in list(self._under_way):  # a pass was left early: what it did not use comes again
            yield batch.indices
        while (made := self._next_batch()) is not None:
            self._under_way.append(made)
            yield made.indices

    def _next_batch(self) -> _Batch | None:
        """None when the source is dry or at its end."""
        batch = _Batch()
        while len(batch.indices) < self._size:
            self._begun = self._begun or self._next_shard(wait=not (batch.indices or self._under_way))
            if self._begun is None:
                break
            some = self._begun.indices[self._taken : self._taken + self._size - len(batch.indices)]
            batch.add(self._begun, some)
            self._taken += len(some)
            if self._taken == len(self._begun.indices):
                self._begun, self._taken = None, 0
        if len(batch.indices) == self._size or (batch.portions and not self._drop_last):
            return batch
        batch.consumed()
        return None

    def _report(self) -> None:
        for progress in self._leased:
            progress.report()

    def _next_shard(self, *, wait: bool) -> ShardProgress | None:
        """Waits without end only while nothing of ours is under way that the master may be waiting for."""
        if self._lease is None:
            self._lease = LeaseThread(self._shards)
            if callable(on_flush := getattr(self._shards, "on_flush", None)):
                on_flush(self._report)
        while True:
            try:
                with time_meter().data:
                    shard = self._lease.leased.get(None if wait else self._flush_after)
            except Empty:
                return None
            except Closed:
                self.finished = True
                return None
            if isinstance(shard, Failure):
                raise shard.error
            if shard is not None:
                progress = ShardProgress(shard, self._reader, every=REPORT_EVERY)
                self._leased = [*(known for known in self._leased if not known.is_done), progress]
                return progress
            if not wait:
                return None
