"""The training service: the shell around ``core.training.TrainingBook``.

It opens an evaluation round as a dataset of its own (a copy of the evaluation dataset, named ``NAME@VERSION``) and gives out
the one train-end shard once training is over. A round that the program scores closes with the metrics that one worker, who
claimed it, made of the notes on all shards; any other when its shards are done. Workers learn of changes by ``watch``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace

from pliant.core.datasets import DatasetSpec, ShardType
from pliant.core.errors import Conflict, SessionExpired
from pliant.core.training import Result, Round, TrainingBook
from pliant.master.journal import Journal
from pliant.master.shards import DataShardManager
from pliant.rpc import pliant_pb2 as pb

TRAIN_END = "train-end"
KEPT_ROUNDS = 20  # datasets of closed rounds, for status and audit


class TrainingService:
    def __init__(
        self, book: TrainingBook, journal: Journal, shards: DataShardManager, evaluation: DatasetSpec | None
    ) -> None:
        self.book = book
        self._journal = journal
        self._shards = shards
        self._evaluation = evaluation
        self._changed = asyncio.Event()
        self._last = ""  # tag of the state that waiting calls were woken for

    def start(self) -> None:
        self._shards.create_shards(DatasetSpec(TRAIN_END, 1, size=1, type=ShardType.TRAIN_END))
        if (round := self.book.open_round) is not None:
            self._create(round)

    # --- what programs say

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
        self._journal.event("evaluation", f"version {version}: {_shown(metrics)}")
        self._notify()

    def claim(self, version: int, session: str) -> bool:
        round = self.book.open_round
        if not self._shards.book.has_session(session):
            raise SessionExpired("the master does not know this session (any more)", hint="open a new one")
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
            return  # it was sent again, and the round is closed
        if round.claimed_by != session:
            raise Conflict(f"the evaluation of version {version} was claimed by another")
        self._close(round, f"version {version}: {_shown(metrics)} ({records:,} records)", metrics, records)

    def give_up(self, version: int, reason: str) -> None:
        round = self.book.open_round
        if round is not None and round.version == version:
            self._shards.end_dataset(round.dataset)
            self._close(round, f"the evaluation of version {version} was given up: {reason}"[:1000], None, 0)

    def stop(self, reason: str) -> None:
        if self._journal.do(self.book.stop, reason=reason):
            self._journal.event("training", f"training ends early: {self.book.stop_reason}")
            self._notify()

    # --- what they wait for

    def state(self) -> pb.TrainingState:
        book, round = self.book, self.book.open_round
        state = pb.TrainingState(
            waiting=book.waiting(),
            needed=sorted(book.needed()),
            results=[result_message(result) for result in book.results.values()],
            best=book.best.version if book.best else -1,
            stop_reason=book.stop_reason,
            due=book.due,
            version=book.version,
            trained=self._is_trained(),
            ended=self._shards.book.queue(TRAIN_END).complete,
        )
        if round is not None:
            state.open_version, state.open_dataset = round.version, round.dataset
            state.shards_done, state.claimed = self._shards_done(round), self._claimed(round)
        state.tag = str(hash(state.SerializeToString(deterministic=True)))
        return state

    async def watch(self, known: str) -> pb.TrainingState:
        while (state := self.state()).tag == known:
            await self._changed.wait()
        return state

    def tick(self) -> None:
        round = self.book.open_round
        if round is not None and not round.scored and self._shards_done(round):
            self._close(round, "", None, 0)
        if (tag := self.state().tag) != self._last:  # shards were done, a session that had a claim is gone, ...
            self._last = tag
            self._notify()

    # --- inside

    def _is_trained(self) -> bool:
        training = [queue for queue in self._shards.book.queues() if queue.is_training]
        return bool(training) and all(queue.complete for queue in training)

    def _shards_done(self, round: Round) -> bool:
        return self._shards.book.queue(round.dataset).complete

    def _claimed(self, round: Round) -> bool:
        return bool(round.claimed_by) and self._shards.book.has_session(round.claimed_by)

    def _close(self, round: Round, told: str, metrics: dict[str, float] | None, records: int) -> None:
        opened = self._journal.do(self.book.close_round, version=round.version, metrics=metrics, records=records)
        if told:
            self._journal.event("evaluation", told)
        if metrics is not None and self.book.best is not None and self.book.best.version == round.version:
            value = self.book.best.metrics[self.book.monitor]
            self._journal.event("evaluation", f"version {round.version} is the best: {self.book.monitor} {value:.6g}")
        self._shards.forget_notes(round.dataset)
        self._drop_old_rounds()
        self._opened(opened)
        self._notify()

    def _drop_old_rounds(self) -> None:
        done = deque(q.spec.name for q in self._shards.book.queues() if "@" in q.spec.name and q.complete)
        while len(done) > KEPT_ROUNDS:
            self._shards.drop(done.popleft())

    def _opened(self, round: Round | None) -> None:
        if round is not None and self._create(round):
            self._journal.event("evaluation", f"evaluating version {round.version}")

    def _create(self, round: Round) -> bool:
        evaluation = self.book.evaluation if round.scored else self._evaluation
        if evaluation is None:
            return False
        return self._shards.create_shards(replace(evaluation, name=round.dataset))

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def result_message(result: Result) -> pb.EvaluationResult:
    return pb.EvaluationResult(version=result.version, metrics=result.metrics, records=result.records)


def _shown(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in sorted(metrics.items()))
