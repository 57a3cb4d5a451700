"""A worker's part in the rounds of evaluation: it follows what the master says, evaluates shards, and may compute the metrics.

A round is evaluated one shard at a time, between two steps of training, on a model of its own that holds the round's version.
The states of the metrics travel with the acknowledgement of the shard. When all shards are done, one worker claims the round,
merges the states of all shards and reports the metrics.

A metric that fails, or whose state cannot be sent, ends the job with its name and the version: it would fail on the same records
again, and training on without an evaluation would find no best model and never stop early.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pliant.client.job import Job
from pliant.client.shards import Shard, ShardStream
from pliant.core.datasets import DatasetSpec, FilePart, ShardType
from pliant.core.errors import Conflict, InvalidRequest, PliantError, SessionExpired
from pliant.data import DataReader
from pliant.native.contract import ModelFile
from pliant.native.failures import hopeless
from pliant.native.feed import Feed, Mode
from pliant.native.metrics import Mean, Metric, State, merge_states, pack_states, unpack_states
from pliant.native.models import as_arrays, loss_of, predict
from pliant.native.user_metrics import user_metrics
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.datasets import to_message

log = logging.getLogger(__name__)

WATCH_SECONDS = 20.0  # a call that waits for news is renewed so often
DATASET = "eval"
LOSS = "loss"
SHARD_BATCHES = 4  # of an evaluation or prediction, in one shard
LARGEST = 12 << 20  # bytes of the states of one shard that the master takes (master/notes.py)


class TrainingWatch:
    """What the master last said of the training, kept current by a thread."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._session = job.session()
        self._changed = threading.Condition()
        self._state = pb.TrainingState(best=-1, due=-1)
        self._closed = False
        self._failure: PliantError | None = None
        self._state = self._ask(0.0)
        self._thread = threading.Thread(target=self._follow, name="pliant-training", daemon=True)
        self._thread.start()

    @property
    def state(self) -> pb.TrainingState:
        with self._changed:
            if self._failure is not None:
                raise self._failure
            return self._state

    def refresh(self) -> pb.TrainingState:
        """As it is now, not as it was a moment ago."""
        state = self._ask(0.0)
        with self._changed:
            self._state = state
        return state

    def wait(self, seconds: float) -> None:
        """Until something changed, or for so long."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self) -> None:
        self._closed = True

    def _ask(self, seconds: float) -> pb.TrainingState:
        request = pb.WatchTrainingRequest(known=self._state.tag if seconds else "")
        state: pb.TrainingState = self._session.insist(
            self._session.master.stubs.training.Watch, request, timeout=seconds + 10.0
        )
        return state

    def _follow(self) -> None:
        try:
            while not self._closed:
                state = self._ask(WATCH_SECONDS)
                with self._changed:
                    self._state = state
                    self._changed.notify_all()
        except PliantError as error:
            with self._changed:
                if not self._closed:
                    self._failure = error
                self._changed.notify_all()


class Evaluator:
    """Evaluates records with one model; the same for rounds and for ``pliant evaluate``."""

    def __init__(self, file: ModelFile, reader: DataReader, batch_size: int) -> None:
        self._file = file
        self._reader = reader
        self._batch = batch_size
        self._feed = Feed(file, reader, Mode.EVALUATION)
        self.metrics: dict[str, Metric] = user_metrics(file)
        self._loss = Mean() if file.get("loss") is not None and LOSS not in self.metrics else None

    def all_metrics(self) -> dict[str, Metric]:
        return {**self.metrics, **({LOSS: self._loss} if self._loss is not None else {})}

    def states(self, model: nn.Module, shard: Shard) -> dict[str, State]:
        """Of one shard. Batches that ``dataset_fn`` empties count for nothing."""
        total: dict[str, State] = {}
        positions = list(self._reader.positions(shard))
        random_state = torch.get_rng_state()
        model.eval()
        with torch.no_grad():
            for at in range(0, len(positions), self._batch):
                some = positions[at : at + self._batch]
                batch = self._feed.batch(list(zip(some, self._reader.fetch(some), strict=True)))
                if batch is not None:
                    predictions = predict(model, batch.features)
                    total = merge_states(self.all_metrics(), total, self._of(batch.labels, predictions, batch.size))
        torch.set_rng_state(random_state)
        return total

    def values(self, states: dict[str, State]) -> dict[str, float]:
        return {name: metric.value(states[name]) for name, metric in self.all_metrics().items() if name in states}

    def spec(self, shard_size: int) -> DatasetSpec:
        parts = tuple(FilePart(name, 0, size) for name, size in self._reader.create_shards().items())
        return DatasetSpec(DATASET, shard_size, files=parts, type=ShardType.EVAL)

    def _of(self, labels: Any, predictions: Any, size: int) -> dict[str, State]:
        arrays = as_arrays(labels), as_arrays(predictions)
        states = {name: metric.state(*arrays) for name, metric in self.metrics.items()}
        if self._loss is not None:
            one = self._loss.state(None, [float(loss_of(self._file, labels, predictions))])
            states[LOSS] = {"sum": one["sum"] * size, "count": one["count"] * size}
        return states


class Rounds:
    """This worker in the rounds of its job. ``model_at(version)`` gives the model of a version, or None."""

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
        self._tried: tuple[int, float] = (-1, 0.0)  # version whose model could not be had, and when that was seen
        definition = pb.TrainingDefinition(
            evaluation=to_message(evaluator.spec(shard_size)), monitor=monitor, mode=mode
        )
        self._session.insist(self._session.master.stubs.training.Define, definition)

    def do_some(self) -> bool:
        """One shard, or the end of a round; False if there is nothing to do for now. Does not wait."""
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
        with hopeless(lambda: round_text(state.open_version)):
            states = pack_states(self._evaluator.states(self._model, shard))
            check_size(len(states), len(shard))
        shard.done(states)
        return True

    def lacks_model(self) -> float:
        """For how many seconds this worker could not get the model of the open round."""
        state = self._watch.state
        version, since = self._tried
        open_and_undone = bool(state.open_dataset) and not state.shards_done
        return time.monotonic() - since if open_and_undone and version == state.open_version else 0.0

    def give_up(self) -> None:
        version = self._watch.state.open_version
        request = pb.GiveUpRoundRequest(version=version, reason=f"{self._job.node} cannot read its model")
        self._session.insist(self._session.master.stubs.training.GiveUpRound, request)

    def close(self) -> None:
        self._leave()

    def _enter(self, version: int, dataset: str) -> bool:
        model = self._model_at(version)
        if model is None:
            if self._tried[0] != version:
                self._tried = (version, time.monotonic())
            return False
        self._tried = (-1, 0.0)
        self._model, self._dataset = model, dataset
        self._stream = self._job.shards(dataset, prefetch=1, acknowledge=False)
        return True

    def _leave(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, self._model, self._dataset = None, None, ""

    def _score(self, version: int) -> bool:
        """Compute the metrics of a round whose shards are all done, if nobody else does."""
        training = self._session.master.stubs.training
        name = self._session.name
        try:
            request = pb.ClaimRoundRequest(version=version, session=name)
            if not self._session.insist(training.ClaimRound, request).claimed:
                self._watch.refresh()
                return False
            notes = notes_of(self._session, f"{DATASET}@{version}")
            with hopeless(lambda: round_text(version)):
                metrics = self._evaluator.values(self._merged(notes))
            records = sum(note.end - note.start for note in notes)
            report = pb.ReportEvaluationRequest(version=version, metrics=metrics, records=records, session=name)
            self._session.insist(training.ReportEvaluation, report)
        except (Conflict, SessionExpired) as error:  # frozen meanwhile: another has it
            log.info("the evaluation of version %d is another's: %s", version, error.message)
            return False
        self._watch.refresh()
        return True

    def _merged(self, notes: list[pb.ShardNote]) -> dict[str, State]:
        """All states of a round, merged in the order of its shards."""
        total: dict[str, State] = {}
        for note in notes:
            total = merge_states(self._evaluator.all_metrics(), total, unpack_states(note.data))
        return total


def round_text(version: int) -> str:
    return f"the evaluation of version {version}"


def check_size(size: int, records: int) -> None:
    """Of the packed states of a shard."""
    if size > LARGEST:
        raise InvalidRequest(
            f"the states of the metrics of {records} records have {size:,} bytes; allowed for a shard: {LARGEST:,}",
            hint=f"--eval-shard-size {max(1, records * LARGEST // (2 * size))} (--shard-size of `pliant evaluate`) makes shards "
            "smaller; a pliant.native.Metric has a small state, a function is given all labels and predictions",
        )


def notes_of(session: Any, dataset: str) -> list[pb.ShardNote]:
    """Of the finished shards of a dataset, in order."""
    found: list[pb.ShardNote] = []
    while True:
        request = pb.NotesRequest(dataset=dataset, skip=len(found))
        reply = session.insist(session.master.stubs.shards.GetNotes, request)
        found.extend(reply.notes)
        if not reply.more:
            return found
