from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pliant.agent.snapshots import SnapshotWriter
from pliant.checkpoint import CheckpointWriter, find_latest, load_latest, slots, writeout
from pliant.checkpoint.slots import SlotFolder, SlotSnapshot, WriteResult, node_folder, sweep
from pliant.core.errors import Conflict, InvalidRequest
from pliant.testing.waiting import MAX_WAIT_S

if TYPE_CHECKING:
    from tests.checkpoint.conftest import Cluster


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stands for /dev/shm; must be empty again at the end."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(slots, "_MEMORY", folder)
    yield folder
    assert not list(folder.iterdir())


def test_alone_a_thread_writes_and_nothing_stays_in_memory(
    tmp_path: Path, memory: Path, state_of: Any, same: Any
) -> None:
    writer = CheckpointWriter("job", "alone", tmp_path / "out", keep_last=2)
    writer.prepare(state_of(1), 0, 1)
    for step in (1, 2, 3):
        assert writer.snapshot(step, state_of(step), 0, 1, wait=True).written
    assert len(list(memory.iterdir())) == 1
    assert not writer.snapshot(4, state_of(4), 0, 1).skipped
    writer.close()
    writer.close()
    restored = load_latest(tmp_path / "out")
    assert restored is not None
    assert restored.found.step == 4
    assert same(restored.state, state_of(4))


def test_due_by_steps_and_by_seconds(tmp_path: Path) -> None:
    now = [100.0]
    by_steps = CheckpointWriter("job", "a", tmp_path / "out", every_steps=10, clock=lambda: now[0])
    by_time = CheckpointWriter("job", "b", tmp_path / "out", every_seconds=30, clock=lambda: now[0])
    never = CheckpointWriter("job", "c", tmp_path / "out", clock=lambda: now[0])
    assert [step for step in range(31) if by_steps.due(step)] == [10, 20, 30]
    assert not by_time.due(1)
    now[0] = 130.0
    assert by_time.due(1)
    by_time.snapshot(1, {}, 0, 1)
    assert not by_time.due(2)
    assert not never.due(10)
    for writer in (by_steps, by_time, never):
        writer.close()


def test_a_snapshot_is_skipped_and_counted_while_both_slots_wait(cluster: Cluster, state_of: Any) -> None:
    writer = cluster.worker(0)
    cluster.snapshot(1, state_of(1))
    cluster.snapshot(2, state_of(2))
    assert not writer.ready()
    report = writer.snapshot(3, state_of(3), 0, 1)
    assert report.skipped
    assert "still being written" in report.reason
    assert writer.skipped == 1
    cluster.write_out()
    assert writer.ready()
    cluster.snapshot(4, state_of(4))
    cluster.write_out()
    found = find_latest(cluster.directory, memory=False)
    assert found is not None
    assert found.step == 4


def test_a_slot_in_use_by_a_reader_is_left_alone(cluster: Cluster, state_of: Any) -> None:
    cluster.save(1, state_of(1))
    cluster.save(2, state_of(2))
    with cluster.folder(0).reading(0):
        assert cluster.worker(0).snapshot(3, state_of(3), 0, 1).skipped
    assert not cluster.worker(0).snapshot(3, state_of(3), 0, 1).skipped


def test_a_wait_ends_at_its_time_out(cluster: Cluster, state_of: Any) -> None:
    report = cluster.worker(0).snapshot(1, state_of(1), 0, 1, wait=True, timeout=0.05)
    assert not report.skipped
    assert not report.written
    assert "not written out" in report.reason


def test_the_next_process_goes_on_with_the_slots(cluster: Cluster, state_of: Any, same: Any) -> None:
    cluster.save(1, state_of(1))
    cluster.snapshot(2, state_of(2))
    successor = CheckpointWriter("job", "worker-0", cluster.directory, folder=cluster.folder(0).path)
    restored = load_latest(cluster.directory, memory=cluster.folder(0).path)
    assert restored is not None
    assert restored.found.step == 2
    assert not successor.snapshot(3, state_of(3), 0, 1).skipped
    assert successor.snapshot(4, state_of(4), 0, 1).skipped
    cluster.write_out()
    restored = load_latest(cluster.directory, memory=False)
    assert restored is not None
    assert same(restored.state, state_of(3))
    successor.close()


