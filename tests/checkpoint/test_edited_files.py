"""Checkpoint folders that someone edited: the damage is named, and the checkpoint before it is used."""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pliant.checkpoint import find_latest, load, load_latest, manifest
from pliant.checkpoint.catalog import inspect_step
from pliant.checkpoint.slots import SlotFolder, siblings, sweep
from pliant.checkpoint.storage import LocalStorage
from pliant.core.errors import Conflict, CorruptData

if TYPE_CHECKING:
    from tests.checkpoint.conftest import Cluster

pytestmark = pytest.mark.timeout(60)

WRONG: dict[str, list[Any]] = {
    "of": [10**9, 0, -1, True, 1.0, "1", None, [1]],
    "part": [1, -1, "0", None],
    "step": [-20, 21, 10**30, "20", None],
    "round": [-1, "0", {}],
    "run": [None, 3, ["a"], "x" * 10_000],
    "tensors": [None, {}, 3],
    "world": [0, -1, "1", 10**30],
    "bytes": [0, -1, 10**18, "5", None],
    "time": [None, "now", 1e300, -1.0],
    "chunk": [0, -1, 1, "1", None],
    "checksums": [None, "x", [], [-1], [2**40], ["1"], 5],
}
EDITS = [(name, value) for name, values in WRONG.items() for value in values]


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Write a sealed file again, with a seal that matches."""
    value = manifest.unseal(path.read_bytes(), path.name)
    change(value)
    path.write_bytes(manifest.seal(value))


def folder_of(cluster: Cluster, step: int) -> Path:
    return Path(cluster.directory) / manifest.step_folder(step)


@pytest.mark.parametrize(("name", "value"), EDITS)
def test_one_edited_field_of_a_manifest_does_not_defeat_the_checkpoints_before(
    cluster: Cluster, state_of: Any, name: str, value: Any
) -> None:
    small = {"w": torch.arange(10)}
    for step in (10, 20):
        cluster.save(step, {**small, "step": step})
    folder = folder_of(cluster, 20)
    for file in [folder / manifest.MANIFEST, *folder.glob("part-*.json")]:
        edit(file, lambda found: (found["parts"][0] if "parts" in found else found).__setitem__(name, value))
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert restored.found.step == 10
    assert inspect_step(LocalStorage(cluster.directory), 20).status == "broken"


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "unreadable json", "deep json", "parts", "huge", "list"])
@pytest.mark.parametrize("name", ["manifest.json", "part-00000-of-00001.safetensors.json"])
def test_anything_in_the_place_of_a_note_is_a_damaged_step(cluster: Cluster, name: str, kind: str) -> None:
    for step in (10, 20):
        cluster.save(step, {"step": step})
    folder = folder_of(cluster, 20)
    (folder / "manifest.json").unlink()
    (folder / name).unlink(missing_ok=True)
    match kind:
        case "fifo":
            os.mkfifo(folder / name)
        case "device":
            (folder / name).symlink_to("/dev/zero")
        case "folder":
            (folder / name).mkdir()
        case "unreadable json":
            (folder / name).write_bytes(b"\xff\xfe{")
        case "deep json":
            (folder / name).write_text("[" * 100_000)
        case "parts":
            (folder / name).write_bytes(manifest.seal({"format": 1, "parts": 7}))
        case "huge":
            with (folder / name).open("wb") as file:
                file.truncate(1 << 30)
        case "list":
            (folder / name).write_text("[1]")
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    # The notes make up for a manifest, the manifest was taken away.
    assert restored.found.step == (20 if name == "manifest.json" else 10)
    assert inspect_step(LocalStorage(cluster.directory), 20).problems


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_anything_in_the_place_of_a_part_is_a_damaged_step(cluster: Cluster, kind: str) -> None:
    for step in (10, 20):
        cluster.save(step, {"step": step})
    part = next(folder_of(cluster, 20).glob("part-*.safetensors"))
    part.unlink()
    if kind == "fifo":
        os.mkfifo(part)
    elif kind == "device":
        part.symlink_to("/dev/zero")
    else:
        part.mkdir()
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert restored.found.step == 10


def test_a_step_that_may_not_be_read_is_a_damaged_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (10, 20):
        cluster.save(step, {"step": step})
    allowed = os.scandir

    def scandir(path: Path) -> Any:  # root, who may run this, reads everything
        if Path(path).name == manifest.step_folder(20):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return allowed(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert restored.found.step == 10


@pytest.mark.parametrize("name", ["step-٠٠٠٠٠٠٣٠", "step-000000030", "step-99999999999999999999", "step-00000030\n"])
def test_only_the_names_that_we_write_are_steps(cluster: Cluster, name: str) -> None:
    cluster.save(10, {"step": 10})
    (Path(cluster.directory) / name).mkdir()
    found = find_latest(cluster.directory, memory=False)
    assert found is not None
    assert found.step == 10
    assert manifest.step_of(name) is None


def rewrite_part(part: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Another header (and our own metadata in it), with notes and a manifest whose checksums match."""
    data = part.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    table = json.loads(data[8 : 8 + length])
    about = json.loads(table["__metadata__"]["pliant"])
    change(table, about)
    table["__metadata__"]["pliant"] = json.dumps(about)
    header = json.dumps(table).encode().ljust(length)
    new = struct.pack("<Q", len(header)) + header + data[8 + length :]
    part.write_bytes(new)
    from pliant.checkpoint.checksums import CHUNK, ChecksumStream

    sums = ChecksumStream(memoryview(new))
    list(sums)
    for file in [part.with_name(f"{part.name}.json"), part.with_name(manifest.MANIFEST)]:

        def refit(found: dict[str, Any]) -> None:
            note = found["parts"][0] if "parts" in found else found
            note |= {"bytes": len(new), "chunk": CHUNK, "checksums": sums.sums}

        edit(file, refit)


