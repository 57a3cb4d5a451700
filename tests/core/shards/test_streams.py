"""Streams in partitions: which shards there are, in whose turn, and where each partition stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest, NotFound
from pliant.core.shards.datasets import MAX_PARTITIONS, MAX_RECORDS, DatasetSpec, StreamPartition
from pliant.core.shards.queue import EpochShard, ShardQueue
from pliant.core.shards.streams import SHARD_BITS


def topic(*starts: int, shard_size: int = 4) -> ShardQueue:
    parts = tuple(StreamPartition(str(number), start) for number, start in enumerate(starts))
    spec = DatasetSpec("topic", shard_size, stream=True, partitions=parts)
    spec.check()
    return ShardQueue(spec)


def taken(queue: ShardQueue) -> list[EpochShard]:
    found = []
    while (shard := queue.take()) is not None:
        found.append(shard)
    return found


def ranges(queue: ShardQueue, shards: list[EpochShard]) -> list[tuple[str, int, int]]:
    return [(e.name, e.start, e.end) for e in map(queue.extent, shards)]


def test_each_partition_is_cut_from_its_own_start_and_they_take_turns() -> None:
    queue = topic(1, 0)
    assert queue.grow(0, partition="0", end=10, close=False) == 10
    assert queue.grow(9, partition="1", close=False) == 9
    assert ranges(queue, taken(queue)) == [("0", 1, 5), ("1", 0, 4), ("0", 5, 9), ("1", 4, 8)]
    assert (queue.length, queue.closed) == (18, False)
    queue.grow(0, partition="0", close=True)
    assert ranges(queue, taken(queue)) == [("0", 9, 10)], "the rest of a partition comes with its end"
    assert not queue.exhausted
    assert queue.grow(0, close=True) == 18
    assert ranges(queue, taken(queue)) == [("1", 8, 9)]
    assert queue.exhausted


def test_a_partition_with_nothing_new_is_passed_over_and_does_not_catch_up_at_the_expense_of_others() -> None:
    queue = topic(0, 0, 0, shard_size=1)
    queue.grow(3, partition="0", close=False)
    assert [e[0] for e in ranges(queue, taken(queue))] == ["0", "0", "0"]
    for partition in ("0", "1", "2"):
        queue.grow(2, partition=partition, close=False)
    assert [e[0] for e in ranges(queue, taken(queue))] == ["1", "2", "0", "1", "2", "0"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 4)), max_size=25))
def test_nobody_is_served_twice_while_another_waits(steps: list[tuple[int, int, int]]) -> None:
    queue = topic(0, 5, 10, 15, shard_size=2)
    assert queue.stream is not None
    waiting_since: dict[str, int] = {}  # partition with shards -> shards handed out to others meanwhile
    for number, records, takes in steps:
        queue.grow(records, partition=str(number), close=False)
        for _ in range(takes):
            for part in queue.stream.partitions:
                if part.cursor < part.shards(2):
                    waiting_since.setdefault(part.name, 0)
            shard = queue.take()
            if shard is None:
                assert not waiting_since
                continue
            served = queue.extent(shard).name
            del waiting_since[served]
            waiting_since = {name: passed + 1 for name, passed in waiting_since.items()}
            assert all(passed <= 3 for passed in waiting_since.values()), "each other partition came once at most"


def test_an_end_that_was_reached_before_changes_nothing() -> None:
    queue = topic(3, 0)
    queue.grow(0, partition="0", end=9, close=False)
    assert queue.grow(0, partition="0", end=7, close=False) == 9
    queue.grow(0, partition="0", close=True)
    assert queue.grow(0, partition="0", end=9, close=False) == 9
    assert queue.length == 6


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"records": 1}, InvalidRequest, "has partitions; specify which one"),
        ({"records": 1, "partition": "7"}, NotFound, "no partition '7'"),
        ({"records": -1, "partition": "0"}, InvalidRequest, "by -1"),
        ({"records": 1, "end": 9, "partition": "0"}, InvalidRequest, "not both"),
        ({"records": 0, "end": 2, "partition": "0"}, InvalidRequest, "starts at 3"),
        ({"records": 0, "end": MAX_RECORDS + 1, "partition": "0"}, InvalidRequest, "cannot hold more"),
        ({"records": (4 << SHARD_BITS) + 1, "partition": "0"}, InvalidRequest, "more than 2\\^42 shards"),
        ({"records": 1, "partition": "1"}, InvalidRequest, "'1' of stream 'topic' is closed"),
    ],
)
def test_what_no_partition_can_grow_by_is_refused_and_changes_nothing(
    given: dict[str, Any], error: type[Exception], told: str
) -> None:
    queue = topic(3, 0)
    queue.grow(5, partition="1", close=True)
    before = queue.snapshot()
    with pytest.raises(error, match=told):
        queue.grow(close=False, **given)
    assert queue.snapshot() == before


def test_a_stream_without_partitions_knows_none_and_may_be_extended_to_an_end() -> None:
    queue = ShardQueue(DatasetSpec("log", 4, stream=True))
    with pytest.raises(InvalidRequest, match="has no partitions"):
        queue.grow(1, partition="0", close=False)
    assert queue.grow(0, end=6, close=False) == 6
    assert "partitions" not in queue.snapshot()


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([["a", 0], ["a", 1]], "'a' is given twice"),
        ([["", 0]], "1 to 200 printable"),
        ([["a", -1]], "the start of partition 'a' is -1"),
        ([["a", "0"]], r"is not \[name, start\]"),
        ([[str(n), 0] for n in range(MAX_PARTITIONS + 1)], "at most"),
    ],
)
def test_impossible_partitions_are_refused(parts: list[Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        DatasetSpec.from_json({"name": "d", "shard_size": 1, "stream": True, "partitions": parts}).check()


def test_only_a_stream_has_partitions() -> None:
    with pytest.raises(InvalidRequest, match="only a stream has partitions"):
        DatasetSpec("d", 1, size=4, partitions=(StreamPartition("0"),)).check()


def test_a_position_per_partition_is_all_that_is_kept_of_a_long_stream() -> None:
    queue = topic(1, 0)
    for step in range(1, 2000):
        for partition in ("0", "1"):
            queue.grow(0, partition=partition, end=1 + 40 * step, close=False)
        for shard in taken(queue):
            queue.finish(shard, 4)
    state = queue.snapshot()
    assert state["partitions"] == [
        {"name": "0", "position": 79961, "end": 79961, "closed": False, "finished_records": 79960},
        {"name": "1", "position": 79960, "end": 79961, "closed": False, "finished_records": 79960},
    ]
    assert len(json.dumps(state)) < 1000
    again = topic(1, 0)
    again.restore(json.loads(json.dumps(state)))
    again.check()
    assert again.snapshot() == state


@pytest.mark.parametrize(
    "damage",
    [
        {"end": 0},
        {"position": 99},
        {"position": 2},
        {"finished_records": 99},
        {"closed": 1},
        {"end": 9.0},
        {"name": "other"},
    ],
)
def test_a_position_that_no_history_leads_to_is_refused(damage: dict[str, Any]) -> None:
    queue = topic(1, 0)
    queue.grow(0, partition="0", end=9, close=False)
    for shard in taken(queue):
        queue.finish(shard, 4)
    state = queue.snapshot()
    state["partitions"][0] |= damage

    def restore() -> None:
        again = topic(1, 0)
        again.restore(state)
        again.check()

    with pytest.raises((InvalidRequest, ValueError, TypeError)):
        restore()
