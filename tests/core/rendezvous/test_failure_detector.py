"""The rule by which a member of a world is declared failed: on evidence only, soon if nothing else is wrong, later under load."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.rendezvous.failure_detector import (
    ANSWER_FACTOR,
    FIRST_WAIT_S,
    HEARTBEAT_FACTOR,
    MAX_LOOK_S,
    MAX_SUSPICION_S,
    MAX_WAIT_S,
    MIN_SILENCE_S,
    MIN_STOPPED_S,
    MIN_WAIT_S,
    SEEN_STOPPED_S,
    Failure,
    FailureDetector,
    WaitPace,
)

TIMEOUT_S = 30.0
MEMBERS = ("a", "b", "c")


class Watched:
    """A detector that is looked at every 0.1 s, agents that send a heartbeat each second, and processes that answer at once."""

    def __init__(self, *, timeout: float = TIMEOUT_S, interval: float = 1.0) -> None:
        self.detector = FailureDetector(timeout)
        self.now = 100.0
        self.interval = interval
        self.beats = dict.fromkeys(MEMBERS, 100.0)
        self.failed: list[tuple[float, Failure]] = []

    def suspect(self, *answering: str, after: float = 0.0) -> None:
        self.detector.suspect(self.now, MEMBERS)
        for member in answering:
            self.detector.heard(self.now + after, member)

    def passes(self, seconds: float, *beating: str) -> None:
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now += 0.1
            for member in beating:
                if self.now - self.beats[member] >= self.interval:
                    self.beats[member] = self.now
            found = self.detector.look(self.now, self.beats, self.interval)
            self.failed += [(self.now, failure) for failure in found]

    @property
    def names(self) -> set[str]:
        return {failure.member for _, failure in self.failed}


def test_nobody_fails_as_long_as_nobody_waits() -> None:
    watched = Watched()
    watched.detector.stopped(watched.now, "b", 5.0)
    watched.passes(100.0)
    assert not watched.failed


def test_a_stopped_program_fails_with_the_first_suspicion() -> None:
    watched = Watched()
    watched.suspect("a", "c")
    watched.detector.stopped(watched.now, "b", MIN_STOPPED_S)
    watched.passes(0.1, *MEMBERS)
    assert [failure for _, failure in watched.failed] == [Failure("b", MIN_STOPPED_S, stopped=True)]


@pytest.mark.parametrize(("seconds", "age"), [(MIN_STOPPED_S / 2, 0.0), (5.0, SEEN_STOPPED_S + 0.1)])
def test_a_program_that_was_stopped_for_a_moment_or_some_time_ago_does_not_fail(seconds: float, age: float) -> None:
    watched = Watched()
    watched.detector.stopped(watched.now - age, "b", seconds)
    watched.suspect(*MEMBERS)
    watched.passes(10.0, *MEMBERS)
    assert not watched.failed


def test_a_stopped_program_fails_without_a_suspicion_if_the_others_wait_to_form_a_world() -> None:
    detector = FailureDetector(TIMEOUT_S)
    detector.stopped(100.0, "b", 0.2)
    assert not detector.look(100.0, {}, 1.0)
    assert [failure.member for failure in detector.look(100.1, {}, 1.0, is_awaited=True)] == ["b"]


def test_a_member_fails_if_both_its_process_and_its_agent_are_silent() -> None:
    watched = Watched()
    watched.suspect("a", "c")
    watched.passes(HEARTBEAT_FACTOR + 0.5, "a", "c")
    assert watched.names == {"b"}
    assert watched.failed[0][0] - 100.0 == pytest.approx(HEARTBEAT_FACTOR, abs=0.35)


def test_a_process_that_answers_nothing_is_believed_as_long_as_its_agent_beats() -> None:
    watched = Watched()
    for _ in range(20):
        watched.suspect("a", "c")
        watched.passes(5.0, *MEMBERS)
    assert not watched.failed


def test_an_agent_that_is_silent_is_believed_if_the_process_answers() -> None:
    watched = Watched()
    for _ in range(20):
        watched.suspect(*MEMBERS)
        watched.passes(5.0, "a", "c")
    assert not watched.failed


def test_a_guest_without_an_agent_never_fails_here() -> None:
    watched = Watched()
    del watched.beats["b"]
    watched.suspect("a", "c")
    watched.passes(MAX_SUSPICION_S, "a", "c")
    assert not watched.failed


def test_slow_answers_of_the_others_lengthen_the_limit() -> None:
    watched = Watched()
    watched.suspect("a", "c", after=1.0)
    watched.passes(ANSWER_FACTOR * 1.0 - 1.0, "a", "c")
    assert not watched.failed
    watched.passes(3.0, "a", "c")
    assert watched.names == {"b"}


def test_rare_heartbeats_lengthen_the_limit() -> None:
    watched = Watched(interval=4.0)
    watched.suspect("a", "c")
    watched.passes(9.0, "a", "c")
    assert not watched.failed


def test_one_that_came_back_is_given_twice_the_time() -> None:
    watched = Watched()
    before = watched.detector.silence_limit("b", 1.0)
    watched.suspect("a", "c")
    watched.passes(4.0, "a", "c")
    watched.detector.returned("b")
    assert watched.detector.silence_limit("b", 1.0) == pytest.approx(2 * before)
    assert watched.detector.silence_limit("a", 1.0) == pytest.approx(before)
    watched.detector.returned("b")
    assert watched.detector.silence_limit("b", 1.0) == pytest.approx(2 * before), "each alarm counts once"


def test_time_in_which_the_master_did_not_look_counts_against_nobody() -> None:
    watched = Watched()
    watched.suspect("a", "c")
    watched.passes(0.3, "a", "c")
    for _ in range(5):  # paused five times
        watched.now += 1.9
        watched.detector.suspect(watched.now, MEMBERS)
        assert not watched.detector.look(watched.now, watched.beats, 1.0)


def test_the_configured_limit_is_never_exceeded() -> None:
    detector = FailureDetector(3.0)
    detector.suspect(0.0, MEMBERS)
    detector.heard(100.0, "a")
    assert detector.silence_limit("b", 60.0) == 3.0


def test_an_unanswered_suspicion_is_not_begun_anew_by_those_who_wait() -> None:
    detector = FailureDetector(TIMEOUT_S)
    detector.suspect(0.0, MEMBERS)
    detector.heard(0.0, "a")
    detector.suspect(1.0, MEMBERS)
    assert detector.probe == 1
    detector.heard(1.0, "b")
    detector.heard(1.0, "c")
    detector.suspect(2.0, MEMBERS)
    assert detector.probe == 2


answers = st.floats(0.0, 1.9)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whoever_shows_any_sign_of_life_in_time_never_fails(data: st.DataObject) -> None:
    """Delays of a busy machine: processes that answer late or never, agents whose heartbeats come late, a master that pauses."""
    detector = FailureDetector(TIMEOUT_S)
    now, beats, last = 0.0, dict.fromkeys(MEMBERS, 0.0), dict.fromkeys(MEMBERS, 0.0)
    probe = 0
    due: dict[str, float] = {}
    for _ in range(data.draw(st.integers(10, 120))):
        now += data.draw(st.sampled_from([0.1, 0.1, 0.1, 0.3, 2.0]))
        if data.draw(st.booleans()):
            detector.suspect(now, MEMBERS)
        if detector.probe != probe:
            probe = detector.probe
            due = {member: now + data.draw(answers) for member in MEMBERS if data.draw(st.booleans())}
        for member in MEMBERS:
            if now >= due.get(member, now + 1):
                detector.heard(now, member)
                del due[member]
            if now - last[member] >= data.draw(st.sampled_from([1.0, 1.2, 1.4])):  # the agent's heartbeat
                beats[member] = last[member] = now
        assert not detector.look(now, beats, 1.0)


@settings(max_examples=200, deadline=None)
@given(st.floats(0.0, 0.2), st.sampled_from(MEMBERS), st.integers(1, 5))
def test_a_node_that_is_gone_fails_in_bounded_time(answer: float, gone: str, busy: int) -> None:
    watched = Watched()
    others = [member for member in MEMBERS if member != gone]
    for _ in range(40):
        watched.suspect(*others, after=answer)
        watched.passes(MAX_WAIT_S / busy, *others)
        if watched.failed:
            break
    assert watched.names == {gone}
    assert watched.now - 100.0 <= max(2.5, ANSWER_FACTOR * answer) + 1.0 + MAX_WAIT_S


def test_a_worker_waits_a_multiple_of_what_its_steps_take() -> None:
    pace = WaitPace()
    assert pace.limit == FIRST_WAIT_S
    for _ in range(100):
        pace.record(0.02)
    assert pace.limit == MIN_WAIT_S
    for _ in range(100):
        pace.record(0.5)
    assert pace.limit == pytest.approx(1.5)
    for _ in range(100):
        pace.record(60.0)
    assert pace.limit == MAX_WAIT_S


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=200))
def test_the_wait_before_a_suspicion_is_bounded_and_above_most_waits(waits: list[float]) -> None:
    pace = WaitPace()
    for wait in waits:
        pace.record(wait)
    recent = waits[-64:]
    assert MIN_WAIT_S <= pace.limit <= MAX_WAIT_S
    assert sum(min(wait, MAX_WAIT_S) > pace.limit for wait in recent) <= 0.05 * len(recent)
    assert MAX_LOOK_S < MIN_SILENCE_S
