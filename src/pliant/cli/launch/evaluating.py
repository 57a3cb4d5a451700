"""Judging an algorithm by recorded jobs, for ``pliant brain evaluate``: in processes of an executor, or in this one.

The algorithm is somebody's own code that may fail in any way: how it does is part of the result, with the traceback.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pliant.brain.evaluation import FailedRun, JudgedAlgorithm, evaluate_isolated
from pliant.brain.executor.algorithm_executor import AlgorithmExecutor
from pliant.brain.executor.results import AlgorithmRun, RunResult
from pliant.core.errors import NotFound, PliantError
from pliant.core.planning.evaluation import evaluate
from pliant.core.planning.registry import algorithm, algorithm_names
from pliant.core.planning.replay import Moment, RecordedJob

MAX_FAILURES = 5  # that are shown: different ones
MEMORY_MB = 1024
LOAD_S = 120.0  # to import it
START_S = 240.0


def check_name(name: str) -> None:
    """One with a colon is only known when it is loaded."""
    if ":" not in name and name not in algorithm_names():
        known = ", ".join(algorithm_names())
        raise NotFound(f"unknown algorithm {name!r}", hint=f"known: {known}; or write package.module:Class")


def evaluate_jobs(
    name: str, jobs: Sequence[RecordedJob], skipped: int, *, is_isolated: bool, time_limit_s: float
) -> JudgedAlgorithm:
    with _this_folder_on_the_path():
        if is_isolated:
            return asyncio.run(_isolated(name, jobs, skipped, time_limit_s))
        return _here(name, jobs, skipped)


async def _isolated(name: str, jobs: Sequence[RecordedJob], skipped: int, time_limit_s: float) -> JudgedAlgorithm:
    failures: dict[tuple[str, str], FailedRun] = {}

    def failed(job: RecordedJob, moment: Moment, run: AlgorithmRun) -> None:
        found = FailedRun(job.name, moment.period, run.result.value, run.message, run.traceback)
        failures.setdefault((found.result, found.message), found)

    executor = AlgorithmExecutor(
        time_limit_s=time_limit_s, memory_limit_mb=MEMORY_MB, load_limit_s=LOAD_S, start_timeout_s=START_S
    )
    async with executor:
        found = await evaluate_isolated(executor, name, jobs, failed)
    return JudgedAlgorithm(found, skipped, tuple(failures.values())[:MAX_FAILURES])


def _here(name: str, jobs: Sequence[RecordedJob], skipped: int) -> JudgedAlgorithm:
    asked: list[tuple[str, int]] = []  # the last one that it was asked of

    try:
        loaded = algorithm(name)
        found = evaluate(_Noting(name, loaded, asked), _noted(jobs, asked))
    except PliantError:
        raise
    except Exception as error:  # noqa: BLE001  # the border of the algorithm: whatever it raises ends here
        job, period = asked[-1] if asked else ("", 0)
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        trace = "".join(traceback.format_exception(error))
        return JudgedAlgorithm(None, skipped, (FailedRun(job, period, RunResult.RAISED.value, text, trace),))
    unsound = sum(found.failures.values())
    message = f"{unsound} proposals make no sense for the job"
    failures = (FailedRun("", 0, RunResult.UNSOUND.value, message, ""),) if unsound else ()
    return JudgedAlgorithm(found, skipped, failures)


@dataclass(frozen=True)
class _Noting:
    """An algorithm that remembers what it is asked of."""

    name: str
    asks: Any
    asked: list[tuple[str, int]]

    def __call__(self, history: Any, now: float) -> Any:
        job, _ = self.asked[-1]
        self.asked[-1] = (job, len(history.periods) - 1)
        return self.asks(history, now)


def _noted(jobs: Sequence[RecordedJob], asked: list[tuple[str, int]]) -> Iterator[RecordedJob]:
    for job in jobs:
        asked[:] = [(job.name, 0)]
        yield job


@contextmanager
def _this_folder_on_the_path() -> Iterator[None]:
    """A console script has its own folder there instead. Processes of the executor get the same path."""
    before = list(sys.path)
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = before
