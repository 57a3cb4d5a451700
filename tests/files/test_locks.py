from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from pliant.files.locks import FileLock
from pliant.testing.waiting import MAX_WAIT_S

HOLD = """
import sys, pathlib
from pliant.files.locks import FileLock
lock = FileLock(pathlib.Path(sys.argv[1]))
print(lock.try_acquire(), flush=True)
sys.stdin.read()
"""


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.try_acquire()
    assert first.is_acquired
    assert not second.try_acquire()
    assert second.is_held()
    first.release()
    assert not second.is_held()
    assert second.try_acquire()


def test_asking_whether_it_is_held_takes_and_creates_nothing(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert not lock.is_held()
    assert not (tmp_path / "lock").exists()
    assert lock.try_acquire()
    lock.release()
    assert not lock.is_held()
    assert not lock.is_acquired


def test_readers_share_a_lock_and_exclude_a_writer(tmp_path: Path) -> None:
    readers = [FileLock(tmp_path / "lock", shared=True) for _ in range(2)]
    writer = FileLock(tmp_path / "lock")
    assert all(reader.try_acquire() for reader in readers)
    assert not writer.try_acquire()
    assert FileLock(tmp_path / "lock", shared=True).is_held()
    for reader in readers:
        reader.release()
    with writer:
        assert not readers[0].try_acquire()
    assert readers[0].try_acquire()


def test_acquire_waits_for_the_holder(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    first.acquire()
    thread = threading.Thread(target=second.acquire)
    thread.start()
    assert not second.is_acquired
    first.release()
    thread.join(MAX_WAIT_S)
    assert second.is_acquired


def test_the_kernel_releases_the_lock_of_a_holder_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert FileLock(tmp_path / "lock").is_held()
        holder.kill()
        holder.wait()
        assert not FileLock(tmp_path / "lock").is_held()


def test_a_child_that_inherits_the_descriptor_holds_the_lock(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.try_acquire()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(lock.fd,)) as child:
        lock.release()
        assert lock.is_held()
        child.kill()
        child.wait()
        assert not lock.is_held()
