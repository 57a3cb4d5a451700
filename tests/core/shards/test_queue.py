from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.core.shards.datasets import MAX_RECORDS, DatasetSpec
from pliant.core.shards.queue import EpochShard, ShardQueue, pack, unpack


def queue_of(**fields: Any) -> ShardQueue:
    return ShardQueue(DatasetSpec.from_json({"name": "train", "shard_size": 10, **fields}))


def take(queue: ShardQueue) -> EpochShard:
    shard = queue.take()
    assert shard is not None
    return shard


def starts(queue: ShardQueue) -> list[int]:
    """Hand out and finish all that there is."""
    found = []
    while (shard := queue.take()) is not None:
        extent = queue.extent(shard)
        found.append(extent.start)
        queue.finish(shard, extent.end - extent.start)
    return found


def test_shards_come_in_order_epoch_after_epoch() -> None:
    queue = queue_of(size=25, epochs=2)
    assert starts(queue) == [0, 10, 20, 0, 10, 20]
    assert (queue.finished_records, queue.finished_shards, queue.epochs_done) == (50, 6, 2)
    assert queue.complete


def test_a_dataset_of_nothing_is_complete_from_the_start() -> None:
    queue = queue_of(size=0, epochs=3)
    assert queue.take() is None
    assert queue.complete


def test_a_dataset_smaller_than_a_shard_is_one_shard() -> None:
    queue = queue_of(size=3)
    assert queue.extent(take(queue)).end == 3
    assert queue.take() is None
    assert queue.exhausted
    assert not queue.complete


def test_a_returned_piece_goes_before_fresh_ones_and_keeps_its_order() -> None:
    queue = queue_of(size=50)
    first, second = take(queue), take(queue)
    queue.give_back(second)
    queue.give_back(first)
    assert [take(queue).ordinal for _ in range(3)] == [0, 1, 2]


def test_a_failed_piece_goes_behind_other_returned_ones_but_before_fresh_ones() -> None:
    queue = queue_of(size=50)
    bad, good = take(queue), take(queue)
    queue.fail(bad, "no")
    queue.give_back(good)
    assert [take(queue).ordinal for _ in range(3)] == [1, 0, 2]


def test_a_piece_is_parked_when_it_failed_as_often_as_allowed() -> None:
    queue = queue_of(size=10, max_failures=2)
    queue.fail(take(queue), "first")
    assert queue.parked == []
    queue.fail(take(queue), "second")
    assert [(p.shard.failures, p.message, p.extent.end) for p in queue.parked] == [(2, "second", 10)]
    assert queue.complete


def test_time_outs_have_a_budget_of_their_own() -> None:
    queue = queue_of(size=10, max_failures=2, max_timeouts=2)
    queue.fail(take(queue), "failed")
    queue.time_out(take(queue), "silent")
    assert queue.parked == []
    queue.time_out(take(queue), "silent again")
    assert queue.parked[0].message == "silent again"


def test_giving_back_never_parks() -> None:
    queue = queue_of(size=10, max_failures=1, max_timeouts=1)
    for _ in range(100):
        queue.give_back(take(queue))
    assert queue.parked == []


def test_with_a_barrier_the_next_epoch_waits_for_what_is_out() -> None:
    queue = queue_of(size=20, epochs=2, epoch_barrier=True)
    first, second = take(queue), take(queue)
    assert queue.take() is None
    queue.finish(first, 10)
    assert queue.take() is None
    queue.finish(second, 10)
    assert take(queue).epoch == 1


def test_with_a_barrier_a_parked_piece_does_not_hold_up_the_next_epoch() -> None:
    queue = queue_of(size=10, epochs=2, epoch_barrier=True, max_failures=1)
    queue.fail(take(queue), "no")
    assert take(queue).epoch == 1


def test_without_a_barrier_epochs_overlap() -> None:
    queue = queue_of(size=20, epochs=2)
    assert [take(queue).epoch for _ in range(4)] == [0, 0, 1, 1]


def test_a_stream_hands_out_whole_shards_until_it_is_closed() -> None:
    queue = queue_of(stream=True)
    assert queue.take() is None
    queue.grow(9, close=False)
    assert queue.take() is None
    queue.grow(6, close=False)
    assert queue.extent(take(queue)).end == 10
    assert queue.take() is None
    assert not queue.exhausted
    queue.grow(0, close=True)
    last = queue.extent(take(queue))
    assert (last.start, last.end) == (10, 15)
    assert queue.exhausted


def test_a_closed_stream_stays_closed_and_closing_twice_is_the_same() -> None:
    queue = queue_of(stream=True)
    queue.grow(3, close=True)
    queue.grow(0, close=True)
    with pytest.raises(InvalidRequest):
        queue.grow(1, close=True)
    assert queue.length == 3


