"""Dumps of parameter servers: whole or refused by name, in chains, for any number of servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pliant.core.errors import CorruptData, NotFound
from pliant.core.parameters.dumps import Dump, RestorePoint
from pliant.core.parameters.orders import Contribution
from pliant.core.parameters.partition_map import PartitionMap
from pliant.files.atomic import atomic_path
from pliant.ps.files import dump_folder, find_dump, write_manifest
from pliant.ps.payloads import Push, RowBatch, RowGradients
from pliant.ps.recovery import dumps
from pliant.ps.recovery.dumps import is_whole, load, read_chunks, write_chunks
from pliant.ps.recovery.restore import restored
from pliant.ps.specs import OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore

TABLE = TableSpec("t", 3, optimizer=OptimizerSpec("adagrad", learning_rate=0.5))


def store(seat: int, seats: int) -> ParameterStore:
    return restored(restore_point(seat, seats), Path("nowhere"), lambda text: None)


def restore_point(seat: int, seats: int, *, base: int = 0, restore_from: str = "", iteration: int = 0) -> RestorePoint:
    parameter_map = PartitionMap.first(list(range(seats)))
    return RestorePoint(seat, 1, base, base, restore_from, parameter_map, (TABLE.to_json(),), (), iteration)


def train(stores: list[ParameterStore], iteration: int, ids: np.ndarray) -> None:
    for seat, one in enumerate(stores):
        mine = np.array([i for i in ids if one.ownership.partitions[partition(one, i)]], np.int64)
        gradients = np.repeat(mine[:, None].astype(np.float32) + iteration, 3, axis=1)
        one.stage(Push("s", iteration, rows=(RowGradients("t", mine, np.ascontiguousarray(gradients), True),)))
        one.apply([Contribution("s", iteration, 1.0)], 1.0, iteration)
        assert seat < len(stores)


def partition(one: ParameterStore, row: int) -> int:
    from pliant.ps.placement import partition_of

    return partition_of("t", int(row), one.partitions)


def dump(
    folder: Path, stores: list[ParameterStore], order: int, iteration: int, since: int | None, chain: list[Dump]
) -> Dump:
    for seat, one in enumerate(stores):
        write_chunks(dump_folder(folder, order) / f"seat-{seat}", one.snapshot(since), facts={})
    seats = tuple(range(len(stores)))
    told = Dump(order, iteration, since is None, seats, {}, (TABLE.to_json(),), (), ())
    write_manifest(folder, told, chain)
    return told


def rows(stores: list[ParameterStore], ids: np.ndarray) -> np.ndarray:
    out = np.empty((ids.size, 3), np.float32)
    for place, row in enumerate(ids):
        owner = next(one for one in stores if one.ownership.partitions[partition(one, row)])
        owner.pull_rows("t", ids[place : place + 1], out[place : place + 1])
    return out


IDS = np.arange(60, dtype=np.int64)


@pytest.fixture
def trained(tmp_path: Path) -> list[ParameterStore]:
    """Two servers, a full dump at iteration 1 and an increment at 2."""
    stores = [store(0, 2), store(1, 2)]
    train(stores, 1, IDS)
    first = dump(tmp_path, stores, 5, 1, None, [])
    train(stores, 2, IDS[::2])
    dump(tmp_path, stores, 9, 2, 1, [first])
    return stores


@pytest.mark.parametrize("seats", [1, 2, 3, 5])
def test_a_chain_is_restored_on_any_number_of_servers(
    tmp_path: Path, trained: list[ParameterStore], seats: int
) -> None:
    path, manifest = find_dump(tmp_path)
    assert manifest.chain == (5, 9)
    begins = [restore_point(s, seats, restore_from=str(path), iteration=2) for s in range(seats)]
    again = [restored(begin, tmp_path, lambda text: None) for begin in begins]
    assert np.array_equal(rows(again, IDS), rows(trained, IDS))
    assert sum(one.stats()["rows"] for one in again) == 60
    for stores in (again, trained):  # the state of the optimizer came too
        train(stores, 3, IDS)
    assert np.array_equal(rows(again, IDS), rows(trained, IDS))


def test_dumps_of_early_releases_whose_arrays_were_all_named_alike_are_restored(
    tmp_path: Path, trained: list[ParameterStore]
) -> None:
    for facts in (tmp_path / "dumps").glob("*/seat-*.json"):
        told = json.loads(facts.read_bytes())
        facts.with_name(told.pop("file")).rename(facts.with_suffix(".safetensors"))
        facts.write_text(json.dumps(told))
        assert is_whole(facts.with_suffix(""))
    path, _ = find_dump(tmp_path)
    again = [restored(restore_point(s, 3, restore_from=str(path), iteration=2), tmp_path, print) for s in range(3)]
    assert np.array_equal(rows(again, IDS), rows(trained, IDS))
    (path / "seat-1.safetensors").unlink()
    assert find_dump(tmp_path)[0].name == f"{5:012d}"


@pytest.mark.parametrize("harm", ["cut", "flipped", "missing"])
def test_a_damaged_file_is_named_and_an_older_dump_used(
    tmp_path: Path, trained: list[ParameterStore], harm: str
) -> None:
    path = next(dump_folder(tmp_path, 9).glob("seat-1.*.safetensors"))
    data = path.read_bytes()
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-9] if harm == "cut" else data[:-1] + bytes([data[-1] ^ 255]))
    with pytest.raises(CorruptData, match="seat-1"):
        list(load(dump_folder(tmp_path, 9), 1, lambda chunk: chunk))
    messages: list[str] = []
    again = restored(restore_point(1, 2, base=9, iteration=2), tmp_path, messages.append)
    assert path.name in messages[0]
    assert "iteration 1" in messages[1]
    assert "lost" in messages[1]
    assert again.stats()["rows"] == trained[1].stats()["rows"]
    found = find_dump(tmp_path)[0]
    assert found.name == (f"{5:012d}" if harm == "missing" else f"{9:012d}")


class Killed(Exception):
    pass


@pytest.mark.parametrize("point", [".safetensors", ".json"])
def test_a_part_that_two_servers_write_at_the_same_time_is_that_of_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The first is stopped right before one of its two files is there; the second writes both; the first goes on, and is killed
    when its file is there."""
    stem = tmp_path / "seat-0"
    two = [RowBatch("t", np.array([n]), np.full((1, 2), n, np.float32), np.zeros((1, 2), np.uint32)) for n in (1, 2)]
    begun = atomic_path

    @contextmanager
    def held(path: Path) -> Iterator[Path]:
        with begun(path) as temporary:
            yield temporary
            if path.name.endswith(point):
                monkeypatch.undo()
                write_chunks(stem, two[1:], facts={})
        if path.name.endswith(point):
            raise Killed

    monkeypatch.setattr(dumps, "atomic_path", held)
    with pytest.raises(Killed):
        write_chunks(stem, two[:1], facts={})
    assert is_whole(stem)
    [found] = read_chunks(stem)
    assert isinstance(found, RowBatch)
    assert found.ids[0] == found.data[0, 0]


def test_a_part_that_cannot_be_finished_leaves_no_arrays_behind(tmp_path: Path) -> None:
    """It is written again and again until there is room, which each try must not make less."""
    stem = tmp_path / "seat-0"
    in_the_way = stem.with_suffix(".json") / "something"
    in_the_way.mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(OSError, match="directory"):
            write_chunks(stem, store(0, 1).snapshot(), facts={})
    assert list(tmp_path.iterdir()) == [in_the_way.parent]


def test_a_file_that_is_not_whole_is_not_there(tmp_path: Path) -> None:
    stem = tmp_path / "seat-0"
    write_chunks(stem, store(0, 1).snapshot(), facts={})
    assert is_whole(stem)
    assert list(read_chunks(stem)) == []
    stem.with_suffix(".json").unlink()
    assert not is_whole(stem)
    with pytest.raises(NotFound, match="no complete dump"):
        find_dump(tmp_path)
