"""What a Trainer's workers report of their loop: committed steps of how many, records, epochs, loss.

All of it follows from the number of committed steps and from the loss, which travels with each step's collective as it is, so
every worker knows the same and reports it for free; whoever is alive keeps the job's progress current. Only the records that a
worker itself computed are its own. Steps are counted over all loops, as checkpoints count them; the total is that of the loops
so far, since nobody knows of loops to come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pliant.client.job import Job
from pliant.core.progress import LOSS, TrainingProgress
from pliant.torch.plan import StepPlan
from pliant.torch.position import Position


class LoopProgress:
    def __init__(self, position: Position) -> None:
        self._position = position
        self._job: Job | None = None
        self._plan: StepPlan | None = None
        self._loop = 0
        self._limit = 0  # steps of this loop
        self._records_before = 0  # of the loops before

    def report_to(self, job: Job) -> None:
        self._job = job if job.elastic else None

    def begin_loop(self, plan: StepPlan, loop: int, limit: int) -> None:
        self._plan, self._loop, self._limit = plan, loop, limit

    def committed(self, step: int, units: Collection[int]) -> None:
        """A step was committed, for which this worker computed these units."""
        if self._job is not None and self._plan is not None:
            own = sum(self._plan.unit_size(step, unit) for unit in units)
            self._job.report_progress(self._now(self._position.step, self._limit), own)

    def report(self, metrics: Mapping[str, float]) -> None:
        """The user's own metrics, at the step that was committed last."""
        if self._job is not None and self._plan is not None:
            progress = self._now(self._position.step, self._limit)
            self._job.report_progress(replace(progress, metrics={**progress.metrics, **metrics}))

    def end_loop(self) -> None:
        """The loop is over, perhaps earlier than planned, or was when this program started."""
        if self._plan is None:
            return
        position = self._position
        is_current = position.loop == self._loop
        steps = position.step if is_current else self._limit
        if self._job is not None and (is_current or (position.loop == self._loop + 1 and not position.step)):
            self._job.report_progress(self._now(steps, steps))
        self._records_before += self._plan.records_of(steps)
        self._plan = None

    def _now(self, steps: int, limit: int) -> TrainingProgress:
        assert self._plan is not None
        position, plan = self._position, self._plan
        total = position.total - position.step + limit if position.loop == self._loop else position.total
        return TrainingProgress(
            step=position.total,
            total_steps=max(total, position.total),
            epoch=steps // plan.steps_per_epoch if plan.steps_per_epoch else 0,
            records_done=self._records_before + plan.records_of(steps),
            records_total=self._records_before + plan.records_of(limit),
            metrics={LOSS: position.loss} if position.total else {},
        )
