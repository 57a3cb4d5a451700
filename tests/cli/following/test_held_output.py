from __future__ import annotations

from pliant.cli.following.held_output import MAX_HOLD_S, HeldOutput
from pliant.core.job import Failure
from pliant.testing.clock import ManualClock

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "train.py", line 1, in <module>',
    "    import nothing",
    "ModuleNotFoundError: No module named 'nothing'",
]
USAGE = ["usage: train.py [-h] --data DATA", "train.py: error: the following arguments are required: --data"]


class Screen:
    def __init__(self) -> None:
        self.clock = ManualClock(0.0)
        self.lines: list[tuple[str, str]] = []
        self.held = HeldOutput(lambda node, line: self.lines.append((node, line)), self.clock.now)

    def write(self, node: str, *lines: str) -> None:
        for line in lines:
            self.held.add(node, line)

    def shown(self, node: str) -> list[str]:
        return [line for name, line in self.lines if name == node]


def failure(lines: list[str]) -> Failure:
    return Failure("worker-0", "Error", lines[-1], "\n".join(lines), 0.0, "", "install it")


def test_the_same_error_of_all_workers_is_left_to_the_final_report() -> None:
    for error in (TRACEBACK, USAGE):
        screen = Screen()
        for node in ("worker-0", "worker-1", "worker-2"):
            screen.write(node, "hello", *error)
        assert screen.held.finish(failure(error)) == ["worker-1", "worker-2"]
        assert [line for _, line in screen.lines] == ["hello"] * 3


def test_another_error_is_shown() -> None:
    screen = Screen()
    screen.write("worker-0", *TRACEBACK)
    screen.write("worker-1", *TRACEBACK[:-1], "ValueError: not the same")
    assert screen.held.finish(failure(TRACEBACK)) == []
    assert screen.shown("worker-1")[-1] == "ValueError: not the same"
    assert screen.shown("worker-0") == []


def test_a_job_that_did_not_fail_of_it_shows_everything() -> None:
    screen = Screen()
    screen.write("worker-0", *TRACEBACK)
    assert screen.held.finish(None) == []
    assert screen.shown("worker-0") == TRACEBACK


def test_an_error_that_the_program_survives_is_shown_with_its_next_line() -> None:
    screen = Screen()
    screen.write("worker-0", *TRACEBACK, "going on without it")
    assert screen.shown("worker-0") == [*TRACEBACK, "going on without it"]


def test_an_error_is_held_no_longer_than_a_decision_takes() -> None:
    screen = Screen()
    screen.write("worker-0", *TRACEBACK)
    screen.held.release_due()
    assert screen.shown("worker-0") == []
    screen.clock.advance(MAX_HOLD_S + 0.1)
    screen.held.release_due()
    assert screen.shown("worker-0") == TRACEBACK


def test_chained_tracebacks_and_hints_belong_together() -> None:
    chain = [*TRACEBACK, "", "During handling of the above exception, another exception occurred:", "", *TRACEBACK]
    screen = Screen()
    screen.write("worker-1", *chain, "  what to do: install it")
    assert screen.shown("worker-1") == []
    assert screen.held.finish(None) == []
    assert len(screen.shown("worker-1")) == len(chain) + 1


def test_torchs_prefix_hides_nothing() -> None:
    screen = Screen()
    screen.write("worker-1", *(f"[rank1]: {line}" for line in TRACEBACK))
    assert screen.held.finish(failure(TRACEBACK)) == ["worker-1"]
