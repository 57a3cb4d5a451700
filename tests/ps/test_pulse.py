"""Whether a thread gets on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pliant.core.errors import RetryableError
from pliant.ps.pulse import Pulse
from pliant.testing import wait_until


@contextmanager
def watched(work: Callable[[Pulse], object]) -> Iterator[Pulse]:
    """The pulse of a thread that does this; nobody is told, the test looks itself."""
    made: list[Pulse] = []

    def run() -> None:
        made.append(Pulse(lambda: None))
        work(made[0])

    thread = threading.Thread(target=run)
    thread.start()
    yield wait_until(lambda: made[0] if made else None)
    thread.join()


def stands_still(pulse: Pulse) -> bool:
    return not pulse.gets_on() and not pulse.gets_on()


def test_a_thread_that_waits_for_a_lock_stands_still() -> None:
    lock = threading.Lock()
    lock.acquire()
    with watched(lambda _: lock.acquire()) as pulse:
        wait_until(lambda: stands_still(pulse), what="it to wait")
        lock.release()


def test_a_thread_that_computes_or_looks_again_and_again_gets_on() -> None:
    over = threading.Event()

    def look(_: Pulse) -> None:
        while not over.wait(0.01):
            pass

    def compute(_: Pulse) -> None:
        while not over.is_set():
            sum(range(1000))

    for work in (look, compute):
        over.clear()
        with watched(work) as pulse:
            for _ in range(5):
                pulse.gets_on()
                wait_until(pulse.gets_on, what="that it gets on")
            over.set()


def test_a_thread_that_waits_for_files_is_excused() -> None:
    lock = threading.Lock()
    lock.acquire()

    def read(pulse: Pulse) -> None:
        with pulse.at_disk():
            lock.acquire()

    with watched(read) as pulse:
        wait_until(lambda: pulse._at_disk, what="it to begin")
        assert all(pulse.gets_on() for _ in range(10))
        lock.release()


def test_it_is_told_again_and_again_also_if_the_master_is_away_until_nothing_happens_any_more() -> None:
    told: list[int] = []
    lock, go = threading.Lock(), threading.Event()
    lock.acquire()

    def tell() -> None:
        told.append(1)
        if len(told) == 2:
            raise RetryableError("it is away")

    def run() -> None:
        with Pulse(tell, every=0.01):
            while not go.wait(0.001):
                pass
            lock.acquire()

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: len(told) > 5, what="several words")
    go.set()
    quiet = 0

    def is_quiet() -> bool:
        nonlocal quiet
        before, quiet = quiet, len(told)
        return before == quiet

    wait_until(is_quiet, every=0.2, what="silence")
    lock.release()
    thread.join()
