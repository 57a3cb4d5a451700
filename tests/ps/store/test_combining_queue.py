"""Work of several threads in one line."""

from __future__ import annotations

import threading

import pytest

from pliant.ps.store.combining_queue import MAX_COMBINED, CombiningQueue
from pliant.testing.waiting import MAX_WAIT_S


class Worker:
    """Notes in which order work is done, and that it is alone."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.by: list[int] = []
        self._alone = threading.Lock()

    def do(self, number: int) -> int:
        assert self._alone.acquire(blocking=False), "two at a time"
        try:
            self.done.append(number)
            self.by.append(threading.get_ident())
            if number % 10 == 7:
                raise ValueError(f"not {number}")
            return -number - 1
        finally:
            self._alone.release()


def test_each_piece_is_done_once_in_the_order_of_the_line_and_its_result_goes_to_who_brought_it() -> None:
    worker = Worker()
    queue: CombiningQueue[int, int] = CombiningQueue(worker.do)
    numbers = iter(range(10_000))
    wrong: list[str] = []

    def bring() -> None:
        for _ in range(500):
            entry = queue.enter(lambda: next(numbers))
            try:
                result = queue.finish(entry)
            except ValueError as error:
                result = -entry.work - 1 if str(error) == f"not {entry.work}" else 0
            if result != -entry.work - 1:
                wrong.append(f"{entry.work}: {result}")

    threads = [threading.Thread(target=bring) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_WAIT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong
    assert worker.done == list(range(3000))


def test_who_is_at_it_does_what_is_in_line_and_hands_over_after_a_while() -> None:
    worker = Worker()
    queue: CombiningQueue[int, int] = CombiningQueue(worker.do)
    first = queue.enter(lambda: 0)
    others = [queue.enter(lambda number=number: 10 * number) for number in range(1, MAX_COMBINED + 1)]  # type: ignore[misc]
    threads = [threading.Thread(target=queue.finish, args=(entry,)) for entry in others]
    for thread in threads:
        thread.start()
    assert queue.finish(first) == -1
    for thread in threads:
        thread.join(MAX_WAIT_S)
    assert worker.done == [0, *(10 * number for number in range(1, MAX_COMBINED + 1))]
    assert worker.by == [threading.get_ident()] * MAX_COMBINED + [threads[-1].ident]


def test_an_error_ends_the_turn_of_who_brought_the_work_and_nothing_else() -> None:
    queue: CombiningQueue[int, int] = CombiningQueue(Worker().do)
    bad, good = queue.enter(lambda: 7), queue.enter(lambda: 8)
    with pytest.raises(ValueError, match="not 7"):
        queue.finish(bad)
    assert queue.finish(good) == -9
    assert queue.finish(queue.enter(lambda: 9)) == -10
