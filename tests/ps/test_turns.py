"""Work of several threads in one line."""

from __future__ import annotations

import threading

import pytest

from pliant.ps.turns import MOST, Turns


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
    turns: Turns[int, int] = Turns(worker.do)
    numbers = iter(range(10_000))
    wrong: list[str] = []

    def bring() -> None:
        for _ in range(500):
            turn = turns.enter(lambda: next(numbers))
            try:
                result = turns.finish(turn)
            except ValueError as error:
                result = -turn.work - 1 if str(error) == f"not {turn.work}" else 0
            if result != -turn.work - 1:
                wrong.append(f"{turn.work}: {result}")

    threads = [threading.Thread(target=bring) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong
    assert worker.done == list(range(3000))


def test_who_is_at_it_does_what_is_in_line_and_hands_over_after_a_while() -> None:
    worker = Worker()
    turns: Turns[int, int] = Turns(worker.do)
    first = turns.enter(lambda: 0)
    others = [turns.enter(lambda number=number: 10 * number) for number in range(1, MOST + 1)]  # type: ignore[misc]
    threads = [threading.Thread(target=turns.finish, args=(turn,)) for turn in others]
    for thread in threads:
        thread.start()
    assert turns.finish(first) == -1
    for thread in threads:
        thread.join(60)
    assert worker.done == [0, *(10 * number for number in range(1, MOST + 1))]
    assert worker.by == [threading.get_ident()] * MOST + [threads[-1].ident]


def test_an_error_ends_the_turn_of_who_brought_the_work_and_nothing_else() -> None:
    turns: Turns[int, int] = Turns(Worker().do)
    bad, good = turns.enter(lambda: 7), turns.enter(lambda: 8)
    with pytest.raises(ValueError, match="not 7"):
        turns.finish(bad)
    assert turns.finish(good) == -9
    assert turns.finish(turns.enter(lambda: 9)) == -10
