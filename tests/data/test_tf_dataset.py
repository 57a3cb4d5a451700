from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest
from pliant.data import open_reader
from pliant.data.tf_dataset import tf_dataset, tf_values

try:
    import tensorflow as tf
except ImportError:
    tf = None

Master = Callable[..., Any]
needs_tensorflow = pytest.mark.skipif(tf is None, reason="tensorflow is not installed")


def shuffled_batches(dataset: Any, mode: str, metadata: Any) -> Any:
    return dataset.map(tf.strings.to_number).shuffle(1000).batch(4).prefetch(2)


@needs_tensorflow
def test_each_record_comes_once_through_the_users_graph_and_is_acknowledged_after_it(master: Master) -> None:
    source = master(50, 10, patient=True)
    reader = open_reader([b"%d" % i for i in range(50)], name="numbers")
    found: list[int] = []
    for batch in tf_values(source, reader, dataset_fn=shuffled_batches):
        safe = [i for shard in source.given for i in shard.indices()[: shard.acknowledged]]
        assert set(safe) <= set(found)
        found += [int(v) for v in batch.numpy()]
    assert sorted(found) == list(range(50))
    assert source.all_done


@needs_tensorflow
def test_it_is_a_dataset_that_keras_can_take(master: Master) -> None:
    source = master(20, 10)
    reader = open_reader([b"%d" % i for i in range(20)], name="numbers")
    dataset = tf_dataset(source, reader, dataset_fn=shuffled_batches)
    assert isinstance(dataset, tf.data.Dataset)
    assert sorted(int(v) for batch in dataset for v in batch.numpy()) == list(range(20))
    assert source.all_done


@pytest.mark.skipif(tf is not None, reason="tensorflow is installed")
def test_without_tensorflow_the_error_says_what_to_install(master: Master) -> None:
    with pytest.raises(InvalidRequest, match=r"pliant\[tensorflow\]"):
        tf_dataset(master(1, 1), open_reader([b"x"], name="one"))
