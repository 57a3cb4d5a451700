from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest
from pliant.data import Dataset, MapDataset, Metadata, RecordError, RecordIOReader, RecordIOWriter, open_reader

torch = pytest.importorskip("torch")

from torch._utils import ExceptionWrapper  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from pliant.data.torch_dataset import ShardDataset, ShardLoader  # noqa: E402

Master = Callable[..., Any]


def decode(dataset: Dataset, mode: str, metadata: Metadata) -> Dataset:
    return dataset.map(json.loads)


def decode_odd(dataset: Dataset, mode: str, metadata: Metadata) -> Dataset:
    return dataset.map(json.loads).filter(lambda value: value % 2)


def decode_batches(dataset: Dataset, mode: str, metadata: Metadata) -> Dataset:
    return dataset.map(json.loads).batch(4)


def fail_at_17(dataset: Dataset, mode: str, metadata: Metadata) -> Dataset:
    return dataset.map(lambda record: 1 // (json.loads(record) - 17))


@pytest.fixture
def reader(tmp_path: Path) -> RecordIOReader:
    for number in range(2):
        with RecordIOWriter(tmp_path / f"{number}.rio", max_chunk_bytes=20) as writer:
            writer.write_all(b"%d" % i for i in range(number * 25, number * 25 + 25))
    return RecordIOReader(tmp_path)


def test_the_iterable_dataset_works_under_a_plain_loader(master: Master, reader: RecordIOReader) -> None:
    source = master(50, 7, patient=True)
    loader = DataLoader(ShardDataset(source, reader, dataset_fn=decode, flush_after=0.01), batch_size=8)
    assert [v for batch in loader for v in batch.tolist()] == list(range(50))
    assert source.all_done


def test_in_worker_processes_each_record_comes_once_and_is_acknowledged_after_it_was_consumed(
    master: Master, reader: RecordIOReader
) -> None:
    source = master(50, 7, patient=True)
    loader = ShardDataset(source, reader, dataset_fn=decode).loader(batch_size=4, num_workers=2, flush_after=0.01)
    consumed: list[int] = []
    for batch in loader:
        safe = [i for shard in source.given for i in shard.indices()[: shard.acknowledged]]
        assert set(safe) <= set(consumed)
        consumed += batch.tolist()
    assert sorted(consumed) == list(range(50))
    assert source.all_done


@pytest.mark.parametrize("batch_size", [1, 4, 7, 100])
def test_batches_reach_over_shards_and_the_source_is_never_waited_for_with_batches_under_way(
    master: Master, reader: RecordIOReader, batch_size: int
) -> None:
    source = master(50, 7, patient=True)
    loader = ShardLoader(source, reader, dataset_fn=decode, batch_size=batch_size, flush_after=0.01)
    made = [batch.tolist() for batch in loader]
    assert [v for batch in made for v in batch] == list(range(50))
    assert source.all_done
    assert isinstance(loader, DataLoader)


def test_what_a_filter_drops_is_acknowledged_too(master: Master, reader: RecordIOReader) -> None:
    source = master(50, 7)
    made = list(ShardLoader(source, reader, dataset_fn=decode_odd, batch_size=1, flush_after=0.01))
    assert [int(batch) for batch in made] == list(range(1, 50, 2))
    assert source.all_done


def test_dataset_fn_may_make_the_batches(master: Master, reader: RecordIOReader) -> None:
    source = master(50, 10)
    made = list(ShardLoader(source, reader, dataset_fn=decode_batches, batch_size=None, flush_after=0.01))
    assert made[0].tolist() == [0, 1, 2, 3]
    assert sorted(v for batch in made for v in batch.tolist()) == list(range(50))
    assert source.all_done


def test_a_loop_that_was_left_goes_on_where_it_was(master: Master, reader: RecordIOReader) -> None:
    source = master(50, 10)
    loader = ShardLoader(source, reader, dataset_fn=decode, batch_size=5, flush_after=0.01)
    seen: list[int] = []
    for batch in loader:
        if len(seen) == 10:
            break
        seen += batch.tolist()
    assert source.acknowledged == 10
    seen += [v for batch in loader for v in batch.tolist()]
    assert seen == list(range(50))
    assert source.all_done


def test_a_short_last_batch_can_be_dropped(master: Master, reader: RecordIOReader) -> None:
    source = master(50, 50)
    made = list(ShardLoader(source, reader, dataset_fn=decode, batch_size=8, drop_last=True))
    assert [len(batch) for batch in made] == [8] * 6
    assert source.all_done


def test_a_failing_function_names_its_record(master: Master, reader: RecordIOReader) -> None:
    loader = ShardLoader(master(50, 10), reader, dataset_fn=fail_at_17, batch_size=5)
    with pytest.raises(RecordError, match=r"0\.rio record 17: ZeroDivisionError"):
        list(loader)


def test_worker_processes_of_a_plain_loader_are_refused_with_the_way_to_do_it(
    reader: RecordIOReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pliant.data.torch_dataset.get_worker_info", lambda: "a worker process")
    with pytest.raises(InvalidRequest, match=r"dataset\.loader"):
        iter(ShardDataset([], reader))


def test_our_errors_survive_the_way_out_of_a_worker_process() -> None:
    try:
        raise RecordError.at("a.rio record 3", 3, ValueError("x"))
    except RecordError:
        carried: Any = ExceptionWrapper(where="in a worker process")  # type: ignore[no-untyped-call]
    with pytest.raises(RecordError, match=r"a\.rio record 3: ValueError: x"):
        carried.reraise()


def test_any_reader_is_a_map_style_dataset_for_torch(reader: RecordIOReader) -> None:
    loader: DataLoader[Any] = DataLoader(MapDataset(reader, int), batch_size=10, shuffle=True)  # type: ignore[arg-type]
    assert sorted(v for batch in loader for v in batch.tolist()) == list(range(50))
    rows: DataLoader[Any] = DataLoader(MapDataset(open_reader([{"x": float(i)} for i in range(4)])), batch_size=2)  # type: ignore[arg-type]
    assert [batch["x"].tolist() for batch in rows] == [[0.0, 1.0], [2.0, 3.0]]