@pytest.mark.parametrize("records", [-1, MAX_RECORDS + 1])
def test_a_stream_refuses_to_grow_by_the_impossible(records: int) -> None:
    queue = queue_of(stream=True)
    with pytest.raises(InvalidRequest):
        queue.grow(records, close=True)
    assert (queue.length, queue.closed) == (0, False)


def test_a_fixed_dataset_does_not_grow() -> None:
    with pytest.raises(InvalidRequest, match="not a stream"):
        queue_of(size=5).grow(1, close=False)


def test_shuffled_epochs_are_all_shards_in_different_orders() -> None:
    order = starts(queue_of(size=300, epochs=3, shuffle=True))
    epochs = [order[:30], order[30:60], order[60:]]
    assert all(sorted(epoch) == list(range(0, 300, 10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_another_seed_is_another_order_and_the_same_seed_the_same() -> None:
    orders = [starts(queue_of(size=300, shuffle=True, seed=seed)) for seed in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]


def test_the_shuffled_order_is_the_same_in_every_release() -> None:
    assert starts(queue_of(size=80, epochs=2, shuffle=True)) == [
        *(50, 10, 40, 30, 70, 60, 20, 0),
        *(70, 10, 30, 0, 60, 40, 20, 50),
    ]
    assert starts(queue_of(size=80, epochs=2, shuffle=True, seed=1)) == [
        *(30, 40, 70, 10, 0, 60, 50, 20),
        *(40, 0, 30, 20, 60, 10, 70, 50),
    ]


def test_old_epochs_are_still_right_after_many_newer_ones() -> None:
    queue = queue_of(size=300, epochs=20, shuffle=True)
    before = [queue.extent(EpochShard(0, n)) for n in range(30)]
    for epoch in range(20):
        queue.extent(EpochShard(epoch, 0))
    assert [queue.extent(EpochShard(0, n)) for n in range(30)] == before


def test_epochs_that_are_done_leave_nothing_behind() -> None:
    queue = queue_of(size=30, epochs=1000)
    starts(queue)
    assert queue.epochs_done == 1000
    assert queue.open_epochs == {}


epoch_shards = st.builds(
    EpochShard, st.integers(0, 2), st.integers(0, 9), st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)
)


@given(st.lists(epoch_shards, max_size=30))
def test_packing_loses_neither_shards_nor_their_order(listed: list[EpochShard]) -> None:
    assert unpack(json.loads(json.dumps(pack(listed)))) == listed


def test_a_run_of_untouched_neighbours_packs_to_one_entry() -> None:
    assert pack([EpochShard(1, n) for n in range(7, 5007)]) == [[1, 7, 5000]]


def test_a_restored_queue_goes_on_where_the_other_stopped() -> None:
    queue = queue_of(size=95, epochs=2, shuffle=True, max_failures=1)
    queue.fail(take(queue), "no")
    queue.give_back(queue.advance(take(queue), 4))
    queue.finish(take(queue), 10)
    queue.slowest_s = 17.5
    again = queue_of(size=95, epochs=2, shuffle=True, max_failures=1)
    again.restore(json.loads(json.dumps(queue.snapshot())))
    again.check()
    assert again.snapshot() == queue.snapshot()
    assert again.parked == queue.parked
    assert starts(again) == starts(queue)


@pytest.mark.parametrize(
    "damage",
    [
        {"cursor": 11},
        {"cursor": -1},
        {"epoch": 2},
        {"epoch": -1},
        {"returned": []},
        {"returned": [[0, 1, 1], [0, 1, 1]]},
        {"returned": [[0, 0, 2], [0, 9, 1]]},
        {"returned": [[1, 0, 1], [0, 1, 1]]},
        {"returned": [[0, 1, 1], [0, 2, 10, 0, 0]]},
        {"returned": [[0, 1, 1], [0, 2, -1, 0, 0]]},
        {"returned": [[0, 1, 1], [0, 2, 1, -1, 0]]},
        {"finished_shards": 7},
        {"finished_records": -1},
        {"finished_records": 10**6},
        {"length": 5},
        {"closed": False},
    ],
    ids=str,
)
def test_a_state_that_no_history_leads_to_is_refused(damage: dict[str, Any]) -> None:
    queue = queue_of(size=100, epochs=2)
    held = [take(queue) for _ in range(3)]
    queue.finish(held[0], 10)
    queue.give_back(held[2])
    queue.give_back(held[1])
    queue.check()
    queue.restore({**queue.snapshot(), **damage})
    with pytest.raises(InvalidRequest, match="invalid saved state"):
        queue.check()