def test_several_workers_must_name_their_round(cluster: Cluster, state_of: Any) -> None:
    with pytest.raises(InvalidRequest, match="round"):
        cluster.worker(0).snapshot(1, state_of(1), 0, 2)


def test_where_memory_is_too_small_the_temporary_folder_is_used(
    cluster: Cluster, state_of: Any, same: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PLIANT_MEMORY_MB", "2")
    monkeypatch.setattr(tempfile, "tempdir", str(cluster.memory.parent / "tmp"))
    cluster.save(1, state_of(1))
    assert "more than half of the node's 2,097,152 bytes" in caplog.text
    snapshot = cluster.folder(0).snapshots()[0]
    assert snapshot.file.startswith(tempfile.gettempdir())
    restored = load_latest(cluster.directory, memory=cluster.folder(0).path)
    assert restored is not None
    assert restored.found.source == "memory"
    assert same(restored.state, state_of(1))
    cluster.lose_memory()
    assert not Path(snapshot.file).parent.parent.exists()


def test_a_state_that_changes_its_size_is_kept_right(cluster: Cluster, same: Any) -> None:
    for step, rows in enumerate((10, 1000, 3, 0, 500), 1):
        state = {"a": torch.randn(rows, 100), "text": "x" * rows * 20}
        cluster.save(step, state)
        restored = load_latest(cluster.directory, memory=cluster.folder(0).path)
        assert restored is not None
        assert same(restored.state, state)


def test_the_agent_writes_out_what_the_program_left_and_clears_up(
    tmp_path: Path, memory: Path, state_of: Any, same: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        agent = SnapshotWriter.of_node("job", "worker-0", "token")
        monkeypatch.setenv("PLIANT_SNAPSHOT_DIR", str(agent.folder))
        task = asyncio.create_task(agent.run())
        program = CheckpointWriter("job", "worker-0", tmp_path / "out")
        report = await asyncio.to_thread(program.snapshot, 1, state_of(1), 0, 1, wait=True)
        assert report.written
        assert not program.snapshot(2, state_of(2), 0, 1).skipped
        program.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await agent.close()

    asyncio.run(scenario())
    monkeypatch.delenv("PLIANT_SNAPSHOT_DIR")
    restored = load_latest(tmp_path / "out")
    assert restored is not None
    assert restored.found.step == 2
    assert same(restored.state, state_of(2))


def test_what_became_of_a_snapshot_is_told_also_if_the_node_stops_while_it_is_written(
    tmp_path: Path, memory: Path, state_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_writing, is_full = threading.Event(), threading.Event()

    def write(_: SlotSnapshot) -> bool:
        is_writing.set()
        is_full.wait(MAX_WAIT_S)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writeout, "write_out", write)
    told: list[WriteResult] = []

    async def scenario() -> None:
        agent = SnapshotWriter.of_node("job", "worker-0", "token", told.append)
        program = CheckpointWriter("job", "worker-0", tmp_path / "out", folder=agent.folder)
        program.snapshot(1, state_of(1), 0, 1)
        task = asyncio.create_task(agent.run())
        await asyncio.to_thread(is_writing.wait, 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        is_full.set()
        await agent.close()

    asyncio.run(scenario())
    assert [(result.step, "no space left" in result.problem) for result in told] == [(1, True)]


def test_the_agent_keeps_in_memory_what_it_could_not_write(tmp_path: Path, memory: Path, state_of: Any) -> None:
    (tmp_path / "out").write_text("a file where the directory should be")

    async def scenario() -> None:
        agent = SnapshotWriter.of_node("job", "worker-0", "token")
        folder = agent.folder
        program = CheckpointWriter("job", "worker-0", tmp_path / "out", folder=folder)
        program.snapshot(1, state_of(1), 0, 1)
        await agent.close(keep_unwritten=True)
        assert folder.exists()
        assert "NotADirectory" in program.last_problem() or "FileExists" in program.last_problem()
        again = SnapshotWriter.of_node("job", "worker-0", "token")
        await again.close()

    asyncio.run(scenario())


def test_a_job_started_anew_does_not_see_the_old_memory(memory: Path) -> None:
    assert node_folder("job", "worker-0", "token-1").path != node_folder("job", "worker-0", "token-2").path
    assert ".." not in node_folder("../x", "..", "t").path.parts


def test_what_killed_jobs_left_is_swept_later(memory: Path) -> None:
    dead, alive = node_folder("dead", "worker-0", "1"), node_folder("alive", "worker-0", "2")
    for folder in (dead, alive):
        folder.create()
    assert alive.watch()
    assert sweep(memory) == []
    later = dead.path.stat().st_mtime + 4000
    assert sweep(memory, now=later) == [dead.path.parent]
    assert alive.path.exists()
    alive.remove()


def test_a_folder_of_someone_else_is_not_used(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = node_folder("job", "worker-0", "1")
    folder.create()
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(Conflict, match="belongs to"):
        SlotFolder(folder.path).create()
    monkeypatch.undo()
    folder.remove()
    shutil.rmtree(memory / "none", ignore_errors=True)


@pytest.mark.parametrize("planted", ["job", "node"])
def test_a_folder_for_overflow_that_someone_prepared_is_not_used(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    folder = node_folder("job", "worker-0", "1")
    folder.create()
    temporary, theirs = tmp_path / "temporary", tmp_path / "theirs"
    for made in (temporary, theirs):
        made.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    trap = temporary / folder.path.parent.name
    if planted == "node":
        trap.mkdir()
        trap /= folder.path.name
    trap.symlink_to(theirs)
    with pytest.raises(Conflict, match="is a symbolic link"):
        folder.data_file(0, 1 << 50)
    assert not list(theirs.iterdir())
    trap.unlink()
    path, _ = folder.data_file(0, 1 << 50)
    assert all(parent.stat().st_mode & 0o077 == 0 for parent in (path.parent, path.parent.parent))
    folder.remove()


KILLED_WHILE_COPYING = """
import os, signal, sys, torch
from pathlib import Path
from pliant.checkpoint import CheckpointWriter, snapshot
writer = CheckpointWriter("job", "worker-0", sys.argv[1], folder=Path(sys.argv[2]))
for step in (1, 2):
    writer.snapshot(step, {"w": torch.full((1000,), float(step))}, 0, 1)
    while not writer.ready():
        pass
real = snapshot.copy_tensors
def copy(buffer, sources):
    real(buffer, sources)
    os.kill(os.getpid(), signal.SIGKILL)
snapshot.copy_tensors = copy
writer.snapshot(3, {"w": torch.full((1000,), 3.0)}, 0, 1)
"""


def test_a_process_killed_while_copying_leaves_the_snapshot_before(tmp_path: Path) -> None:
    folder = tmp_path / "memory" / "job" / "worker-0"
    agent = SnapshotWriter(folder)

    async def scenario() -> None:
        task = asyncio.create_task(agent.run())
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED_WHILE_COPYING, str(tmp_path / "out"), str(folder)
        )
        assert await process.wait() == -signal.SIGKILL
        assert [snapshot.step for snapshot in SlotFolder(folder).snapshots()] == [2]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        restored = load_latest(tmp_path / "out", memory=folder)
        assert restored is not None
        assert (restored.found.step, restored.found.source) == (2, "memory")
        assert restored.state["w"][0] == 2.0
        await agent.close()

    asyncio.run(scenario())
    assert not folder.exists()


def test_the_agent_does_not_import_torch() -> None:
    code = "import sys, pliant.agent.snapshots; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
