"""Judging an algorithm by recorded jobs (``core/planning/evaluation.py``) in processes of an executor: a bad one is only counted.

What fails counts by how it failed. An algorithm that the executor has set aside is not asked any more, which counts as
``set-aside``: with a hanging one, an evaluation ends after a few time limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pliant.brain.executor.algorithm_executor import AlgorithmExecutor
from pliant.brain.executor.results import AlgorithmRun
from pliant.core.planning.evaluation import Answer, Evaluation, JobRow, judged, summed_up
from pliant.core.planning.replay import Moment, RecordedJob, moments


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
