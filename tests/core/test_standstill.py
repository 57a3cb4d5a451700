"""When a parameter server that is stopped is ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pliant.core.standstill import DEFIED, STOPPED, WITNESSED, Standstill

NODE = "ps-0"


class Agent:
    """Beats once a second, unless told otherwise."""

    def __init__(self, watch: Standstill) -> None:
        self.watch = watch
        self.now = 1000.0
        self.incarnation = 0

    def beats(self, times: float = 1, *, stopped: bool = True, every: float = 1.0) -> float:
        seconds = 0.0
        for _ in range(int(times)):
            self.now += every
            seconds = self.watch.heard(self.now, node=NODE, incarnation=self.incarnation, stopped=stopped)
        return seconds

    def sentenced(self) -> bool:
        due = self.watch.overdue(NODE)
        if due is not None:
            self.watch.sentenced(due)
        return due is not None


def test_a_program_that_stays_stopped_is_sentenced_once_and_with_a_reason() -> None:
    agent = Agent(Standstill())
    agent.beats(stopped=False)
    agent.beats(STOPPED)  # the first of these only begins it
    assert not agent.sentenced()
    agent.beats()
    assert agent.sentenced()
    sentence = agent.watch.sentence_on(NODE, 0)
    assert sentence is not None
    assert sentence.reason == "its program was stopped by a signal for 5 s"
    agent.beats(3)
    assert not agent.sentenced(), "no run gets two"
    assert agent.watch.sentence_on(NODE, 0) == sentence


def test_one_that_goes_on_in_time_is_not() -> None:
    agent = Agent(Standstill())
    for _ in range(5):
        agent.beats(STOPPED)
        agent.beats(stopped=False)
    assert not agent.sentenced()


def test_one_that_goes_on_after_its_sentence_keeps_it_and_its_next_run_has_none() -> None:
    agent = Agent(Standstill())
    agent.beats(STOPPED + 1)
    assert agent.sentenced()
    agent.beats(stopped=False)
    assert agent.watch.sentence_on(NODE, 0) is not None
    agent.incarnation = 1
    agent.beats(stopped=False)
    assert agent.watch.sentence_on(NODE, 1) is None
    assert not agent.sentenced()


def test_what_is_told_of_an_earlier_run_changes_nothing() -> None:
    agent = Agent(Standstill())
    agent.incarnation = 1
    agent.beats()
    for _ in range(20):
        agent.now += 1
        agent.watch.heard(agent.now, node=NODE, incarnation=0, stopped=True)
    assert not agent.sentenced()
    assert agent.watch.sentence_on(NODE, 0) is None


def test_time_that_nobody_saw_counts_for_a_moment_only() -> None:
    agent = Agent(Standstill())
    agent.beats(2)
    assert agent.beats(every=3600.0) == 1.0 + WITNESSED, "the machine was asleep, or this master, or the agent"
    assert not agent.sentenced()


def test_heartbeats_in_a_heap_are_no_time() -> None:
    agent = Agent(Standstill())
    agent.beats()
    agent.beats(100, every=0.0)
    assert not agent.sentenced()


def test_a_program_that_outlives_its_sentence_defies_it() -> None:
    agent = Agent(Standstill())
    agent.beats(STOPPED + 1)
    assert agent.sentenced()
    agent.beats(DEFIED - 1)
    assert not agent.watch.defies(NODE)
    agent.beats(stopped=False)
    assert agent.watch.defies(NODE)
    agent.watch.forget(NODE)
    assert not agent.watch.defies(NODE)


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=60))
def test_nobody_is_sentenced_without_having_been_seen_stopped_again_and_again(beats: list[tuple[float, bool]]) -> None:
    agent, in_a_row, longest, time = Agent(Standstill()), 0, 0, 0.0
    for gap, stopped in beats:
        agent.beats(stopped=stopped, every=gap)
        time = time + gap if stopped and in_a_row else 0.0
        in_a_row = in_a_row + 1 if stopped else 0
        longest = max(longest, in_a_row)
        if agent.sentenced():
            assert in_a_row >= 1 + STOPPED / WITNESSED
            assert time >= STOPPED
            return
    assert longest == 0 or agent.watch.sentence_on(NODE, 0) is None
