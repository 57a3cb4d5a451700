"""The training service: the shell around ``core.training.TrainingBook``.

It opens an evaluation round as a dataset of its own (a copy of the evaluation dataset, named ``NAME@VERSION``) and hands out
the one train-end shard once training is over. A round that the program scores closes with the metrics that the one worker that
claimed it computed from the notes on all shards; any other when its shards are done. Workers learn of changes by ``watch``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace

from pliant.core.errors import Conflict, SessionExpired
from pliant.core.events import (
    BestVersionFound,
    EvaluationDone,
    EvaluationFailed,
    EvaluationStarted,
    Event,
    TrainingStopped,
)
from pliant.core.shards.datasets import DatasetSpec, ShardType
from pliant.core.training import Result, Round, TrainingBook
from pliant.master.components.base import Component
from pliant.master.components.shards import DataShardManager
from pliant.master.components.signals import NodesIdle, Signal, SignalBus, StepReported
from pliant.master.journal.journal import Journal

TRAIN_END = "train-end"
MAX_CLOSED_ROUNDS = 20  # datasets of closed rounds, for status and audit


@dataclass(frozen=True, slots=True)
class TrainingView:
    """What workers of native training wait for; ``tag`` tells two of them apart."""

    waiting: tuple[int, ...]  # versions whose rounds are to come
    needed: tuple[int, ...]  # versions whose models must be kept
    results: tuple[Result, ...]
    best: int | None
    stop_reason: str
    due: int
    version: int
    is_trained: bool
    is_ended: bool
    open_round: Round | None
    shards_done: bool
    is_claimed: bool

    @property
    def tag(self) -> str:
        return str(hash(repr(self)))


class TrainingService(Component):
    name = "training"
    title = "training service"
    enabled_by = "--need-training-service"

    def __init__(
        self,
        book: TrainingBook,
        journal: Journal,
        signals: SignalBus,
        shards: DataShardManager,
        evaluation: DatasetSpec | None,
    ) -> None:
        self.book = book
        self._journal = journal
        self._signals = signals
        self._shards = shards
        self._evaluation = evaluation
        self._changed = asyncio.Event()
        self._last = ""  # tag of the state that waiting calls were woken for

    def prepare(self) -> None:
        self._shards.create_shards(DatasetSpec(TRAIN_END, 1, size=1, type=ShardType.TRAIN_END))
        if (round := self.book.open_round) is not None:
            self._create(round)

    def on_event(self, signal: Signal) -> None:
        if isinstance(signal, StepReported):
            self.report_version(signal.step)

    # --- calls of programs

    def define(self, evaluation: DatasetSpec, monitor: str, mode: str) -> None:
        self._journal.do(self.book.define, evaluation=evaluation.to_json(), monitor=monitor, mode=mode)
        self._notify()

    def report_version(self, version: int, *, evaluate: bool = False) -> bool:
        """Whether a round of this version is open or to come."""
        if version > self.book.version or (evaluate and self.book.can_queue(version)):
            self._opened(self._journal.do(self.book.report_version, version=version, evaluate=evaluate))
            self._notify()
        return version in self.book.needed()

    def report_metrics(self, version: int, metrics: dict[str, float]) -> None:
        self._journal.do(self.book.report_metrics, version=version, metrics=metrics)
        self._journal.event(EvaluationDone(version=version, metrics=metrics, records=0))
        self._notify()

    def claim(self, version: int, session: str) -> bool:
        round = self.book.open_round
        if not self._shards.book.has_session(session):
            raise SessionExpired("unknown or closed session", hint="open a new one")
        if round is None or round.version != version or not self._shards_done(round):
            return False
        if self._claimed(round) and round.claimed_by != session:
            return False
        claimed = self._journal.do(self.book.claim, version=version, session=session)
        self._notify()
        return claimed

    def score(self, version: int, session: str, metrics: dict[str, float], records: int) -> None:
        """The metrics of the open round, from whoever claimed it."""
        round = self.book.open_round
        if round is None or round.version != version:
            return  # a retry; the round is closed
        if round.claimed_by != session:
            raise Conflict(f"the evaluation of version {version} was claimed by another worker")
        self._close(round, EvaluationDone(version=version, metrics=metrics, records=records), metrics, records)

    def give_up(self, version: int, reason: str) -> None:
        """A worker cannot read the model of a round; without effect while another holds a shard of it, and so can."""
        round = self.book.open_round
        if round is not None and round.version == version and not self._shards.book.queue(round.dataset).out:
            self._shards.end_dataset(round.dataset)
            self._close(round, EvaluationFailed(version=version, reason=reason[:1000]), None, 0)

    def stop_training(self, reason: str) -> None:
        if self._journal.do(self.book.stop, reason=reason):
            self._journal.event(TrainingStopped(reason=self.book.stop_reason))
            self._notify()

    # --- what programs wait for

    def state(self) -> TrainingView:
        book, round = self.book, self.book.open_round
        return TrainingView(
            waiting=tuple(book.waiting()),
            needed=tuple(sorted(book.needed())),
            results=tuple(book.results.values()),
            best=book.best.version if book.best else None,
            stop_reason=book.stop_reason,
            due=book.due,
            version=book.version,
            is_trained=self._is_trained(),
            is_ended=self._shards.book.queue(TRAIN_END).complete,
            open_round=round,
            shards_done=round is not None and self._shards_done(round),
            is_claimed=round is not None and self._claimed(round),
        )

    async def watch(self, known: str) -> TrainingView:
        while (state := self.state()).tag == known:
            await self._changed.wait()
        return state

    async def tick(self) -> None:
        round = self.book.open_round
        if round is not None and not round.scored and self._shards_done(round):
            self._close(round, None, None, 0)
        if (tag := self.state().tag) != self._last:  # shards were done, a session that had a claim is gone, ...
            self._last = tag
            self._notify()
        if self._is_trained():
            self._signals.publish(NodesIdle(self._helpers()))

    # --- inside

    def _helpers(self) -> tuple[str, ...]:
        """Nodes that are done with training and have nothing else to do for now: they wait for the others' rounds and export."""
        book, round = self._shards.book, self.book.open_round
        sessions = book.sessions()
        busy = {
            book.node_of(s) for s in sessions if book.is_holding(s) or (round is not None and round.claimed_by == s)
        }
        return tuple({book.node_of(session) for session in sessions} - busy)

    def _is_trained(self) -> bool:
        training = [queue for queue in self._shards.book.queues() if queue.is_training]
        return bool(training) and all(queue.complete for queue in training)

    def _shards_done(self, round: Round) -> bool:
        return self._shards.book.queue(round.dataset).complete

    def _claimed(self, round: Round) -> bool:
        return bool(round.claimed_by) and self._shards.book.has_session(round.claimed_by)

    def _close(self, round: Round, event: Event | None, metrics: dict[str, float] | None, records: int) -> None:
        opened = self._journal.do(self.book.close_round, version=round.version, metrics=metrics, records=records)
        if event is not None:
            self._journal.event(event)
        if metrics is not None and self.book.best is not None and self.book.best.version == round.version:
            value = self.book.best.metrics[self.book.monitor]
            self._journal.event(BestVersionFound(version=round.version, monitor=self.book.monitor, value=value))
        self._shards.forget_notes(round.dataset)
        self._drop_old_rounds()
        self._opened(opened)
        self._notify()

    def _drop_old_rounds(self) -> None:
        done = deque(q.spec.name for q in self._shards.book.queues() if "@" in q.spec.name and q.complete)
        while len(done) > MAX_CLOSED_ROUNDS:
            self._shards.drop(done.popleft())

    def _opened(self, round: Round | None) -> None:
        if round is not None and self._create(round):
            self._journal.event(EvaluationStarted(version=round.version, dataset=round.dataset))

    def _create(self, round: Round) -> bool:
        evaluation = self.book.evaluation if round.scored else self._evaluation
        if evaluation is None:
            return False
        return self._shards.create_shards(replace(evaluation, name=round.dataset))

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
