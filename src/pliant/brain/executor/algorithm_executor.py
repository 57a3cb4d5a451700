"""Runs chains of algorithms for any number of jobs, so that a bad algorithm harms nobody and is named.

An algorithm runs in a process of the executor (``pool.py``, ``process.py``, ``child.py``), with limits on time and memory. One
that hangs is killed at the limit, one that raises, dies or returns nonsense is passed over, and the rest of the chain is asked as
if it had seen nothing to change. Whoever fails several times in a row is set aside for a while (``circuit_breaker.py``).

Invariants, held by ``tests/brain/executor``:

- ``run`` returns, within the limits of the algorithms that it asks: whatever they do, it raises nothing of theirs.
- A returned proposal is sound for the history that was given (``core/planning/proposal_check.py``).
- The chain is asked as a job's planner asks it (``core/planning/chain_order.py``), no algorithm twice.
- An algorithm that is not built in never shares a process with another one.
- A cancelled run leaves nothing running; after ``close`` no process is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from types import TracebackType
from typing import Self

from pliant.brain.executor.circuit_breaker import CircuitBreaker
from pliant.brain.executor.frames import MAX_REQUEST_BYTES, frame
from pliant.brain.executor.pool import ProcessPool
from pliant.brain.executor.process import Answer
from pliant.brain.executor.results import AlgorithmRun, Execution, RunResult, SetAside
from pliant.core.errors import InvalidRequest
from pliant.core.planning.chain_order import questions
from pliant.core.planning.history import JobHistory
from pliant.core.planning.history_json import history_to_json
from pliant.core.planning.proposal import Proposal
from pliant.core.planning.proposal_check import problem_of
from pliant.core.planning.registry import BUILT_IN

IDLE_OF_TEAMS = 4  # processes that are kept for algorithms which are not built in


class AlgorithmExecutor:
    """All methods run in one event loop. The kernel ends its processes with the thread of that loop."""

    def __init__(
        self,
        workers: int = 1,
        time_limit_s: float = 10.0,
        memory_limit_mb: int = 1024,
        *,
        load_limit_s: float = 30.0,
        start_timeout_s: float = 60.0,
        max_failures: int = 3,
        set_aside_s: float = 60.0,
        max_set_aside_s: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``workers``: runs at the same time; others wait. Time and memory: of one algorithm, beyond what its modules need;
        ``load_limit_s``: to import these, once per process."""
        if workers < 1:
            raise InvalidRequest(f"an executor needs at least one worker, not {workers}")
        self._slots = asyncio.Semaphore(workers)
        self._time_limit_s = time_limit_s
        self._load_limit_s = load_limit_s
        self._clock = clock
        self._breaker = CircuitBreaker(max_failures=max_failures, first_s=set_aside_s, max_s=max_set_aside_s)
        self._pool = ProcessPool(
            memory_limit_mb=memory_limit_mb, max_idle=workers + IDLE_OF_TEAMS, start_timeout_s=start_timeout_s
        )

    async def run(
        self,
        algorithm_names: Sequence[str],
        history: JobHistory,
        now: float,
        *,
        job: str = "",
        is_urgent_only: bool = False,
        is_wanted: Callable[[Proposal], bool] = lambda proposal: True,
    ) -> Execution:
        """Ask a chain; returns the first proposal that is sound and wanted.

        ``job``: what fails only with the history of this one is set aside only for it. ``is_wanted``: a proposal that cannot be
        used now is passed over, and the next one heard. Raises ``InvalidRequest`` for a history that no algorithm could use,
        ``RetryableError`` if no process can be started or the executor is closed.
        """
        sent = _frame_of(history, now)
        async with self._slots:
            runs: list[AlgorithmRun] = []
            set_aside: dict[str, SetAside] = {}
            answers: dict[int, Proposal | None] = {}
            for question in questions(algorithm_names, is_urgent_only=is_urgent_only):
                position, name = question.position, question.algorithm
                if position not in answers:
                    answers[position] = None
                    if (waiting := self._set_aside(name, job)) is not None:
                        set_aside[name] = waiting
                    else:
                        run, answers[position] = await self._ask(name, history, sent, now)
                        self._learn(run, job)
                        runs.append(run)
                proposal = answers[position]
                if proposal is not None and question.hears(proposal) and is_wanted(proposal):
                    return Execution(proposal, tuple(runs), tuple(set_aside.values()))
            return Execution(None, tuple(runs), tuple(set_aside.values()))

    async def warm_up(self) -> None:
        """Start a process for built-in algorithms, so that the first run does not wait for it."""
        async with self._slots:
            self._pool.give_back(await self._pool.take(""))

    def pids(self) -> set[int]:
        """Of the processes that are there."""
        return self._pool.pids()

    async def close(self) -> None:
        """Runs that are under way raise ``RetryableError``. Returns when no process is left."""
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask(
        self, name: str, history: JobHistory, sent: bytes, now: float
    ) -> tuple[AlgorithmRun, Proposal | None]:
        process = await self._pool.take("" if name in BUILT_IN else name)
        began = time.monotonic()
        try:
            answer = await process.ask(
                name, sent, now, load_limit_s=self._load_limit_s, time_limit_s=self._time_limit_s
            )
        except BaseException:
            self._pool.discard(process)
            raise
        seconds = time.monotonic() - began
        self._pool.check_open()  # else it died of that
        if answer.is_reusable:
            self._pool.give_back(process)
        else:
            self._pool.discard(process)
        answer = _checked(answer, name, history)
        return AlgorithmRun(name, seconds, answer.result, answer.message, answer.traceback), answer.proposal

    def _set_aside(self, name: str, job: str) -> SetAside | None:
        at = self._clock()
        found = [each for key in _keys(name, job) if (each := self._breaker.set_aside(key, at)) is not None]
        return SetAside(name, *max(found)) if found else None

    def _learn(self, run: AlgorithmRun, job: str) -> None:
        for key in _keys(run.algorithm, job):
            if run.result.is_failure:
                self._breaker.failed(key, self._clock(), f"{run.result.value}: {run.message}".removesuffix(": "))
            else:
                self._breaker.succeeded(key)


def _keys(name: str, job: str) -> tuple[tuple[str, ...], ...]:
    return ((name,), (name, job)) if job else ((name,),)


def _checked(answer: Answer, name: str, history: JobHistory) -> Answer:
    if answer.proposal is None:
        return answer
    if problem := problem_of(answer.proposal, history):
        return replace(answer, result=RunResult.UNSOUND, message=problem, proposal=None)
    return replace(answer, proposal=replace(answer.proposal, algorithm=name))


def _frame_of(history: JobHistory, now: float) -> bytes:
    if not isfinite(now):
        raise InvalidRequest(f"the time cannot be {now}")
    try:
        sent = frame({"history": history_to_json(history)})
    except TypeError as error:
        raise InvalidRequest(f"the history cannot be used: {error}") from error
    if len(sent) > MAX_REQUEST_BYTES:
        raise InvalidRequest(f"the history has {len(sent)} bytes, at most {MAX_REQUEST_BYTES} are allowed")
    return sent
