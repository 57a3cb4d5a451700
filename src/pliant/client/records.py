"""Records of leased shards, for the user's loop: one by one, in batches, or for PyTorch and TensorFlow.

Acknowledgements are up to ``pliant.data.pipeline``: a shard is done when everything made from it was consumed. Here
shards are leased when iteration starts and released when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pliant.client.shards import ShardStream

if TYPE_CHECKING:
    from pliant.data import DataReader


class RecordStream:
    def __init__(
        self,
        lease: Callable[[], ShardStream],
        reader: DataReader,
        *,
        dataset_fn: Callable[..., Any] | None,
        mode: str,
        prefetch: int | None,
    ) -> None:
        self._lease = lease
        self.reader = reader
        self._options: dict[str, Any] = {"dataset_fn": dataset_fn, "mode": mode}
        self._prefetch: dict[str, Any] = {} if prefetch is None else {"prefetch": prefetch}

    def __iter__(self) -> Iterator[Any]:
        from pliant.data.pipeline import leased_records

        return leased_records(self._lease, self.reader, **self._options, **self._prefetch)

    def batches(self, batch_size: int, *, drop_remainder: bool = False) -> Iterator[Any]:
        """NumPy batches, for JAX and plain NumPy."""
        from pliant.data import batches_of

        with self._lease() as shards:
            options = {**self._options, **self._prefetch}
            yield from batches_of(shards, self.reader, batch_size, drop_remainder=drop_remainder, **options)

    def torch(self) -> Any:
        """An ``IterableDataset``; ``.loader(batch_size=…, num_workers=…)`` of it reads in worker processes."""
        from pliant.data.torch_dataset import ShardDataset

        return ShardDataset(self._lease(), self.reader, **self._options, **self._prefetch)

    def tensorflow(self, **options: Any) -> Any:
        """A ``tf.data.Dataset``; ``options`` are those of ``pliant.data.tf_dataset.tf_dataset``."""
        from pliant.data.tf_dataset import tf_dataset

        return tf_dataset(self._lease(), self.reader, **self._options, **options)