def set_index(about: dict[str, Any], **changed: Any) -> None:
    about["tensors"] |= changed


HEADERS: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "a tensor of an exabyte": lambda table, about: set_index(about, w=["float32", [10**18]]),
    "a shape that overflows": lambda table, about: set_index(about, w=["float32", [2**62, 2**62]]),
    "a shape of text": lambda table, about: set_index(about, w=["float32", ["10"]]),
    "a negative shape": lambda table, about: set_index(about, w=["int64", [-10]]),
    "a type that torch does not have": lambda table, about: set_index(about, w=["nn", [10]]),
    "no list of tensors": lambda table, about: about.__setitem__("tensors", 3),
    "no structure": lambda table, about: about.pop("structure") and None,
    "slices that are a list": lambda table, about: about.__setitem__("slices", [1]),
    "a slice of text": lambda table, about: about.__setitem__("slices", {"w": ["w", "0", "10"]}),
    "a slice with too few values": lambda table, about: about.__setitem__("slices", {"w": ["w"]}),
    "a slice outside of the tensor": lambda table, about: about.__setitem__("slices", {"w": ["w", 5, 15]}),
    "a device that does not exist": lambda table, about: about["structure"].__setitem__("d", {"!device": "no:1"}),
    "an unknown mark": lambda table, about: about["structure"].__setitem__("d", {"!what": 1}),
    "a mapping of numbers": lambda table, about: about["structure"].__setitem__("d", {"!dict": [1, 2]}),
    "a tensor that is not there": lambda table, about: about["structure"].__setitem__("d", {"!tensor": ["w"]}),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_lies_is_damage_and_the_checkpoint_before_is_used(cluster: Cluster, name: str) -> None:
    for step in (10, 20):
        cluster.save(step, {"w": torch.arange(10), "step": step})
    rewrite_part(next(folder_of(cluster, 20).glob("part-*.safetensors")), HEADERS[name])
    found = find_latest(cluster.directory, memory=False)
    assert found is not None
    assert found.step == 20
    with pytest.raises(CorruptData):
        load(found)
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert restored.found.step == 10


def test_a_tensor_of_which_one_half_came_twice_is_not_taken_for_whole(cluster: Cluster) -> None:
    """Else the other half would be whatever was in that memory before."""
    cluster.save(20, {"a": torch.arange(5), "b": torch.arange(5), "w": torch.arange(10)})

    def change(table: dict[str, Any], about: dict[str, Any]) -> None:
        begin, end = table.pop("w")["data_offsets"]
        middle = (begin + end) // 2
        for entry, offsets in (("w1", [begin, middle]), ("w2", [middle, end])):
            table[entry] = {"dtype": "I64", "shape": [5], "data_offsets": offsets}
            about["slices"][entry] = ["w", 0, 5]

    rewrite_part(next(folder_of(cluster, 20).glob("part-*.safetensors")), change)
    found = find_latest(cluster.directory, memory=False)
    assert found is not None
    with pytest.raises(CorruptData, match="lacks elements 5 to 10 of tensor w"):
        load(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [("of", 10**9), ("of", 0), ("part", 3), ("step", "1"), ("sequence", None), ("bytes", -1), ("file", 3), ("slot", 7)],
)
def test_an_edited_slot_is_not_used_and_the_rest_is(cluster: Cluster, name: str, value: Any) -> None:
    cluster.save(10, {"step": 10})
    cluster.snapshot(20, {"step": 20})
    folder = cluster.folder(0)
    [pending] = folder.pending()
    path = folder.path / f"slot-{pending.slot}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    restored = load_latest(cluster.directory, memory=folder.path)
    assert restored is not None
    assert restored.found.step == 10
    assert folder.pending() == []


def test_a_slot_whose_data_is_a_fifo_or_a_device_is_not_used(cluster: Cluster) -> None:
    cluster.snapshot(20, {"step": 20})
    folder = cluster.folder(0)
    [pending] = folder.pending()
    path = folder.path / f"slot-{pending.slot}.json"
    for target in ("/dev/zero", str(folder.path / "fifo")):
        if target != "/dev/zero":
            os.mkfifo(target)
        path.write_text(json.dumps({**json.loads(path.read_text()), "file": target, "bytes": 0}))
        assert load_latest(cluster.directory, memory=folder.path) is None
        assert ["regular file" in problem for problem in cluster.write_out(0)] == [True]
        (folder.path / f"slot-{pending.slot}.written.json").unlink()


def test_the_folder_for_what_does_not_fit_into_memory_is_never_a_link_of_someone_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    folder = SlotFolder(tmp_path / "memory" / "pliant-job-12345678" / "worker-0")
    folder.create()
    (tmp_path / "mine").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "pliant-job-12345678").symlink_to(tmp_path / "mine")
    with pytest.raises(Conflict):
        folder.data_file(0, size=1 << 60)
    assert list((tmp_path / "mine").iterdir()) == []


def test_folders_of_other_users_are_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "pliant-job-12345678"
    theirs.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: pytest.fail("looked into a folder of another user"))
    assert sweep(tmp_path, now=1e12) == []
    assert siblings(tmp_path / "file" / "any") == []
