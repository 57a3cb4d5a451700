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
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, Sampler, default_collate, get_worker_info

from pliant.core.errors import InvalidRequest
from pliant.data.channel import Closed, Empty
from pliant.data.contract import DataReader
from pliant.data.feed import REPORT_EVERY, Failure, LeaseThread
from pliant.data.pipeline import FLUSH_AFTER, DatasetFn, Shards, records_of
from pliant.data.progress import ShardProgress
from pliant.data.stream import Dataset

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
                "leased shards cannot be read inside a worker process of a plain DataLoader",
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

    def place(self, position: int) -> tuple[str, int]:
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


_Portion = tuple[ShardProgress, int]  # so many of the next records of a shard


class _Plan(Sampler[list[int]]):
    """The batch sampler: which records go into which batch, and which batches are still on their way."""

    def __init__(self, shards: Shards, reader: DataReader, size: int, drop_last: bool, flush_after: float) -> None:
        self._shards = shards
        self._reader = reader
        self._size = size
        self._drop_last = drop_last
        self._flush_after = flush_after
        self._lease: LeaseThread | None = None
        self._under_way: deque[tuple[list[int], list[_Portion]]] = deque()
        self.finished = False

    def consumed(self) -> None:
        """The oldest batch under way is used up."""
        _, portions = self._under_way.popleft()
        for progress, records in portions:
            progress.advance(records)

    def __iter__(self) -> Iterator[list[int]]:
        for indices, _ in list(self._under_way):  # a pass was left early: what it did not use comes again
            yield indices
        batch: list[int] = []
        portions: list[_Portion] = []
        for progress in self._leased():
            remaining = progress.indices[progress.first :]
            taken = 0
            while taken < len(remaining):
                some = remaining[taken : taken + self._size - len(batch)]
                batch += some
                portions.append((progress, len(some)))
                taken += len(some)
                if len(batch) == self._size:
                    self._under_way.append((batch, portions))
                    yield batch
                    batch, portions = [], []
            if not len(remaining):
                progress.advance(0)
        if batch and self._drop_last:
            for progress, records in portions:
                progress.advance(records)
        elif batch:
            self._under_way.append((batch, portions))
            yield batch

    def _leased(self) -> Iterator[ShardProgress]:
        """Shards until the source is dry. The first is waited for, since nothing of ours is under way then."""
        self._lease = self._lease or LeaseThread(self._shards)
        patience = self._flush_after if self._under_way else None
        while True:
            try:
                shard = self._lease.leased.get(patience)
            except Empty:
                return
            except Closed:
                self.finished = True
                return
            if isinstance(shard, Failure):
                raise shard.error
            if shard is not None:
                patience = self._flush_after
                yield ShardProgress(shard, self._reader, every=REPORT_EVERY)
            elif patience is not None:
                return
