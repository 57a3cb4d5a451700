"""Whether a thread gets on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pliant.core.errors import RetryableError
from pliant.ps.server.liveness_reporter import LivenessReporter
from pliant.testing import wait_until


@contextmanager
def watched(work: Callable[[LivenessReporter], object]) -> Iterator[LivenessReporter]:
    """The reporter of a thread that does this; nobody is told, the test looks itself."""
    made: list[LivenessReporter] = []

    def run() -> None:
        made.append(LivenessReporter(lambda: None))
        work(made[0])

    thread = threading.Thread(target=run)
    thread.start()
    yield wait_until(lambda: made[0] if made else None)
    thread.join()


def is_stalled(reporter: LivenessReporter) -> bool:
    return not reporter.made_progress() and not reporter.made_progress()


def test_a_thread_that_waits_for_a_lock_stands_still() -> None:
    lock = threading.Lock()
    lock.acquire()
    with watched(lambda _: lock.acquire()) as reporter:
        wait_until(lambda: is_stalled(reporter), what="it to wait")
        lock.release()


def test_a_thread_that_computes_or_looks_again_and_again_gets_on() -> None:
    over = threading.Event()

    def look(_: LivenessReporter) -> None:
        while not over.wait(0.01):
            pass

    def compute(_: LivenessReporter) -> None:
        while not over.is_set():
            sum(range(1000))

    for work in (look, compute):
        over.clear()
        with watched(work) as reporter:
            for _ in range(5):
                reporter.made_progress()
                wait_until(reporter.made_progress, what="that it gets on")
            over.set()


def test_a_thread_that_waits_for_files_is_excused() -> None:
    lock = threading.Lock()
    lock.acquire()

    def read(reporter: LivenessReporter) -> None:
        with reporter.at_disk():
            lock.acquire()

    with watched(read) as reporter:
        wait_until(lambda: reporter._at_disk, what="it to begin")
        assert all(reporter.made_progress() for _ in range(10))
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
        with LivenessReporter(tell, every=0.01):
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
