"""The checkpoint monitor: the shell around ``core.checkpoints``, which notes what nodes report and carries the policy out.

Of a streak of failures the first is an event, then the second, the fourth, the eighth and so on, so that hours of them stay
readable; the exact count is in the status.
"""

from __future__ import annotations

from collections.abc import Callable

from pliant.core.checkpoints.book import CheckpointBook
from pliant.core.checkpoints.destination import BEFORE_TRAINING, Destination
from pliant.core.checkpoints.policy import CheckpointDecision
from pliant.core.clock import Clock
from pliant.core.events import CheckpointFailed, CheckpointsRecovered, DestinationUnusable
from pliant.core.nodes.permanent import JobProgress
from pliant.master.components.base import Component
from pliant.master.components.signals import CheckpointReported, EndRequested, Signal, SignalBus
from pliant.master.journal.journal import Journal


class CheckpointMonitor(Component):
    name = "checkpoints"
    title = "checkpoint monitor"

    def __init__(
        self,
        book: CheckpointBook,
        journal: Journal,
        clock: Clock,
        signals: SignalBus,
        *,
        progress: Callable[[], JobProgress],
    ) -> None:
        """``progress``: how far the job is."""
        self._book = book
        self._journal = journal
        self._clock = clock
        self._signals = signals
        self._progress = progress

    def on_event(self, signal: Signal) -> None:
        if isinstance(signal, CheckpointReported):
            self.report(signal)

    def report(self, report: CheckpointReported) -> None:
        if report.problem:
            self._failed(report)
        elif not self._book.is_newest(report.directory, report.step):
            self._completed(report.directory, report.step)

    def unusable(self, node: str, directory: str, problem: str, hint: str) -> bool:
        """A node tried a destination before it trains, in vain; whether it may train all the same."""
        progress = self._progress()
        self._journal.event(DestinationUnusable(node=node, directory=directory, reason=problem, hint=hint))
        if progress is not JobProgress.TRAINED:
            tried = Destination(directory, reason=problem, first_reason=problem, hint=hint, node=node)
            return not self._book.policy.before_training(tried, progress).fails_job
        failing = self._journal.do(
            self._book.failed, directory=directory, step=BEFORE_TRAINING, node=node, reason=problem, hint=hint
        )
        if failing is not None:
            self._carry_out(self._book.policy.before_training(failing, progress))
        return True

    def _failed(self, report: CheckpointReported) -> None:
        if self._book.is_known_failure(report.directory, report.step):
            return
        failing = self._journal.do(
            self._book.failed,
            directory=report.directory,
            step=report.step,
            node=report.node,
            reason=report.problem,
            hint=report.hint,
        )
        assert failing is not None
        if _is_power_of_two(failing.failures_in_a_row):
            self._journal.event(
                CheckpointFailed(
                    node=report.node,
                    directory=report.directory,
                    step=report.step,
                    failures=failing.failures_in_a_row,
                    since=failing.failing_since,
                    reason=report.problem,
                    hint=report.hint,
                )
            )
        self._carry_out(self._book.policy.after_failure(failing))

    def _completed(self, directory: str, step: int) -> None:
        ended = self._journal.do(self._book.completed, directory=directory, step=step)
        if ended is not None:
            seconds = max(0.0, self._clock.now() - ended.failing_since)
            self._journal.event(
                CheckpointsRecovered(
                    directory=directory,
                    step=step,
                    failures=ended.failures_in_a_row,
                    seconds=seconds,
                    reason=ended.reason,
                )
            )

    def _carry_out(self, decision: CheckpointDecision) -> None:
        if decision.fails_job:
            self._signals.publish(EndRequested(decision.reason, failed=True))


def _is_power_of_two(count: int) -> bool:
    return count & (count - 1) == 0
