from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event, active_count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.errors import CorruptData, InvalidRequest, NotAvailable
from pliant.data import (
    DataReader,
    Dataset,
    Metadata,
    RecordError,
    RecordIOReader,
    RecordIOWriter,
    open_reader,
    records_of,
)
from pliant.data.contract import ShardRange
from pliant.data.pipeline import batches_of
from pliant.data.readers.memory import MemoryReader
from pliant.testing.waiting import MAX_WAIT_S, wait_until

Master = Callable[..., Any]


def numbers(total: int) -> DataReader:
    return open_reader(list(range(total)))


def values(made: Any) -> list[int]:
    """Records in a value, whether it is one or a batch."""
    return [int(v) for v in np.ravel(made)]


def chain(dataset: Dataset, mode: str, metadata: Metadata) -> Dataset:
    return dataset.map(lambda x: x + 1).filter(lambda x: x % 3).shuffle(7, seed=1).batch(4)


def generator(dataset: Dataset, mode: str, metadata: Metadata) -> Iterator[Any]:
    held: list[int] = []
    for record in dataset:
        held.append(record)
        if len(held) == 3:
            yield from held
            held.clear()
    yield from held


def eager(dataset: Dataset, mode: str, metadata: Metadata) -> list[Any]:
    return sorted(dataset, reverse=True)


FUNCTIONS = [None, chain, generator, eager, lambda d, m, meta: d.shuffle(1000), lambda d, m, meta: d.batch(8)]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("total", "size"), [(100, 10), (97, 10), (3, 10), (64, 1), (0, 5)])
def test_each_record_comes_once_and_every_shard_is_acknowledged(
    master: Master, function: Any, total: int, size: int
) -> None:
    source = master(total, size, patient=True)
    found = [
        v for made in records_of(source, numbers(total), dataset_fn=function, flush_after=0.01) for v in values(made)
    ]
    expected = [x + 1 for x in range(total) if (x + 1) % 3] if function is chain else list(range(total))
    assert sorted(found) == expected
    assert source.all_done


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_is_acknowledged_before_all_that_was_made_from_it_is_consumed(master: Master, function: Any) -> None:
    total = 100
    source = master(total, 10)
    consumed: set[int] = set()
    dropped = {x for x in range(total) if (x + 1) % 3 == 0} if function is chain else set()
    for made in records_of(source, numbers(total), dataset_fn=function, flush_after=0.01):
        for shard in source.given:
            safe = set(shard.indices()[: shard.acknowledged])
            assert safe <= consumed | dropped
        consumed |= {v - 1 if function is chain else v for v in values(made)}


@settings(max_examples=60, deadline=None)
@given(
    total=st.integers(0, 60),
    size=st.integers(1, 20),
    steps=st.lists(st.sampled_from(["map", "filter", "shuffle", "batch"]), max_size=5),
    leave_at=st.none() | st.integers(0, 20),
    prefetch=st.sampled_from([1, 4, 64]),
    drop=st.booleans(),
)
def test_any_chain_is_safe_to_leave_at_any_point(
    master: Master, total: int, size: int, steps: list[str], leave_at: int | None, prefetch: int, drop: bool
) -> None:
    """A record is in doubt from when it is read until it was consumed or dropped; what is in doubt is not acknowledged."""

    def function(dataset: Dataset, mode: str, metadata: Metadata) -> Dataset:
        for step in steps:
            if step == "map":
                dataset = dataset.map(lambda x: x)
            elif step == "filter":
                dataset = dataset.filter(lambda x: bool(np.ravel(x)[0] % 2))
            elif step == "shuffle":
                dataset = dataset.shuffle(5, seed=3)
            else:
                dataset = dataset.batch(
                    3, collate=lambda some: [v for x in some for v in np.ravel(x)], drop_remainder=drop
                )
        return dataset

    source = master(total, size)
    consumed: list[int] = []
    stream = records_of(source, numbers(total), dataset_fn=function, prefetch=prefetch, flush_after=0.01)
    held: list[int] = []
    for number, made in enumerate(stream):
        consumed += held
        held = values(made)
        if number == leave_at:
            break
    else:
        consumed += held
        assert source.all_done
    stream.close()
    assert len(consumed) == len(set(consumed))
    safe = [i for shard in source.given for i in shard.indices()[: shard.acknowledged]]
    if "filter" not in steps and not ("batch" in steps and drop):
        assert set(safe) <= set(consumed)


def test_leaving_the_loop_reports_what_was_consumed_and_no_more(master: Master) -> None:
    source = master(100, 50)
    stream = records_of(source, numbers(100))
    for record in stream:
        if record == 20:
            break
    stream.close()
    assert source.shards[0].reports == [20]
    assert not source.shards[0].finished


