"""Many read or one writes, also when one of them is interrupted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from pliant.ps.store.rwlock import ReadWriteLock
from pliant.testing.waiting import MAX_WAIT_S


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is heard, also where whoever started the tests ignores it, as shells do for what runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_who_came_after_a_writer_that_is_interrupted_reads() -> None:
    guard = ReadWriteLock()
    held, over, has_read = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        with guard.reading:
            held.set()
            over.wait()

    def read() -> None:
        with guard.reading:
            has_read.set()

    readers = [threading.Thread(target=hold), threading.Thread(target=read)]

    def interrupt() -> None:
        while not guard._writers_waiting:
            time.sleep(0.001)
        readers[1].start()
        while len(guard._free._waiters) < 2:  # type: ignore[attr-defined]
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    readers[0].start()
    assert held.wait(MAX_WAIT_S)
    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt), guard.writing:
        pytest.fail("it is being read")
    try:
        assert has_read.wait(MAX_WAIT_S)
    finally:
        over.set()
        with guard.writing:  # wakes up all, whatever happened
            pass
        for thread in (*readers, other):
            thread.join(MAX_WAIT_S)
