"""Random histories of versions, rounds, claims and restarts, against a model that only keeps lists."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pliant.core.errors import Conflict, InvalidRequest
from pliant.core.training import MAX_WAITING, TrainingBook

EVALUATION = {"name": "eval", "shard_size": 2, "size": 6, "type": "eval"}


class Training(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.book = TrainingBook()
        self.book.define(0.0, evaluation=EVALUATION, monitor="auc", mode="max")
        self.queued: list[int] = []  # versions to be evaluated, in order; the first is open
        self.results: list[tuple[int, float]] = []
        self.newest = -1

    @rule(version=st.integers(0, 60), evaluate=st.booleans())
    def a_version_is_reported(self, version: int, evaluate: bool) -> None:
        if evaluate and version > self.newest and len(self.queued[1:]) < MAX_WAITING:
            self.queued.append(version)
            self.newest = version
        self.book.report_version(0.0, version=version, evaluate=evaluate)

    @precondition(lambda self: self.queued)
    @rule(session=st.sampled_from("abc"), other=st.booleans())
    def a_round_is_claimed(self, session: str, other: bool) -> None:
        version = self.queued[0] + (1000 if other else 0)
        assert self.book.claim(0.0, version=version, session=session) is not other

    @precondition(lambda self: self.queued)
    @rule(auc=st.floats(0, 1) | st.just(float("nan")), again=st.booleans())
    def the_open_round_closes(self, auc: float, again: bool) -> None:
        version = self.queued.pop(0)
        self.results.append((version, auc))
        self.book.close_round(0.0, version=version, metrics={"auc": auc}, records=6)
        if again:  # the report was sent twice
            self.book.close_round(0.0, version=version, metrics={"auc": 2.0}, records=6)

    @precondition(lambda self: self.queued)
    @rule()
    def the_open_round_is_given_up(self) -> None:
        self.book.close_round(0.0, version=self.queued.pop(0))

    @rule(reason=st.text(max_size=3))
    def training_is_stopped(self, reason: str) -> None:
        before = self.book.stop_reason
        assert self.book.stop(0.0, reason=reason) is not bool(before)
        assert self.book.stop_reason
        assert not before or self.book.stop_reason == before

    @rule()
    def the_master_restarts(self) -> None:
        state: dict[str, Any] = json.loads(json.dumps(self.book.snapshot()))
        self.book = TrainingBook()
        self.book.restore(state)
        assert json.dumps(self.book.snapshot()) == json.dumps(state)

    @invariant()
    def one_round_is_open_and_the_others_wait_in_order(self) -> None:
        opened = [self.book.open_round.version] if self.book.open_round else []
        assert [*opened, *self.book.waiting()] == self.queued
        if self.book.open_round:
            assert self.book.open_round.dataset == f"eval@{self.queued[0]}"

    @invariant()
    def each_result_is_there_once_and_the_best_is_kept(self) -> None:
        assert [(v, str(r.metrics["auc"])) for v, r in self.book.results.items()] == [
            (v, str(a)) for v, a in self.results[-100:]
        ]
        known = [(a, v) for v, a in self.results if a == a]
        best = max(known, key=lambda one: one[0])[0] if known else None
        assert (self.book.best.metrics["auc"] if self.book.best else None) == best
        assert set(self.queued) <= self.book.needed()
        assert self.book.best is None or self.book.best.version in self.book.needed()


TestTraining = Training.TestCase
TestTraining.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_what_rounds_are_of_is_defined_once() -> None:
    book = TrainingBook()
    assert book.define(0.0, evaluation=EVALUATION, monitor="auc", mode="max")
    assert not book.define(0.0, evaluation=EVALUATION, monitor="auc", mode="max")
    with pytest.raises(Conflict):
        book.define(0.0, evaluation={**EVALUATION, "size": 7}, monitor="auc", mode="max")
    with pytest.raises(InvalidRequest):
        book.define(0.0, evaluation={**EVALUATION, "type": "train"}, monitor="auc", mode="max")
