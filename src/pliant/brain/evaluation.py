"""Judging an algorithm by recorded jobs (``core/planning/evaluation.py``) in processes of an executor: a bad one is only counted.

What fails counts by how it failed. An algorithm that the executor has set aside is not asked any more, which counts as
``set-aside``: with a hanging one, an evaluation ends after a few time limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pliant.brain.executor.algorithm_executor import AlgorithmExecutor
from pliant.brain.executor.results import AlgorithmRun
from pliant.core.decoding import plain
from pliant.core.planning.evaluation import Answer, Evaluation, JobRow, judged, summed_up
from pliant.core.planning.replay import Moment, RecordedJob, moments


@dataclass(frozen=True, slots=True)
class FailedRun:
    """The first one of its kind."""

    job: str  # empty: it could not be loaded
    period: int
    result: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class JudgedAlgorithm:
    evaluation: Evaluation | None  # None: it ended with a failure, in this process
    skipped: int  # jobs without a period that was measured
    failures: tuple[FailedRun, ...]

    @property
    def has_failed(self) -> bool:
        return bool(self.failures)

    def to_json(self) -> dict[str, Any]:
        found = self.evaluation.to_json() if self.evaluation is not None else None
        return {"evaluation": found, "skipped": self.skipped, "failed_runs": plain(self.failures)}


async def evaluate_isolated(
    executor: AlgorithmExecutor,
    algorithm: str,
    jobs: Iterable[RecordedJob],
    on_failure: Callable[[RecordedJob, Moment, AlgorithmRun], None] = lambda job, moment, run: None,
) -> Evaluation:
    """``on_failure`` is told of every run that failed."""

    async def asked(job: RecordedJob, moment: Moment) -> Answer:
        found = await executor.run([algorithm], moment.history, moment.now)
        if found.set_aside:
            return Answer(failure="set-aside")
        [run] = found.runs
        if run.result.is_failure:
            on_failure(job, moment, run)
        return Answer(found.proposal, run.result.value if run.result.is_failure else "")

    rows: list[JobRow] = []
    for job in jobs:
        seen = list(moments(job))
        rows.append(judged(job, seen, [await asked(job, each) for each in seen]))
    return summed_up(algorithm, rows)
