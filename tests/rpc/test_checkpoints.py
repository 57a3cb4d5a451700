from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest
from pliant.core.shards.book import ShardBook
from pliant.core.shards.datasets import DatasetSpec, ShardType, StreamPartition
from pliant.rpc.checkpoints import checkpoint_from, checkpoint_message


def a_checkpoint() -> dict[str, Any]:
    """Of shards that are done, in work, failed, given up and noted, and of a stream that grew."""
    book = ShardBook()
    book.create(0.0, dataset=DatasetSpec("train", 2, size=20, type=ShardType.PREDICT, max_failures=1).to_json())
    book.create(0.0, dataset=DatasetSpec("log", 2, stream=True).to_json())
    book.grow(0.0, dataset="log", records=7, close=False, producer="p", number=1)
    parts = (StreamPartition("0", 1), StreamPartition("1"))
    book.create(0.0, dataset=DatasetSpec("topic", 2, stream=True, partitions=parts).to_json())
    book.grow(0.0, dataset="topic", records=0, close=False, partition="0", end=8)
    book.open_session(0.0, session="s", node="n", incarnation=0)
    book.exchange(0.0, session="s", request=1, dataset="train", want=5)
    book.exchange(
        3.5, session="s", request=2, dataset=None, want=0, done=[1], failed=[[2, "bad"]], released=[3], progress=[[4, 1]],
        notes=[[1, "note"]],
    )  # fmt: skip
    return book.checkpoint()


def test_a_checkpoint_is_the_same_after_its_way_over_the_wire() -> None:
    saved = a_checkpoint()
    train = saved["datasets"]["train"]["state"]
    assert train["returned"]
    assert train["parked"]
    assert train["notes"]
    assert saved["datasets"]["log"]["state"]["growths"]
    assert [part["end"] for part in saved["datasets"]["topic"]["state"]["partitions"]] == [8, 0]
    assert checkpoint_from(checkpoint_message(saved)) == json.loads(json.dumps(saved))


@pytest.mark.parametrize(
    "value", [{}, {"version": 1}, {"version": 1, "datasets": [1]}, {"version": "x", "datasets": {}}]
)
def test_what_is_no_checkpoint_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="not a shard checkpoint"):
        checkpoint_message(value)
