from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from pliant.checkpoint import find_latest, load, load_latest
from pliant.checkpoint.catalog import InMemory, list_steps
from pliant.checkpoint.manifest import MANIFEST, step_folder
from pliant.checkpoint.storage import LocalStorage, RemoteStorage
from pliant.core.errors import CorruptData, NotFound

if TYPE_CHECKING:
    from tests.checkpoint.conftest import Cluster


@pytest.mark.parametrize("wrote", [1, 2, 3, 5])
def test_a_checkpoint_of_any_number_of_workers_is_one_state(
    cluster: Cluster, state_of: Any, same: Any, wrote: int
) -> None:
    state = state_of(1, 1500)
    cluster.save(10, state, world=wrote)
    found = find_latest(cluster.directory, memory=False)
    assert found is not None
    assert (found.step, found.source, found.world, len(found.parts)) == (10, "storage", wrote, wrote)
    assert same(load(found), state)
    parts = sorted(Path(found.path).glob("*.safetensors"))
    sizes = [part.stat().st_size for part in parts]
    assert max(sizes) - min(sizes) < 2_000_000
    assert sum(len(load_file(part)) for part in parts) >= 4


@pytest.mark.parametrize("wrote", [3])
@pytest.mark.parametrize("next_world", [1, 2, 5])
def test_three_workers_are_followed_by_another_number(
    cluster: Cluster, state_of: Any, same: Any, wrote: int, next_world: int
) -> None:
    cluster.save(10, state_of(1), world=wrote, round=1)
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    cluster.lose_memory()
    cluster.save(20, restored.state, world=next_world, round=2)
    again = load_latest(cluster.directory, memory=False)
    assert again is not None
    assert again.found.step == 20
    assert same(again.state, state_of(1))


def test_memory_is_used_while_it_is_newer_than_storage(cluster: Cluster, state_of: Any, same: Any) -> None:
    node = cluster.memory / "job" / "worker-0"
    cluster.save(10, state_of(1), world=3)
    cluster.snapshot(20, state_of(2), world=3)
    restored = load_latest(cluster.directory, memory=node)
    assert restored is not None
    assert (restored.found.step, restored.found.source) == (20, "memory")
    assert same(restored.state, state_of(2))
    cluster.lose_memory()
    restored = load_latest(cluster.directory, memory=node)
    assert restored is not None
    assert (restored.found.step, restored.found.source) == (10, "storage")


def test_parts_in_memory_and_on_storage_make_one_checkpoint(cluster: Cluster, state_of: Any, same: Any) -> None:
    cluster.snapshot(20, state_of(2), world=3)
    cluster.write_out(1)
    for slot in (0, 1):
        cluster.folder(1).retract(slot)
    found = find_latest(cluster.directory, memory=cluster.folder(0).path)
    assert found is not None
    assert found.source == "both"
    assert [isinstance(part, InMemory) for part in found.parts] == [True, False, True]
    assert same(load(found), state_of(2))
    assert find_latest(cluster.directory, memory=False) is None


def test_the_agent_tells_where_memory_is(cluster: Cluster, state_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.snapshot(20, state_of(2))
    assert find_latest(cluster.directory) is None
    monkeypatch.setenv("PLIANT_SNAPSHOT_DIR", str(cluster.folder(0).path))
    found = find_latest(cluster.directory)
    assert found is not None
    assert found.source == "memory"
    assert find_latest(cluster.directory + "-other") is None


def test_a_slot_that_was_overwritten_meanwhile_is_not_read(cluster: Cluster, state_of: Any) -> None:
    cluster.save(10, state_of(1))
    found = find_latest(cluster.directory, memory=cluster.folder(0).path)
    assert found is not None
    assert found.source == "memory"
    cluster.save(20, state_of(2))
    cluster.save(30, state_of(3))
    with pytest.raises(CorruptData, match="overwritten"):
        load(found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(data=st.data())
def test_damage_anywhere_is_named_and_the_checkpoint_before_is_used(
    cluster: Cluster, state_of: Any, same: Any, data: st.DataObject, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.rules = {"keep_last": 2}
    caplog.clear()
    storage = LocalStorage(cluster.directory)
    base = max((stored.step for stored in list_steps(storage)), default=0)
    cluster.save(base + 1, state_of(1, 20), world=2)
    cluster.save(base + 2, state_of(2, 20), world=2)
    part = data.draw(st.integers(0, 1))
    path = Path(cluster.directory, step_folder(base + 2), f"part-0000{part}-of-00002.safetensors")
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[at:]
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert restored.found.step == base + 1
    assert same(restored.state, state_of(1, 20))
    assert str(path) in caplog.text


@pytest.mark.parametrize("content", [b"", b"{", b'{"seal": 1}', b"[]", b"\xff\xfe"])
def test_a_damaged_manifest_is_made_up_for_by_the_notes(
    cluster: Cluster, state_of: Any, same: Any, content: bytes
) -> None:
    cluster.save(10, state_of(1), world=2)
    Path(cluster.directory, step_folder(10), MANIFEST).write_bytes(content)
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert same(restored.state, state_of(1))
    for note in Path(cluster.directory, step_folder(10)).glob("part-00001*.json"):
        note.write_bytes(note.read_bytes().replace(b"1", b"2"))
    assert find_latest(cluster.directory, memory=False) is None
    assert list_steps(LocalStorage(cluster.directory))[0].status == "broken"


def test_only_a_part_of_the_state_can_be_read(cluster: Cluster, state_of: Any, same: Any) -> None:
    cluster.save(10, state_of(1), world=3)
    found = find_latest(cluster.directory, memory=False)
    assert found is not None
    assert same(load(found, below="model"), state_of(1)["model"])
    assert load(found, below="step") == 1
    with pytest.raises(NotFound, match="model, optimizer, step"):
        load(found, below="modle")


def test_odd_tensors_survive_being_split_and_stored(cluster: Cluster, same: Any) -> None:
    state = {
        "conv": torch.randn(64, 8, 40, 40).to(memory_format=torch.channels_last),
        "complex": torch.randn(300_000, dtype=torch.complex128),
        "turned": torch.randn(1000, 900).t(),
        "empty": torch.empty(0, 3, dtype=torch.bfloat16),
        "tie": [torch.ones(3)] * 2,
        "fp8": torch.randn(33).to(torch.float8_e4m3fn),
        "flag": torch.tensor(True),
    }
    cluster.save(1, state, world=4)
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert same(restored.state, state)
    assert restored.state["tie"][0] is restored.state["tie"][1]


@pytest.mark.parametrize("url", ["memory://pliant-test/{}", "file://{}"])
def test_other_stores_work_through_fsspec(tmp_path: Path, cluster: Cluster, same: Any, state_of: Any, url: str) -> None:
    cluster.directory, cluster.rules = url.format(tmp_path / "store"), {"keep_last": 1}
    for step in (1, 2, 3):
        cluster.save(step, state_of(step), world=2)
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert (restored.found.step, restored.found.source) == (3, "storage")
    assert same(restored.state, state_of(3))
    storage = RemoteStorage(cluster.directory)
    assert [stored.step for stored in list_steps(storage)] == [3]
    part = f"{step_folder(3)}/part-00001-of-00002.safetensors"
    damaged = bytearray(storage.read(part))
    damaged[-1] ^= 1
    storage.put(part, [damaged], len(damaged))
    found = find_latest(cluster.directory, memory=False)
    assert found is not None
    with pytest.raises(CorruptData, match="part-00001-of-00002"):
        load(found)


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-00000007").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    assert find_latest(tmp_path) is None
    assert load_latest(tmp_path / "missing") is None
