"""What follows when a checkpoint cannot be written: the job goes on with a warning, or it fails.

Three occasions ask the policy: a checkpoint failed, the job is about to succeed, and a destination was tried before training. It
decides from the streak of failures (``book``) and from how far the job got, and carries nothing out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pliant.core.checkpoints.destination import Destination
from pliant.core.nodes.permanent import JobProgress
from pliant.core.plurals import counted

DEFAULT_MAX_FAILURES = 3  # in a row


class OnCheckpointFailure(StrEnum):
    WARN = "warn"  # training continues, and every view of the job shows a warning
    FAIL = "fail"  # the job fails, after ``max_failures`` in a row or if the last one is missing


@dataclass(frozen=True, slots=True)
class CheckpointDecision:
    fails_job: bool
    reason: str  # for people: destination, error, and what to do


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    on_failure: OnCheckpointFailure = OnCheckpointFailure.WARN
    max_failures: int = DEFAULT_MAX_FAILURES

    def after_failure(self, failing: Destination) -> CheckpointDecision:
        """A checkpoint could not be written, again or for the first time."""
        count = failing.failures_in_a_row
        if self.on_failure is OnCheckpointFailure.FAIL and count >= self.max_failures:
            many = f"{counted(count, 'checkpoint')} in a row" if count > 1 else "a checkpoint"
            why = f"{many} could not be written to {failing.directory} (limit {self.max_failures}), last: {failing.reason}"
            return CheckpointDecision(True, _with_hint(why, failing.hint))
        return CheckpointDecision(False, warning(failing))

    def at_end(self, failing: Destination) -> CheckpointDecision:
        """The work is done, and the last checkpoint for this destination is not there."""
        why = f"the last checkpoint could not be written to {failing.directory}: {failing.reason}; {newest(failing)}"
        return CheckpointDecision(self.on_failure is OnCheckpointFailure.FAIL, _with_hint(why, failing.hint))

    def before_training(self, tried: Destination, progress: JobProgress) -> CheckpointDecision:
        """A node cannot write there. Before any progress that ends the job: nothing is lost yet, and somebody is likely to look.
        Later it is one failure among others, since those who train already may be able to."""
        if progress is not JobProgress.TRAINED:
            why = f"checkpoints cannot be written to {tried.directory}: {tried.reason}"
            return CheckpointDecision(True, _with_hint(why, tried.hint))
        return self.after_failure(tried)


def warning(failing: Destination) -> str:
    """The warning for as long as it lasts; the same text throughout, so that it is said once."""
    why = f"checkpoints cannot be written to {failing.directory}: {failing.first_reason}; {newest(failing)}"
    return _with_hint(why, failing.hint)


def newest(failing: Destination) -> str:
    return f"the newest there is that of step {failing.last_step}" if failing.last_time else "there is none so far"


def _with_hint(text: str, hint: str) -> str:
    return f"{text}; what to do: {hint}" if hint else text
