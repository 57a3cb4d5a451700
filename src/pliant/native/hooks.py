"""Between the training loop of a strategy and everything around it: callbacks, evaluation, progress, the end.

All of it happens in the loop's own thread, between two steps, so nothing interrupts a step, and random numbers stay reproducible.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from pliant.client.job import Job
from pliant.native.callbacks import StopTraining
from pliant.native.evaluation.eval_rounds import EvaluationRounds
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.description import Evaluation
from pliant.native.training_watch import TrainingWatch
from pliant.rpc import pliant_pb2 as pb

log = logging.getLogger(__name__)

COMMIT_INTERVAL_S = 0.2  # progress is reported no more often, except for the end


class Hooks:
    def __init__(self, job: Job, watch: TrainingWatch, file: ModelFile, evaluation: Evaluation | None) -> None:
        """``evaluation`` is None where there is no data for it."""
        self._job = job
        self._session = job.session()
        self.watch = watch
        self._file = file
        self._callbacks = file.make_callbacks()
        self._evaluation = evaluation
        self.rounds: EvaluationRounds | None = None
        self._seen: set[int] = set()  # versions whose evaluation was reported to the callbacks
        self._evaluated_at = time.monotonic()
        self._due = -1  # the newest version that is known to be evaluated
        self._committed = 0
        self._committed_at = 0.0
        self._call: Any = None

    # --- for strategies

    @property
    def stop_reason(self) -> str:
        """Why training should end early; empty while it continues."""
        return str(self.watch.state.stop_reason)

    def begin(self, model: Any) -> None:
        self._call_all("on_train_begin", model)
        self.report_results()

    def after_step(self, version: int, loss: float, *, epoch: int, ends_epoch: bool) -> None:
        self._call_all("on_step_end", version, loss)
        if ends_epoch:
            self._call_all("on_epoch_end", epoch)
        self._between()

    def after_epoch(self, epoch: int) -> None:
        """For a strategy where no step of a worker is the last of an epoch."""
        self._call_all("on_epoch_end", epoch)
        self._between()

    def _between(self) -> None:
        self.report_results()
        if self.rounds is not None:
            self.rounds.work()

    def is_due(self, version: int, *, epoch: int, ends_epoch: bool) -> bool:
        """Whether this version is to be evaluated by its step or epoch, which every worker knows."""
        when = self._evaluation
        if when is None:
            return False
        by_steps = when.every_steps > 0 and version % when.every_steps == 0
        return by_steps or (ends_epoch and when.every_epochs > 0 and (epoch + 1) % when.every_epochs == 0)

    def is_time(self) -> bool:
        """Whether an evaluation is due by the clock; for the one worker that decides it."""
        when = self._evaluation
        if when is None or not when.every_seconds:
            return False
        if (due := self.watch.state.due) != self._due:  # reported by whoever
            self._due, self._evaluated_at = due, time.monotonic()
        return time.monotonic() - self._evaluated_at >= when.every_seconds

    def report(self, version: int, *, evaluate: bool) -> bool:
        """Report a version whose model can be loaded; returns whether it will be evaluated."""
        self._evaluated_at = time.monotonic()
        request = pb.ReportVersionRequest(version=version, node=self._job.node, evaluate=evaluate)
        queued = self._session.call_with_retry(self._session.master.stubs.training.ReportVersion, request).queued
        self.watch.refresh()
        return bool(queued)

    @property
    def evaluates(self) -> bool:
        return self._evaluation is not None

    def commit(self, dataset: str, steps: int, *, end: bool = False) -> None:
        """Report committed steps of the plan. ``end``: no more follow; waits for the master's answer."""
        now = time.monotonic()
        request = pb.CommitPlanRequest(dataset=dataset, shards=steps, node=self._job.node, end=end)
        method = self._session.master.stubs.shards.CommitPlan
        if end:
            self._session.call_with_retry(method, request)
        elif steps > self._committed and now - self._committed_at >= COMMIT_INTERVAL_S:
            self._committed, self._committed_at = steps, now
            self._call = self._session.start(method, request, timeout=5.0)  # gRPC cancels a call without references

    def end(self, directory: str) -> None:
        """The model was exported by this worker."""
        for callback in self._callbacks:
            method: Callable[..., Any] | None = getattr(callback, "on_train_end", None)
            if method is not None:
                method(directory)

    def report_results(self) -> None:
        """Tell the callbacks of evaluations that are new to this worker."""
        for result in self.watch.state.results:
            if result.version not in self._seen:
                self._seen.add(result.version)
                self._call_all("on_evaluation", result.version, dict(result.metrics))

    # --- inside

    def _call_all(self, name: str, *args: Any) -> None:
        for callback in self._callbacks:
            method: Callable[..., Any] | None = getattr(callback, name, None)
            if method is None:
                continue
            try:
                answer = method(*args)
            except StopTraining as asked:
                answer = asked
            if isinstance(answer, StopTraining) or answer is StopTraining:
                self._stop(str(answer) if isinstance(answer, StopTraining) else "")

    def _stop(self, reason: str) -> None:
        if not self.stop_reason:
            request = pb.StopRequest(reason=reason or "requested by a callback")
            self._session.call_with_retry(self._session.master.stubs.training.StopTraining, request)
            self.watch.refresh()
