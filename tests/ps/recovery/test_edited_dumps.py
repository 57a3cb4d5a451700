"""Dumps that someone edited: the damage is named, and an older dump is used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.ps.recovery.test_dumps import restore_point, store, trained
from tests.ps.recovery.test_push_log import append, push

from pliant.core.errors import CorruptData
from pliant.ps.files import MANIFEST, dump_folder, find_dump, read_manifest
from pliant.ps.recovery import push_log
from pliant.ps.recovery.dumps import is_whole, read_chunks, write_chunks
from pliant.ps.recovery.push_log import PushLog
from pliant.ps.recovery.restore import restored
from pliant.ps.store.store import ParameterStore

__all__ = ["trained"]  # a fixture
pytestmark = pytest.mark.timeout(60)

WRONG: dict[str, list[Any]] = {
    "order": ["9", None, -1, 10**30, True, 5],
    "iteration": ["2", None, -1, 10**30],
    "chain": [None, [], ["5", 9], [9, 5], [5, 5, 9], [5], [-5, 9], [None, 9], {"5": 9}, [5, 9.0]],
    "seats": [None, ["0", "1"], ["../../0000000005/seat-0"], [0, 0], [-1], [10**9], [[0]]],
    "tables": [None, [1], [{}], [{"name": "t", "dim": 10**9}], [{"name": "t", "dim": 3}] * 2, {"t": 3}],
    "variables": [None, [{"name": "v", "shape": [10**12, 10**12]}], [{"name": "v", "shape": "3"}]],
    "initialized": [None, [1], "all"],
    "format": [None, 2, [1]],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_one_edited_field_of_a_manifest_does_not_defeat_the_dumps_before(
    tmp_path: Path, trained: list[ParameterStore], name: str, value: Any
) -> None:
    path = dump_folder(tmp_path, 9) / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(CorruptData, match=MANIFEST):
        read_manifest(path.parent)
    assert find_dump(tmp_path)[0].name == f"{5:012d}"
    messages: list[str] = []
    again = restored(restore_point(1, 2, base=9, iteration=2), tmp_path, messages.append)
    assert "iteration 1" in messages[1]
    assert again.stats()["rows"] == trained[1].stats()["rows"]


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "deep", "huge"])
@pytest.mark.parametrize("name", [MANIFEST, "seat-1.json", "arrays"])
def test_anything_in_the_place_of_a_file_is_a_damaged_dump(
    tmp_path: Path, trained: list[ParameterStore], name: str, kind: str
) -> None:
    folder = dump_folder(tmp_path, 9)
    path = next(folder.glob("seat-1.*.safetensors")) if name == "arrays" else folder / name
    path.unlink()
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "deep":
            path.write_text("[" * 100_000)
        case "huge":
            with path.open("wb") as file:
                file.truncate(1 << 33)
    assert not is_whole(folder / "seat-1") or name == MANIFEST
    messages: list[str] = []
    again = restored(restore_point(1, 2, base=9, iteration=2), tmp_path, messages.append)
    assert "iteration 1" in messages[1]
    assert again.stats()["rows"] == trained[1].stats()["rows"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bytes", None),
        ("bytes", "12"),
        ("crc32", []),
        ("file", "../seat-0.safetensors"),
        ("file", ".."),
        ("file", "/dev/zero"),
        ("file", 3),
        ("chunks", None),
        ("chunks", [1]),
        ("chunks", [{"kind": "rows", "table": ["t"]}]),
        ("chunks", [{"kind": "rows"}]),
        ("chunks", [{"kind": []}]),
        ("chunks", [{"kind": "block", "variable": "t", "block": "0", "changed": 0}]),
    ],
)
def test_an_edited_note_of_a_part_is_damage(tmp_path: Path, name: str, value: Any) -> None:
    stem = tmp_path / "seat-0"
    write_chunks(stem, store(0, 1).snapshot(), facts={})
    path = stem.with_suffix(".json")
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(CorruptData, match="seat-0"):
        list(read_chunks(stem))


@pytest.mark.parametrize(
    "arrays",
    [
        {"0.ids": np.zeros(2, np.float64)},
        {"0.ids": np.zeros((2, 1), np.int64)},
        {"0.data": np.zeros((3, 6), np.float32)},
        {"0.data": np.zeros(12, np.float32)},
        {"0.counters": np.zeros((2, 3), np.uint32)},
    ],
)
def test_arrays_of_another_type_or_shape_are_damage(tmp_path: Path, arrays: dict[str, Any]) -> None:
    right: dict[str, Any] = {
        "0.ids": np.zeros(2, np.int64),
        "0.data": np.zeros((2, 6), np.float32),
        "0.counters": np.zeros((2, 2), np.uint32),
    }
    save_file({**right, **arrays}, tmp_path / "seat-0.safetensors")
    data = (tmp_path / "seat-0.safetensors").read_bytes()
    import zlib

    facts = {"format": 1, "bytes": len(data), "crc32": zlib.crc32(data), "chunks": [{"kind": "rows", "table": "t"}]}
    (tmp_path / "seat-0.json").write_text(json.dumps(facts))
    with pytest.raises(CorruptData, match="chunk 0"):
        list(read_chunks(tmp_path / "seat-0"))


def test_state_that_the_store_refuses_is_a_damaged_dump(tmp_path: Path, trained: list[ParameterStore]) -> None:
    stem = dump_folder(tmp_path, 9) / "seat-1"
    [chunk] = [c for c in read_chunks(stem) if getattr(c, "data", np.empty(0)).size]
    chunk.data[0, 0] = np.nan  # type: ignore[union-attr]
    write_chunks(stem, [chunk], facts={})
    messages: list[str] = []
    restored(restore_point(1, 2, base=9, iteration=2), tmp_path, messages.append)
    assert "NaN" in messages[0]
    assert "iteration 1" in messages[1]


def test_a_log_is_read_in_spite_of_what_lies_beside_its_segments(tmp_path: Path) -> None:
    log = PushLog(tmp_path, 1, 0)
    append(log, push(1))
    log.close()
    os.mkfifo(tmp_path / f"log-{1:012d}-{7:012d}")
    (tmp_path / f"log-{2:012d}-{0:012d}").symlink_to("/dev/zero")
    (tmp_path / "log-x-y").write_bytes(b"")
    (tmp_path / "log-000000000001-²").write_bytes(b"")
    assert list(push_log.index(tmp_path, 0)) == [("s", 1)]
    log = PushLog(tmp_path, 1, 7)  # in the place of the FIFO
    append(log, push(2))
    log.close()
    assert sorted(push_log.index(tmp_path, 0)) == [("s", 1), ("s", 2)]


def test_a_record_of_a_log_that_is_no_push_is_left_out(tmp_path: Path) -> None:
    log = PushLog(tmp_path, 1, 0)
    for meta in (b"", b"short", bytes(30) + b"\x05\x00" + bytes(4)):
        log.append(meta, [b""])
    append(log, push(1))
    log.close()
    assert ("s", 1) in push_log.index(tmp_path, 0)
