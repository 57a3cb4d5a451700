"""Whatever happens while one checkpoint is written, the last good one is found and the next one can be written."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pliant.checkpoint import load_latest
from pliant.checkpoint import storage as places
from pliant.checkpoint.catalog import list_steps
from pliant.checkpoint.manifest import MANIFEST, is_complete, read_manifest, step_folder
from pliant.checkpoint.retention import RetentionPolicy
from pliant.checkpoint.storage import LocalStorage
from pliant.checkpoint.writeout import apply_retention, complete, write_out
from pliant.files import atomic

if TYPE_CHECKING:
    from tests.checkpoint.conftest import Cluster

OPERATIONS = {
    "open",
    "write",
    "fsync",
    "replace",
    "rename",
    "unlink",
    "rmdir",
    "makedirs",
    "posix_fallocate",
    "scandir",
}


class Crash(BaseException):
    """The machine is gone: nothing that comes after has any effect."""


class BreakingDisk:
    """Stands for ``os``: the n-th operation on files fails, with a crash also all that follow."""

    def __init__(self, at: int, *, crash: bool) -> None:
        self.at, self.crash, self.count = at, crash, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._breaking(real) if name in OPERATIONS else real

    def _breaking(self, real: Any) -> Any:
        def operation(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.crash and self.count >= self.at:
                raise Crash
            if self.count == self.at:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **kwargs)

        return operation

    @property
    def broke(self) -> bool:
        return self.count >= self.at


@pytest.mark.parametrize("crash", [True, False], ids=["crash", "disk-full"])
def test_a_failure_at_any_operation_leaves_a_good_checkpoint(
    cluster: Cluster, state_of: Any, same: Any, crash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.rules = {"keep_last": 1}
    cluster.save(10, state_of(10, 3), world=2)
    broke, step = True, 10
    for at in range(1, 500):
        before, step = step, step + 10
        cluster.snapshot(step, state_of(step, 3), world=2)
        disk = BreakingDisk(at, crash=crash)
        with monkeypatch.context() as patch:
            patch.setattr(places, "os", disk)
            patch.setattr(atomic, "os", disk)
            for rank in (0, 1):
                snapshot = cluster.folder(rank).pending()[0]
                try:
                    write_out(snapshot)
                except (Crash, OSError):
                    break
        broke = disk.broke
        restored = load_latest(cluster.directory, memory=False)
        assert restored is not None
        assert restored.found.step in (before, step)
        assert same(restored.state, state_of(restored.found.step, 3))
        cluster.write_out()
        restored = load_latest(cluster.directory, memory=False)
        assert restored is not None
        assert restored.found.step == step
        assert same(restored.state, state_of(step, 3))
        if not broke:
            break
    assert not broke
    assert at > 20
    assert [item.name for item in LocalStorage(cluster.directory).list()] == [step_folder(step)]


def test_a_full_disk_is_reported_and_the_next_checkpoint_succeeds(
    cluster: Cluster, state_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cluster.save(1, state_of(1, 3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        report = cluster.worker(0).snapshot(2, state_of(2, 3), 0, 1)
        assert report.skipped
        assert "No space" in report.reason
    cluster.snapshot(2, state_of(2, 3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        assert "No space" in cluster.write_out()[0]
    assert "No space" in cluster.worker(0).last_problem()
    assert not [name for name in os.listdir(Path(cluster.directory) / step_folder(2)) if "safetensors" in name]
    cluster.save(3, state_of(3, 3))
    assert [stored.step for stored in list_steps(LocalStorage(cluster.directory)) if stored.cuts] == [1, 3]


def test_two_nodes_that_complete_a_checkpoint_at_once_write_the_same(cluster: Cluster, state_of: Any) -> None:
    cluster.snapshot(5, state_of(5), world=2)
    storage = LocalStorage(cluster.directory)
    threads = [threading.Thread(target=cluster.write_out, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = storage.read(f"{step_folder(5)}/{MANIFEST}")
    assert complete(storage, 5)
    storage.delete_file(f"{step_folder(5)}/{MANIFEST}")
    assert complete(storage, 5)
    assert storage.read(f"{step_folder(5)}/{MANIFEST}") == content


def test_parts_of_two_worlds_are_never_mixed(cluster: Cluster, state_of: Any, same: Any) -> None:
    cluster.save(10, state_of(1), world=2, round=1)
    cluster.snapshot(20, state_of(2), world=2, round=1)
    cluster.write_out(0)  # the other node is lost
    cluster.folder(1).retract(0)
    cluster.folder(1).retract(1)
    cluster.snapshot(20, state_of(3), world=2, round=2, ranks=[1])
    cluster.write_out(1)
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert restored.found.step == 10
    cluster.snapshot(20, state_of(3), world=2, round=2, ranks=[0])
    cluster.write_out(0)
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert restored.found.step == 20
    assert same(restored.state, state_of(3))


def test_an_incomplete_checkpoint_goes_when_a_newer_one_is_complete(cluster: Cluster, state_of: Any) -> None:
    cluster.snapshot(10, state_of(1), world=2)
    cluster.write_out(0)
    assert [s.status for s in list_steps(LocalStorage(cluster.directory))] == ["incomplete"]
    cluster.lose_memory()
    cluster.save(20, state_of(2), world=3)
    assert [s.step for s in list_steps(LocalStorage(cluster.directory))] == [20]


def test_a_broken_checkpoint_is_replaced_when_training_comes_to_it_again(
    cluster: Cluster, state_of: Any, same: Any
) -> None:
    cluster.save(10, state_of(1), world=2)
    for part in Path(cluster.directory, step_folder(10)).glob("part-00000*.safetensors"):
        part.write_bytes(part.read_bytes()[:-1])
    cluster.save(10, state_of(7), world=2, round=1)
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert same(restored.state, state_of(7))
    assert list_steps(LocalStorage(cluster.directory))[0].problems == []


def test_a_good_checkpoint_is_not_written_twice(cluster: Cluster, state_of: Any, same: Any) -> None:
    cluster.save(10, state_of(1))
    cluster.save(10, state_of(2), round=4)
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert same(restored.state, state_of(1))


def test_parts_are_complete_only_within_one_cut(cluster: Cluster, state_of: Any) -> None:
    cluster.save(10, state_of(1), world=2)
    notes = read_manifest(LocalStorage(cluster.directory), 10)
    assert notes is not None
    assert is_complete(notes)
    assert not is_complete(notes[:1])
    assert not is_complete([notes[0], replace(notes[1], round=3)])


def test_tidying_an_empty_or_missing_directory_does_nothing(tmp_path: Path) -> None:
    assert apply_retention(LocalStorage(tmp_path / "none"), RetentionPolicy()) == []
