"""From stored records to the batches of a model: the user's ``dataset_fn`` on a few records at a time.

``dataset_fn`` is applied to each batch of records by itself. So what it drops, reorders or adds stays within the batch, and the
step plan decides alone which records a step has, whoever computes it. A value that it yields is ``(features, label)``; in mode
``predict`` also the features alone. Floats become float32, as models want them.

Where ``dataset_fn`` is nothing but ``map_batches``, the records of a batch never become objects: columns of the reader go in, and
what comes out is the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from pliant.core.errors import InvalidRequest, PliantError
from pliant.data import DataReader, open_reader
from pliant.data.columns import check_count, cut
from pliant.data.stream import Dataset, Item, Signal
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.description import Description

COLUMN_RECORDS = 8192  # that are read by column at once, if batches are not larger
TENSORFLOW = "DATASET"  # name in a model file: DATASET = "tensorflow" passes real tf.data datasets to dataset_fn


class Mode(StrEnum):
    """What ``dataset_fn`` receives as ``mode``."""

    TRAINING = "train"
    EVALUATION = "eval"
    PREDICTION = "predict"


class IndexedRecords(Sequence[tuple[int, Any]]):
    """Records of a reader with their global indices. They are read when somebody needs them, one by one or by column."""

    def __init__(self, reader: DataReader, indices: Sequence[int], columns: Callable[[], Any] | None = None) -> None:
        self.indices = indices
        self._reader = reader
        self._read_columns = columns or partial(reader.fetch_columns, indices)

    @cached_property
    def _pairs(self) -> list[tuple[int, Any]]:
        return list(zip(self.indices, self._reader.fetch(self.indices), strict=True))

    def columns(self) -> Any:
        return self._read_columns()

    def cut(self, size: int) -> Iterator[IndexedRecords]:
        """In pieces of this size. Columns are read once for all of them: reading a few records by column costs as much as many."""
        read = cache(self._read_columns)
        for at in range(0, len(self.indices), size):
            piece = slice(at, at + size)
            yield IndexedRecords(self._reader, self.indices[piece], partial(_read_piece, read, piece))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, place: Any) -> Any:
        return self._pairs[place]

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return iter(self._pairs)


def _read_piece(read: Callable[[], Any], piece: slice) -> Any:
    return cut(read(), piece.start, piece.stop)


class RecordNumbers:
    """The records of a reader in the form that the step plan fetches from: their global indices, which ``Feed.batch_of`` reads."""

    def __init__(self, reader: DataReader) -> None:
        self._reader = reader

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, index: int) -> int:
        return index


class Batch:
    """Features and labels of some records, collated; ``ids`` are the global indices of the records, ``size`` their number."""

    __slots__ = ("features", "ids", "is_pair_assumed", "labels", "size")

    def __init__(self, features: Any, labels: Any, ids: list[int], *, is_pair_assumed: bool = False) -> None:
        """``is_pair_assumed``: to predict, features alone would do as well, and two of them look like features and a label."""
        self.is_pair_assumed = is_pair_assumed
        self.features = features
        self.labels = labels
        self.ids = ids
        self.size = len(ids)


class Feed:
    """``dataset_fn`` of a model file, for one reader and mode."""

    def __init__(self, file: ModelFile, reader: DataReader, mode: Mode) -> None:
        self._file = file
        self._function = file.get("dataset_fn")
        self._reader = reader
        self._mode = mode
        self._tensorflow = getattr(file.module, TENSORFLOW, "") == "tensorflow"

    def batch(self, records: Sequence[tuple[int, Any]]) -> Batch | None:
        """One batch of what is left of these records; None if nothing is."""
        made = self._apply(records)
        if isinstance(made, Dataset) and made.whole is not None and isinstance(records, IndexedRecords):
            return self._whole(made, made.whole, records)
        values = list(self._values(made, records))
        if not values:
            return None
        features, labels = [], []
        for value, _ in values:
            feature, label = self._pair(value)
            features.append(_plain(feature))
            labels.append(_plain(label))
        known = labels[0] is not None
        return Batch(
            self._collate(features),
            self._collate(labels) if known else None,
            [i for _, i in values],
            is_pair_assumed=known and self._mode is Mode.PREDICTION,
        )

    def batch_of(self, indices: Sequence[int]) -> Batch | None:
        """The same of records of the reader, by their global indices."""
        return self.batch(IndexedRecords(self._reader, indices))

    def batches_of(self, indices: Sequence[int], size: int) -> Iterator[tuple[Batch | None, int]]:
        """Batches of this size, one after the other, each with the number of records that are done with it."""
        block = max(1, COLUMN_RECORDS // size) * size
        for first in range(0, len(indices), block):
            done = first
            for records in IndexedRecords(self._reader, indices[first : first + block]).cut(size):
                done += len(records)
                yield self.batch(records), done

    def values(self, records: Sequence[tuple[int, Any]]) -> Iterator[tuple[Any, int]]:
        """What ``dataset_fn`` makes of records, each value with the index of the record it was made from."""
        return self._values(self._apply(records), records)

    def _values(self, made: Iterable[Any], records: Sequence[tuple[int, Any]]) -> Iterator[tuple[Any, int]]:
        if isinstance(made, Dataset):
            for value, marks in made.items():
                if not isinstance(value, Signal):
                    if len(marks) > 1:
                        raise InvalidRequest(
                            f"{self._where}: it creates batches, but Pliant does the batching",
                            hint="remove .batch(…) and use --batch-size",
                        )
                    yield value, marks[0][1] if marks else records[0][0]
            return
        loose = list(made)
        if self._mode is Mode.PREDICTION and len(loose) != len(records):
            raise InvalidRequest(
                f"{self._where}: in mode predict it yielded {len(loose)} values for {len(records)} records, so "
                f"values cannot be matched to records",
                hint="use the dataset's map and filter, which keep track of records",
            )
        for number, value in enumerate(loose):
            yield value, records[min(number, len(records) - 1)][0]

    def _whole(self, dataset: Dataset, make: Callable[[], Any], records: IndexedRecords) -> Batch:
        """The batch that ``map_batches`` made."""
        try:
            made = make()
        except PliantError:
            raise
        except Exception:  # the user's function: one by one says of which record
            list(self._values(dataset, records))
            raise
        features, labels = self._pair(made)
        for part in (features, labels):
            check_count(part, len(records))
        return Batch(
            _tensors(features),
            None if labels is None else _tensors(labels),
            list(records.indices),
            is_pair_assumed=labels is not None and self._mode is Mode.PREDICTION,
        )

    def _apply(self, records: Sequence[tuple[int, Any]]) -> Iterable[Any]:
        origin = _Origin(self._reader)
        if self._tensorflow:
            return _tf_values(self._function, [record for _, record in records], self._mode, self._reader.metadata)

        def items() -> Iterator[Item]:
            return ((record, ((origin, index),)) for index, record in records)

        whole = records.columns if isinstance(records, IndexedRecords) and len(records) else None
        made = self._function(Dataset(items, whole), str(self._mode), self._reader.metadata)
        if not isinstance(made, Dataset) and not isinstance(made, Iterable):
            what = f"{self._where}: {self._file.name_of('dataset_fn')}"
            if made is None:
                raise InvalidRequest(f"{what} returned None, not a dataset", hint="check for a missing `return`")
            raise InvalidRequest(f"{what} must return a dataset; it returned {type(made).__name__}")
        return made

    def _pair(self, value: Any) -> tuple[Any, Any]:
        if isinstance(value, tuple | list) and len(value) == 2:
            return value[0], value[1]
        if self._mode is Mode.PREDICTION:
            return value, None
        shape = f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, tuple | list) else "")
        raise InvalidRequest(f"{self._where}: it must yield (features, label); it yielded {shape}")

    def _collate(self, values: list[Any]) -> Any:
        try:
            return default_collate(values)
        except (TypeError, RuntimeError) as error:
            raise InvalidRequest(
                f"{self._where}: its values cannot be batched: {error}",
                hint="yield tensors, NumPy arrays or numbers of one shape, in tuples or dicts; pad values of variable length",
            ) from error

    @property
    def _where(self) -> str:
        return self._file.where("dataset_fn")


class _Origin:
    """Names a record in errors; nothing is acknowledged here, since a whole batch is committed at once."""

    def __init__(self, reader: DataReader) -> None:
        self._reader = reader

    def consumed(self, position: int) -> None:
        return

    def describe(self, position: int) -> tuple[str, int]:
        part, record = self._reader.locate(position)
        return f"{part} record {record}", position


def open_data(file: ModelFile, description: Description, sources: Sequence[str]) -> DataReader:
    """The reader of the given paths, or the model file's own."""
    source: Any = sources[0] if len(sources) == 1 else list(sources)
    own = file.get("custom_data_reader")
    if own is None:
        return open_reader(source, **description.data_options)
    made = file.call(own, source, **description.data_options)
    try:
        reader = open_reader(source, custom_data_reader=lambda _: made)
        file.call_as("create_shards of the reader", lambda: reader.parts)
        return reader
    except InvalidRequest as error:
        raise InvalidRequest(f"{file.where('custom_data_reader')}: {error.message}", hint=error.hint) from None


