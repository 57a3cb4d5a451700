"""Reports on their way into the database: whatever has gathered is written in one transaction (group commit), in a thread.

A report is answered when it is committed. If the database is away, those that wait are answered by that error, and their masters
send them again; a term that is over (``FencedOff``) ends this Brain's turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from pliant.brain.store.database import Database
from pliant.brain.store.errors import DatabaseFault, FencedOff
from pliant.brain.store.reports import Acknowledged, write_reports
from pliant.core.errors import BrainUnavailable, PliantError
from pliant.core.planning.cluster.report import JobReport

log = logging.getLogger(__name__)

MAX_BATCH = 200  # reports


@dataclass(slots=True)
class _Waiting:
    report: JobReport
    answer: asyncio.Future[Acknowledged] = field(default_factory=asyncio.Future)


class ReportWriter:
    def __init__(self, database: Database, term: Callable[[], int], clock: Callable[[], float]) -> None:
        self._database, self._term, self._clock = database, term, clock
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()
        self.written = 0  # reports
        self.transactions = 0
        self.fenced_off: Callable[[], None] = lambda: None

    async def write(self, report: JobReport) -> Acknowledged:
        waiting = _Waiting(report)
        self._waiting.append(waiting)
        self._wake.set()
        return await waiting.answer

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                await self._write(batch)

    async def _write(self, batch: list[_Waiting]) -> None:
        """A report that the database rejects is refused alone: those of other jobs are written without it."""
        reports = [waiting.report for waiting in batch]
        try:
            answers = await asyncio.to_thread(write_reports, self._database, reports, self._clock(), term=self._term())
        except FencedOff as error:
            self._refuse(batch, BrainUnavailable(error.message))
            self.fenced_off()
            return
        except DatabaseFault as error:
            if len(batch) > 1:
                for waiting in batch:
                    await self._write([waiting])
                return
            log.error("the report of job %s cannot be stored: %s", reports[0].job, error)
            self._refuse(batch, error)
            return
        except PliantError as error:
            self._refuse(batch, error)
            return
        except BaseException:
            self._refuse(batch, BrainUnavailable("the Brain is shutting down, or failed; see its log"))
            raise
        self.transactions += 1
        self.written += len(batch)
        for waiting, answer in zip(batch, answers, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(answer)

    @staticmethod
    def _refuse(batch: list[_Waiting], error: PliantError) -> None:
        for waiting in batch:
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
