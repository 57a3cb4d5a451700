"""Leased shards for TensorFlow, with the user's ``dataset_fn`` on real ``tf.data`` datasets.

What a ``tf.data`` graph holds back (shuffle, prefetch, batch) cannot be seen from outside. So each shard is a graph of its
own: ``from_generator`` over its records, ``dataset_fn`` on top, run to its end; the shard is done when the last of its values is
consumed. Choose shards large enough (thousands of records) that a smaller last batch per shard does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pliant.data.contract import DataReader, Metadata
from pliant.data.errors import MissingLibrary
from pliant.data.pipeline import Shards, records_of
from pliant.data.stream import Dataset

TfDatasetFn = Callable[[Any, str, Metadata], Any]


def _tensorflow() -> Any:
    try:
        import tensorflow
    except ImportError:
        raise MissingLibrary("a tf.data pipeline", "tensorflow", extra="tensorflow") from None
    return tensorflow


def tf_values(
    shards: Shards,
    reader: DataReader,
    *,
    dataset_fn: TfDatasetFn | None = None,
    mode: str = "train",
    signature: Any = None,
    **options: Any,
) -> Iterator[Any]:
    """Tensors, as eager values. ``signature``: the ``tf.TensorSpec`` (or structure of them) of a record; default: a string."""
    tf = _tensorflow()
    spec = signature if signature is not None else tf.TensorSpec((), tf.string)

    def per_shard(records: Dataset, mode: str, metadata: Metadata) -> Iterator[Any]:
        dataset = tf.data.Dataset.from_generator(lambda: iter(records), output_signature=spec)
        return iter(dataset if dataset_fn is None else dataset_fn(dataset, mode, metadata))

    return records_of(shards, reader, dataset_fn=per_shard, mode=mode, **options)


def tf_dataset(
    shards: Shards,
    reader: DataReader,
    *,
    dataset_fn: TfDatasetFn | None = None,
    mode: str = "train",
    signature: Any = None,
    **options: Any,
) -> Any:
    """The same as a ``tf.data.Dataset`` for ``model.fit``. Add nothing after it that prefetches: it would acknowledge early."""
    tf = _tensorflow()
    spec = signature if signature is not None else tf.TensorSpec((), tf.string)
    empty = tf.data.Dataset.from_generator(lambda: iter(()), output_signature=spec)
    outcome = (empty if dataset_fn is None else dataset_fn(empty, mode, reader.metadata)).element_spec

    def values() -> Iterator[Any]:
        return tf_values(shards, reader, dataset_fn=dataset_fn, mode=mode, signature=spec, **options)

    return tf.data.Dataset.from_generator(values, output_signature=outcome)