MODES = {"train": Mode.TRAINING, "evaluate": Mode.EVALUATION, "predict": Mode.PREDICTION}  # by task


def first_batch(file: ModelFile, reader: DataReader, description: Description) -> Batch | None:
    """Of the first records that ``dataset_fn`` lets through; None if it drops them all."""
    feed = Feed(file, reader, MODES[description.task])
    count = min(len(reader), 2 * description.micro_batch)
    return feed.batch_of(range(count)) if count else None


def _plain(value: Any) -> Any:
    """Tensors of TensorFlow become arrays, float64 becomes float32."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return tuple(_plain(one) for one in value) if not _are_numbers(value) else _plain(np.asarray(value))
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype is torch.float64 else value
    if hasattr(value, "numpy") and not isinstance(value, np.ndarray | np.generic):
        value = value.numpy()
    if isinstance(value, float | np.float64):
        return np.float32(value)
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return value.astype(np.float32)
    return value


def _tensors(batch: Any) -> Any:
    """Arrays of a whole batch as tensors, in the structure that collating records would give."""
    if isinstance(batch, dict):
        return {name: _tensors(part) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return [_tensors(part) for part in batch]
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "biuf":
        batch = torch.from_numpy(np.ascontiguousarray(_plain(batch)))
    return _plain(batch) if isinstance(batch, torch.Tensor) else batch


def _are_numbers(values: Sequence[Any]) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(v, int | float) for v in values)


def _tf_values(function: Any, records: list[Any], mode: str, metadata: Any) -> Iterator[Any]:
    """Through a real ``tf.data`` pipeline, of these records only. Batching is ours."""
    from pliant.data.tf_dataset import _tensorflow

    tf = _tensorflow()
    first = records[0]
    if isinstance(first, dict):
        dataset = tf.data.Dataset.from_tensor_slices({n: [record[n] for record in records] for n in first})
    else:
        dataset = tf.data.Dataset.from_tensor_slices(records)
    return iter(function(dataset, str(mode), metadata))
