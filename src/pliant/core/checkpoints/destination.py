"""One place that checkpoints are written to, as far as the reports of nodes tell."""

from __future__ import annotations

from dataclasses import dataclass

BEFORE_TRAINING = -1  # as a step: the destination was tried, no checkpoint was taken


@dataclass(frozen=True, slots=True)
class Destination:
    """One directory. Times are seconds since the epoch; 0: never."""

    directory: str
    written: int = 0  # complete checkpoints
    last_step: int = 0  # of the newest complete one
    last_time: float = 0.0
    failures: int = 0  # checkpoints that could not be written, ever
    failures_in_a_row: int = 0
    failing_since: float = 0.0
    last_failure: float = 0.0
    failed_step: int = BEFORE_TRAINING  # the highest of the current streak
    first_reason: str = ""
    reason: str = ""  # the last one
    hint: str = ""
    node: str = ""  # that reported it
    counted_steps: tuple[int, ...] = ()

    @property
    def is_failing(self) -> bool:
        return self.failures_in_a_row > 0
