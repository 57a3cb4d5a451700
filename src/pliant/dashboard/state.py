"""What a running dashboard has: its options, its jobs, the subjects that are followed, its threads and sessions."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from pliant.core.errors import PliantError
from pliant.dashboard.security.sessions import Sessions
from pliant.dashboard.threads import DaemonThreads, TooBusy
from pliant.dashboard.watching.job_source import JobSource
from pliant.dashboard.watching.job_subject import JobSubject
from pliant.dashboard.watching.jobs_subject import JobsSubject

CLOSE_TIMEOUT_S = 0.3
MAX_SUBJECTS = 64  # jobs that are followed at a time
MAX_SEARCHES = 2  # in output, at a time


@dataclass(frozen=True)
class Options:
    allow_control: bool = False
    only_job: str = ""  # its id; empty: all jobs
    user: str = ""


class DashboardState:
    def __init__(self, source: JobSource, options: Options, sessions: Sessions | None = None) -> None:
        self.source = source
        self.options = options
        self.sessions = sessions or Sessions()
        self.threads = DaemonThreads()
        self.jobs = JobsSubject(self.threads, source)
        self.stopping = asyncio.Event()
        self.streams = 0
        self.searching = asyncio.Semaphore(MAX_SEARCHES)
        self._subjects: dict[str, JobSubject] = {}

    async def job(self, job_id: str) -> JobSubject:
        """The subject of a job that is there now."""
        known = self._subjects.get(job_id)
        if known is not None and known.gone is None and known.is_viewed:
            return known
        handle = await self.threads.run(lambda: self.source.find(job_id))
        known = self._subjects.get(job_id)  # another request may have made it meanwhile
        if known is not None and known.gone is None and known.handle is handle:
            return known
        await self._forget()
        if len(self._subjects) >= MAX_SUBJECTS:
            raise TooBusy(f"{MAX_SUBJECTS} jobs are being followed", hint="close some tabs")
        subject = self._subjects[job_id] = JobSubject(self.threads, job_id, handle)
        return subject

    async def _forget(self) -> None:
        idle = [job_id for job_id, subject in self._subjects.items() if not subject.is_viewed]
        forgotten = [job_id for job_id in idle if self._subjects[job_id].is_forgotten or self._subjects[job_id].gone]
        crowded = len(self._subjects) - MAX_SUBJECTS + 1
        for job_id in forgotten or idle[: max(0, crowded)]:
            await self._subjects.pop(job_id).close()

    def stop(self) -> None:
        """Streams end by themselves."""
        self.stopping.set()
        self.jobs.notify()
        for subject in self._subjects.values():
            subject.notify()

    async def close(self) -> None:
        await self.jobs.close()
        for subject in self._subjects.values():
            await subject.close()
        with contextlib.suppress(TimeoutError, PliantError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.threads.run(self.source.close)
