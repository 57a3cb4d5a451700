from __future__ import annotations

import pytest

from pliant.client.shards import Shard, ShardStream
from pliant.core.errors import InvalidRequest


class Recorder:
    """A source that remembers what it was told."""

    def __init__(self, shards: list[Shard] | None = None) -> None:
        self.told: list[tuple[str, object]] = []
        self.shards = shards or []

    def take(self) -> Shard | None:
        return self.shards.pop(0) if self.shards else None

    def poll(self) -> Shard | None:
        return self.take()

    def done(self, shard: Shard, note: bytes | None = None) -> None:
        self.told.append(("done", shard.lease))

    def progress(self, shard: Shard, records: int) -> None:
        self.told.append(("progress", records))

    def failed(self, shard: Shard, message: str) -> None:
        self.told.append(("failed", message))

    def released(self, shard: Shard) -> None:
        self.told.append(("released", shard.lease))

    def flush(self, shard: Shard | None = None) -> bool:
        self.told.append(("flush", shard.lease if shard else None))
        return True

    def settled(self, shard: Shard) -> None:
        raise NotImplementedError

    def abandon(self, shard: Shard | None) -> None:
        self.told.append(("abandoned", shard.lease if shard else None))

    def close(self) -> None:
        self.told.append(("closed", None))


def shard(source: Recorder | None = None, **changes: object) -> Shard:
    fields: dict[str, object] = {"lease": 1, "dataset": "d", "name": "d", "start": 10, "end": 20, **changes}
    return Shard(source or Recorder(), **fields)  # type: ignore[arg-type]


def test_a_shard_is_the_sequence_of_its_indices() -> None:
    it = shard()
    assert list(it) == it.indices() == list(range(10, 20))
    assert (len(it), it[0], it[-1], it[2:5], it[::-3]) == (10, 10, 19, [12, 13, 14], [19, 16, 13, 10])
    assert 13 in it
    assert 20 not in it
    for wrong in (10, -11):
        with pytest.raises(IndexError):
            it[wrong]


def test_what_another_worker_finished_is_not_in_it() -> None:
    rest = shard(offset=7)
    assert list(rest) == [17, 18, 19]
    assert (len(rest), rest[-1]) == (3, 19)


def test_explicit_indices_are_given_as_listed() -> None:
    listed = shard(start=3, end=6, indices=[70, 5, 900], offset=1)
    assert list(listed) == [5, 900]


def test_a_shuffled_shard_has_all_its_records_in_an_order_that_the_key_decides() -> None:
    orders = [list(shard(start=0, end=100, shuffle_key=(seed, "records", 0, 0))) for seed in (1, 1, 2)]
    assert sorted(orders[0]) == list(range(100))
    assert orders[0] == orders[1] != orders[2]


def test_the_rest_of_a_shuffled_shard_is_the_rest_of_the_same_order() -> None:
    key = (1, "records", 0, 0)
    whole, rest = shard(shuffle_key=key), shard(shuffle_key=key, offset=4)
    assert list(whole)[4:] == list(rest)


def test_progress_counts_from_the_beginning_of_the_shard() -> None:
    source = Recorder()
    rest = shard(source, offset=4)
    rest.progress(2)
    assert source.told == [("progress", 6)]
    for wrong in (-1, 7):
        with pytest.raises(InvalidRequest, match="for a shard of 6"):
            rest.progress(wrong)


def test_a_shard_is_finished_once_and_in_one_way() -> None:
    source = Recorder()
    it = shard(source)
    it.done()
    it.done()
    it.fail("late")
    it.release()
    it.progress(3)
    assert source.told == [("done", 1)]


def test_a_stream_acknowledges_each_shard_when_the_next_is_asked_for() -> None:
    source = Recorder()
    source.shards = [shard(source, lease=n) for n in (1, 2)]
    stream = ShardStream(source)
    assert next(stream).lease == 1
    assert source.told == []
    assert next(stream).lease == 2
    assert source.told == [("done", 1)]
    assert list(stream) == []
    assert source.told == [("done", 1), ("done", 2), ("flush", None), ("closed", None)]
    assert list(stream) == [], "it stays at its end"


def test_a_stream_that_is_closed_gives_back_the_shard_it_was_at() -> None:
    source = Recorder()
    source.shards = [shard(source, lease=1), shard(source, lease=2)]
    with ShardStream(source) as stream:
        next(stream)
    assert source.told == [("released", 1), ("closed", None)]
    stream.close()
    assert len(source.told) == 2


def test_a_loop_that_is_left_abandons_the_shard_it_was_at() -> None:
    source = Recorder()
    source.shards = [shard(source, lease=1), shard(source, lease=2)]
    for _ in ShardStream(source):
        break
    assert source.told == [("abandoned", 1)]
