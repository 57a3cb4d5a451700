"""A worker's part in evaluation rounds: it follows the master's state, evaluates shards, and may compute the metrics.

A round is evaluated one shard at a time, between two training steps, on a model of its own that holds the round's version.
The metric states travel with the acknowledgement of the shard. When all shards are done, one worker claims the round,
merges the states of all shards and reports the metrics.

A metric that fails, or whose state cannot be sent, fails the job with its name and the version: it would fail on the same records
again, and training on without an evaluation would find no best model and never stop early.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from torch import nn

from pliant.client.job import Job
from pliant.client.notes import ShardNote, read_notes
from pliant.client.shards import ShardStream
from pliant.core.errors import Conflict, SessionExpired
from pliant.native.evaluation.evaluator import DATASET, Evaluator
from pliant.native.evaluation.state_size import check_state_size
from pliant.native.failures import failing_permanently
from pliant.native.metrics import State, merge_states, pack_states, unpack_states
from pliant.native.training_watch import TrainingWatch
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.datasets import to_message

log = logging.getLogger(__name__)


class EvaluationRounds:
    """This worker in the rounds of its job. ``model_at(version)`` returns the model of a version, or None."""

    def __init__(
        self,
        job: Job,
        watch: TrainingWatch,
        evaluator: Evaluator,
        model_at: Callable[[int], nn.Module | None],
        *,
        shard_size: int,
        monitor: str,
        mode: str,
    ) -> None:
        self._job = job
        self._session = job.session()
        self._watch = watch
        self._evaluator = evaluator
        self._model_at = model_at
        self._stream: ShardStream | None = None
        self._dataset = ""  # of the open stream
        self._model: nn.Module | None = None
        self._unreadable: tuple[int, float] = (-1, 0.0)  # version whose model could not be loaded, and since when
        definition = pb.TrainingDefinition(
            evaluation=to_message(evaluator.spec(shard_size)), monitor=monitor, mode=mode
        )
        self._session.call_with_retry(self._session.master.stubs.training.Define, definition)

    def work(self) -> bool:
        """Evaluate one shard, or close a round; False if there is nothing to do for now. Does not wait."""
        state = self._watch.state
        if self._dataset and state.open_dataset != self._dataset:
            self._leave()
        if not state.open_dataset:
            return False
        if state.shards_done:
            self._leave()
            return not state.claimed and self._score(state.open_version)
        if self._stream is None and not self._enter(state.open_version, state.open_dataset):
            return False
        assert self._stream is not None
        assert self._model is not None
        shard = self._stream.poll()
        if shard is None:
            return False
        with failing_permanently(lambda: round_text(state.open_version)):
            states = pack_states(self._evaluator.states(self._model, shard))
            check_state_size(len(states), len(shard))
        shard.done(states)
        return True

    def seconds_without_model(self) -> float:
        """For how long this worker could not load the model of the open round."""
        state = self._watch.state
        version, since = self._unreadable
        open_and_undone = bool(state.open_dataset) and not state.shards_done
        return time.monotonic() - since if open_and_undone and version == state.open_version else 0.0

    def abandon_open_round(self) -> None:
        """Unless another worker is at it; then it is asked for again after the same time."""
        version = self._watch.state.open_version
        self._unreadable = (version, time.monotonic())
        request = pb.GiveUpRoundRequest(version=version, reason=f"{self._job.node} cannot read its model")
        self._session.call_with_retry(self._session.master.stubs.training.GiveUpRound, request)

    def close(self) -> None:
        self._leave()

    def _enter(self, version: int, dataset: str) -> bool:
        model = self._model_at(version)
        if model is None:
            if self._unreadable[0] != version:
                self._unreadable = (version, time.monotonic())
            return False
        self._unreadable = (-1, 0.0)
        self._model, self._dataset = model, dataset
        self._stream = self._job.shards(dataset, prefetch=1, acknowledge=False)
        return True

    def _leave(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, self._model, self._dataset = None, None, ""

    def _score(self, version: int) -> bool:
        """Compute the metrics of a round whose shards are all done, unless another worker does."""
        training = self._session.master.stubs.training
        name = self._session.name
        try:
            request = pb.ClaimRoundRequest(version=version, session=name)
            if not self._session.call_with_retry(training.ClaimRound, request).claimed:
                self._watch.refresh()
                return False
            notes = read_notes(self._session, f"{DATASET}@{version}")
            with failing_permanently(lambda: round_text(version)):
                metrics = self._evaluator.values(self._merged(notes))
            records = sum(note.end - note.start for note in notes)
            report = pb.ReportEvaluationRequest(version=version, metrics=metrics, records=records, session=name)
            self._session.call_with_retry(training.ReportEvaluation, report)
        except (Conflict, SessionExpired) as error:  # this process was frozen meanwhile
            log.info("another worker computes the metrics of version %d: %s", version, error.message)
            return False
        self._watch.refresh()
        return True

    def _merged(self, notes: Sequence[ShardNote]) -> dict[str, State]:
        """All states of a round, merged in the order of its shards."""
        total: dict[str, State] = {}
        for note in notes:
            total = merge_states(self._evaluator.all_metrics(), total, unpack_states(note.data))
        return total


def round_text(version: int) -> str:
    return f"the evaluation of version {version}"