def test_a_stream_that_is_closed_gives_no_more_records(master: Master) -> None:
    source = master(100, 50)
    stream = records_of(source, numbers(100))
    assert [next(stream) for _ in range(7)] == list(range(7))
    stream.close()
    assert next(stream, None) is None
    assert source.shards[0].reports == [6], "the seventh may not be finished"


def test_a_position_that_is_asked_for_in_the_middle_is_exact(master: Master) -> None:
    class Asked:
        """A source that is asked for exact positions."""

        def __init__(self) -> None:
            self.source = master(100, 50)
            self.report: Any = None

        def __iter__(self) -> Iterator[Any]:
            return iter(self.source)

        def on_flush(self, report: Any) -> None:
            self.report = report or self.report

    asked = Asked()
    for record in records_of(asked, numbers(100)):
        asked.report()
        reports = asked.source.shards[record // 50].reports
        assert (reports or [0])[-1] == record % 50, "all but the one in hand"
    assert asked.source.all_done


def test_a_master_that_refuses_an_acknowledgement_ends_the_stream(master: Master) -> None:
    def refuse(records: int = 0) -> None:
        raise NotAvailable("revoked")

    for function in (None, generator):
        source = master(100, 50)
        source.shards[0].done = refuse
        stream = records_of(source, numbers(100), dataset_fn=function)
        with pytest.raises(NotAvailable):
            list(stream)
        assert next(stream, None) is None
        stream.close()


def test_progress_is_reported_now_and_then(master: Master) -> None:
    source = master(1000, 1000)
    assert len(list(records_of(source, numbers(1000), prefetch=400))) == 1000
    assert source.shards[0].reports == [100, 200, 300, 400, 500, 600, 700, 800, 900]
    assert source.shards[0].finished == 1


def test_a_shard_that_another_worker_began_is_read_from_there(master: Master) -> None:
    source = master(20, 10)
    source.shards[0].offset = 7
    source.shards[1].offset = 10
    assert list(records_of(source, numbers(20))) == [7, 8, 9]
    assert source.all_done


def test_reading_and_leasing_stop_when_nobody_consumes(master: Master) -> None:
    read: list[int] = []
    enough = Event()

    class Counting(MemoryReader):
        def read_part(self, number: int, start: int, stop: int) -> Iterator[int]:
            for index in range(start, stop):
                read.append(index)
                yield index

    source = master(10_000, 10)
    stream = records_of(source, Counting(range(10_000)), prefetch=16)
    assert next(stream) == 0
    enough.wait(0.2)  # time to run away, if it would
    assert len(read) <= 60
    assert len(source.given) <= 8
    stream.close()


def test_the_next_lease_and_the_next_records_are_fetched_during_training(master: Master) -> None:
    source = master(30, 10)
    read_on = Event()

    class Watched(MemoryReader):
        def read_part(self, number: int, start: int, stop: int) -> Iterator[int]:
            if start >= 10:
                read_on.set()
            return iter(range(start, stop))

    stream = records_of(source, Watched(range(30)), prefetch=100)
    assert next(stream) == 0
    assert read_on.wait(MAX_WAIT_S)
    assert not any(shard.finished for shard in source.shards)
    stream.close()


def test_a_failing_function_is_raised_in_the_loop_with_its_record_after_those_before_it(
    master: Master, tmp_path: Path
) -> None:
    for number in range(2):
        with RecordIOWriter(tmp_path / f"{number}.rio") as writer:
            writer.write_all(b"%d" % i for i in range(number * 10, number * 10 + 10))

    def decode(dataset: Dataset, mode: str, metadata: Metadata) -> Dataset:
        return dataset.map(lambda record: 100 // (int(record) - 13))

    source = master(20, 5)
    stream = records_of(source, RecordIOReader(tmp_path), dataset_fn=decode)
    found: list[int] = []
    with pytest.raises(RecordError, match=r"1\.rio record 3: ZeroDivisionError") as caught:
        found.extend(stream)
    assert len(found) == 13
    assert (caught.value.index, type(caught.value.__cause__)) == (13, ZeroDivisionError)
    assert [shard.finished for shard in source.shards] == [1, 1, 0, 0]


@pytest.mark.parametrize("compressor", ["none", "gzip"])
def test_a_damaged_file_is_raised_in_the_loop_with_its_place(master: Master, tmp_path: Path, compressor: str) -> None:
    path = tmp_path / "a.rio"
    with RecordIOWriter(path, max_chunk_bytes=10, compressor=compressor) as writer:
        writer.write_all(b"%010d" % i for i in range(20))
    content = bytearray(path.read_bytes())
    eleventh = RecordIOReader(path).files[0]._offsets[11]
    content[eleventh + 25] ^= 1
    path.write_bytes(content)
    found: list[bytes] = []
    with pytest.raises(CorruptData, match=rf"a\.rio: chunk 11 at byte {eleventh}"):
        found.extend(records_of(master(20, 4), RecordIOReader(path)))
    assert found == [b"%010d" % i for i in range(11)]


def test_a_failing_reader_of_the_user_is_raised_with_its_place(master: Master) -> None:
    class Broken(DataReader):
        def create_shards(self) -> Mapping[str, int]:
            return {"shelf": 10}

        def read_records(self, shard: ShardRange) -> Iterator[Any]:
            raise ConnectionError("the shelf is gone")

    with pytest.raises(RecordError, match=r"shelf record 0 .*ConnectionError: the shelf is gone"):
        list(records_of(master(10, 5), Broken()))


@pytest.mark.parametrize("function", [None, chain])
def test_a_reader_that_gives_too_few_records_is_noticed(master: Master, function: Any) -> None:
    class Short(DataReader):
        def create_shards(self) -> Mapping[str, int]:
            return {"shelf": 10}

        def read_records(self, shard: ShardRange) -> Iterator[int]:
            return iter(range(shard.start, min(shard.end, 7)))

    with pytest.raises(CorruptData, match="shelf: 5 records were requested from record 5 on, 2 were read"):
        list(records_of(master(10, 5), Short(), dataset_fn=function))
    with pytest.raises(CorruptData):
        Short().fetch([1, 8])


def test_a_failing_source_of_shards_is_raised_in_the_loop(master: Master) -> None:
    def failing() -> Iterator[Any]:
        yield from master(10, 5)
        raise ConnectionError("no master")

    stream = records_of(failing(), numbers(10))
    with pytest.raises(ConnectionError, match="no master"):
        list(stream)


def test_a_source_that_says_it_is_dry_gets_held_back_values_at_once(master: Master) -> None:
    source = master(10, 10)
    asked = Event()

    def waiting() -> Iterator[Any]:
        yield from source
        yield None
        while not source.all_done and not asked.wait(0.001):
            pass

    def function(dataset: Dataset, mode: str, metadata: Metadata) -> Dataset:
        return dataset.shuffle(1000).batch(4)

    made = list(records_of(waiting(), numbers(10), dataset_fn=function, flush_after=1000))
    assert [len(batch) for batch in made] == [4, 4, 2]
    assert source.all_done


def test_dataset_fn_is_told_mode_and_metadata(master: Master) -> None:
    told: list[tuple[str, str]] = []

    def function(dataset: Dataset, mode: str, metadata: Metadata) -> Dataset:
        told.append((mode, metadata.format))
        return dataset

    list(records_of(master(3, 3), numbers(3), dataset_fn=function, mode="eval"))
    assert told == [("eval", "memory")]


def test_batches_are_arrays_and_structures_are_kept(master: Master) -> None:
    reader = open_reader([{"x": np.ones(2) * i, "y": (i, f"{i}")} for i in range(5)])
    first, last = batches_of(master(5, 2), reader, 3)
    assert first["x"].shape == (3, 2)
    assert first["y"][0].tolist() == [0, 1, 2]
    assert first["y"][1] == ["0", "1", "2"]
    assert last["x"].shape == (2, 2)
    (only,) = batches_of(master(5, 2), reader, 3, drop_remainder=True)
    assert only["y"][0].tolist() == [0, 1, 2]


def test_records_that_do_not_stack_are_named(master: Master) -> None:
    reader = open_reader([np.ones(2), np.ones(3)])
    with pytest.raises(InvalidRequest, match="cannot be stacked into one array"):
        list(batches_of(master(2, 2), reader, 2))


def test_a_shuffle_is_the_same_for_a_seed_and_loses_nothing() -> None:
    first = list(Dataset.of(range(100)).shuffle(10, seed=5))
    assert first == list(Dataset.of(range(100)).shuffle(10, seed=5))
    assert first != list(range(100))
    assert sorted(first) == list(range(100))


def test_no_thread_is_left_behind(master: Master) -> None:
    before = active_count()
    for number in range(20):
        stream = records_of(master(50, 5), numbers(50), dataset_fn=random.Random(number).choice(FUNCTIONS))
        next(stream)
        stream.close()
    wait_until(lambda: active_count() <= before, what="the end of the threads")
