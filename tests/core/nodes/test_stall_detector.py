"""When a parameter server that is stopped is killed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pliant.core.nodes.stall_detector import MAX_KILL_S, MAX_STOPPED_S, MAX_WITNESSED_S, StallDetector

NODE = "ps-0"


class Agent:
    """Beats once a second, unless said otherwise."""

    def __init__(self, detector: StallDetector) -> None:
        self.detector = detector
        self.now = 1000.0
        self.incarnation = 0

    def beats(self, times: float = 1, *, stopped: bool = True, every: float = 1.0) -> float:
        seconds = 0.0
        for _ in range(int(times)):
            self.now += every
            seconds = self.detector.heard(self.now, node=NODE, incarnation=self.incarnation, stopped=stopped)
        return seconds

    def is_killed(self) -> bool:
        due = self.detector.find_stopped(NODE)
        if due is not None:
            self.detector.record_kill(due)
        return due is not None


def test_a_program_that_stays_stopped_is_killed_once_and_with_a_reason() -> None:
    agent = Agent(StallDetector())
    agent.beats(stopped=False)
    agent.beats(MAX_STOPPED_S)  # the first of these only begins it
    assert not agent.is_killed()
    agent.beats()
    assert agent.is_killed()
    decision = agent.detector.kill_decision_for(NODE, 0)
    assert decision is not None
    assert decision.reason == "its program was stopped by a signal for 5 s"
    agent.beats(3)
    assert not agent.is_killed(), "no run gets two"
    assert agent.detector.kill_decision_for(NODE, 0) == decision


def test_one_that_resumes_in_time_is_not() -> None:
    agent = Agent(StallDetector())
    for _ in range(5):
        agent.beats(MAX_STOPPED_S)
        agent.beats(stopped=False)
    assert not agent.is_killed()


def test_one_that_resumes_after_the_decision_is_killed_all_the_same_and_its_next_run_is_not() -> None:
    agent = Agent(StallDetector())
    agent.beats(MAX_STOPPED_S + 1)
    assert agent.is_killed()
    agent.beats(stopped=False)
    assert agent.detector.kill_decision_for(NODE, 0) is not None
    agent.incarnation = 1
    agent.beats(stopped=False)
    assert agent.detector.kill_decision_for(NODE, 1) is None
    assert not agent.is_killed()


def test_late_heartbeats_of_an_earlier_run_change_nothing() -> None:
    agent = Agent(StallDetector())
    agent.incarnation = 1
    agent.beats()
    for _ in range(20):
        agent.now += 1
        agent.detector.heard(agent.now, node=NODE, incarnation=0, stopped=True)
    assert not agent.is_killed()
    assert agent.detector.kill_decision_for(NODE, 0) is None


def test_time_that_nobody_saw_counts_for_a_moment_only() -> None:
    agent = Agent(StallDetector())
    agent.beats(2)
    assert agent.beats(every=3600.0) == 1.0 + MAX_WITNESSED_S, "the machine was asleep, or this master, or the agent"
    assert not agent.is_killed()


def test_heartbeats_in_a_heap_are_no_time() -> None:
    agent = Agent(StallDetector())
    agent.beats()
    agent.beats(100, every=0.0)
    assert not agent.is_killed()


def test_a_decision_whose_program_lives_on_is_ignored() -> None:
    agent = Agent(StallDetector())
    agent.beats(MAX_STOPPED_S + 1)
    assert agent.is_killed()
    agent.beats(MAX_KILL_S - 1)
    assert not agent.detector.is_ignored(NODE)
    agent.beats(stopped=False)
    assert agent.detector.is_ignored(NODE)
    agent.detector.forget(NODE)
    assert not agent.detector.is_ignored(NODE)


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=60))
def test_no_program_is_killed_without_having_been_seen_stopped_again_and_again(beats: list[tuple[float, bool]]) -> None:
    agent, in_a_row, longest, time = Agent(StallDetector()), 0, 0, 0.0
    for gap, stopped in beats:
        agent.beats(stopped=stopped, every=gap)
        time = time + gap if stopped and in_a_row else 0.0
        in_a_row = in_a_row + 1 if stopped else 0
        longest = max(longest, in_a_row)
        if agent.is_killed():
            assert in_a_row >= 1 + MAX_STOPPED_S / MAX_WITNESSED_S
            assert time >= MAX_STOPPED_S
            return
    assert longest == 0 or agent.detector.kill_decision_for(NODE, 0) is None
