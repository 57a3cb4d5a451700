"""A job that was submitted, as people steer it from Python: the methods of a ``JobHandle`` with waiting, a result and a face.

It holds no part of the job: whoever has its name makes another one with ``pliant.attach``, and the job runs on when this process
dies.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from pliant.api.functions.payload import FILE_NAME
from pliant.api.live_view import LiveView, is_notebook
from pliant.core.errors import (
    Conflict,
    InvalidRequest,
    JobFailed,
    NotAvailable,
    NotFound,
    PliantError,
    WaitTimeout,
)
from pliant.core.job import Phase
from pliant.core.printable import escaped_output
from pliant.core.resources import RolloutMode
from pliant.handles.job_handle import JobHandle, RoleChange, RoleChanged, resource_amounts
from pliant.handles.local import LocalJob
from pliant.handles.log_lines import LogLine, log_lines
from pliant.handles.supervision import Supervision

if TYPE_CHECKING:
    from pathlib import Path

    from pliant.api.functions.results import ResultFile
    from pliant.core.events import EventRecord
    from pliant.core.planning.reports import JobExplanation, JobPlans
    from pliant.core.status import JobStatus
    from pliant.core.summary import JobSummary

STOP_TIMEOUT_S = 300.0
EVENTS_PER_CALL = 1000
FAILED_PHASES = frozenset({Phase.FAILED, Phase.INVALID, Phase.INTERRUPTED})


class SubmittedJob:
    """One job, wherever it runs.

    job = pliant.submit(train, workers="1:4")
    job.wait()
    print(job.result())
    """

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle

    @property
    def name(self) -> str:
        return self._handle.name

    @property
    def where(self) -> str:
        """For people: the job's folder, or its namespace."""
        return self._handle.where

    @property
    def folder(self) -> Path | None:
        """With its logs, checkpoints and results; None for a job on Kubernetes."""
        return self._handle.home.path if isinstance(self._handle, LocalJob) else None

    def status(self) -> JobStatus:
        """How it is doing: ``job.status().phase``, ``.progress``, ``.nodes``, ``.eta``, …"""
        return self._handle.view().status

    def is_over(self) -> bool:
        """Whether it has ended, and nothing of it is running any more."""
        return self._handle.is_over()

    def logs(
        self,
        *,
        follow: bool = False,
        nodes: str | Sequence[str] = (),
        tail: int | None = None,
        file: TextIO | None = None,
    ) -> None:
        """Print what the programs wrote, each line with its node's name. ``follow``: until the job ends. ``nodes``: these alone,
        such as ``"worker-0"`` or ``"master"``. ``tail``: start with the last lines of each.

            job.logs(follow=True)
        """
        output = file if file is not None else sys.stdout
        try:
            for line in self.log_lines(follow=follow, nodes=nodes, tail=tail):
                output.write(f"{line.node} | {escaped_output(line.text)}\n")
        except KeyboardInterrupt:
            raise self._interrupted() from None

    def log_lines(
        self, *, follow: bool = False, nodes: str | Sequence[str] = (), tail: int | None = None
    ) -> Iterator[LogLine]:
        """The same for programs: lines with ``node`` and ``text``, as they were written."""
        wanted = [nodes] if isinstance(nodes, str) else list(nodes)
        return log_lines(self._handle, nodes=wanted, tail=tail, follow=follow)

    def events(self, *, after: int = 0) -> list[EventRecord]:
        """What happened to it, oldest first: ``number``, ``kind``, ``node``, ``message``. ``after``: only with higher numbers."""
        found: list[EventRecord] = []
        while page := self._handle.events(found[-1].number if found else after, EVENTS_PER_CALL):
            found += page
        return found

    def plans(self) -> JobPlans:
        """What the job's planner did, and what came of it; see docs/automatic-resources.md."""
        return self._handle.plans()

    def explain(self) -> JobExplanation:
        """Why it has the resources that it has."""
        return self._handle.explain()

    def scale(
        self,
        workers: int | None = None,
        *,
        role: str = "worker",
        cpu: float | str | None = None,
        memory: str | None = None,
        gpu: int | None = None,
        reason: str = "requested from Python",
    ) -> RoleChanged:
        """Set the number of workers, or what each of them has, or both. ``role``: of other nodes than workers.

        job.scale(workers=3)
        job.scale(memory="8Gi")
        """
        given = {"cpu": cpu, "memory": memory, "gpu": gpu}
        amounts = {name: amount for name, amount in given.items() if amount is not None}
        if workers is None and not amounts:
            raise InvalidRequest("nothing to change is given", hint='for example: job.scale(workers=3) or memory="8Gi"')
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 0):
            raise InvalidRequest(
                f"workers is {workers!r}, not a number of nodes", hint="for example: job.scale(workers=3)"
            )
        change = RoleChange(role, workers, **(resource_amounts(amounts) if amounts else {}), rollout=RolloutMode.AUTO)
        return self._handle.scale([change], reason)[0]

    def stop(
        self, *, now: bool = False, reason: str = "stopped from Python", timeout: float = STOP_TIMEOUT_S
    ) -> JobSummary:
        """Stop it, wait until it is over and return its summary. ``now``: kill its programs without their time of grace."""
        if self.folder is not None and not self.folder.exists():
            raise NotFound(
                f"job {self.name} was removed: {self.folder} does not exist", hint="list jobs with pliant.jobs()"
            )
        return self._handle.stop(now=now, reason=reason, deadline=time.monotonic() + timeout)

    def wait(self, timeout: float | None = None, *, progress: bool | None = None) -> JobSummary:
        """Wait until it is over, and return its summary. An interrupt (Ctrl-C, the stop button of a notebook) ends the waiting,
        not the job. ``progress``: show it meanwhile; by default in a notebook.

        Raises ``JobFailed`` with the node that failed first and its traceback, ``WaitTimeout`` (a ``TimeoutError``) after
        ``timeout`` seconds. A job that was stopped is returned: look at ``summary.phase``.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        view = LiveView(self, is_shown=is_notebook() if progress is None else progress and is_notebook())
        watch = self._watch()
        try:
            while watch.running():
                if deadline is not None and time.monotonic() > deadline:
                    raise self._too_late(timeout)
                view.refresh()
                left = self._poll_interval if deadline is None else deadline - time.monotonic()
                time.sleep(max(0.0, min(self._poll_interval, left)))
        except KeyboardInterrupt:
            raise self._interrupted() from None
        view.refresh(last=True)
        return self._ended()

    def result(self, timeout: float | None = None, *, allow_pickle: bool = False) -> Any:
        """What the function returned, after waiting for the job's end: of the worker with the lowest number among those that
        returned (``results`` has all of them). None for a script or a command.

        Numbers, text, lists, tuples, dicts, bytes, tensors and arrays are kept as they are, without pickle. Anything else is kept
        as a pickle, which ``allow_pickle=True`` loads: only for a job of your own, since loading runs code.
        """
        self._check_succeeded(timeout)
        if not self._is_function():
            return None
        files = self._result_files()
        if not files:
            raise NotFound(
                f"job {self.name} has no result: no worker returned from its function",
                hint=f"the function may have ended by sys.exit(); `pliant logs {self._handle.argument}` shows its output",
            )
        return self._read(files[0], allow_pickle)

    def results(self, timeout: float | None = None, *, allow_pickle: bool = False) -> dict[str, Any]:
        """What the function returned on each worker that returned, by its name."""
        self._check_succeeded(timeout)
        if not self._is_function():
            return {}
        return {file.node: self._read(file, allow_pickle) for file in self._result_files()}

    def __await__(self) -> Generator[Any, None, Any]:
        """``await job`` is ``job.result()`` without blocking the event loop. Cancelling it leaves the job running."""
        return self._await().__await__()

    async def _await(self) -> Any:
        watch = self._watch()
        while await asyncio.to_thread(watch.running):
            await asyncio.sleep(self._poll_interval)
        return await asyncio.to_thread(self.result)

    def __repr__(self) -> str:
        try:
            status = self._handle.peek().status
        except (PliantError, OSError) as error:
            return f"<job {self.name}: {type(error).__name__}>"
        percent = status.progress.percent
        done = f", {percent:.0f} %" if percent is not None else ""
        return f"<job {self.name}: {status.phase.value}{done}>"

    def _repr_html_(self) -> str:
        from pliant.api.notebook_html import job_html

        view = self._handle.peek()
        return job_html(view.status, view.note)

    # --- waiting

    @property
    def _poll_interval(self) -> float:
        return self._handle.refresh_interval_s

    def _watch(self) -> Watch:
        return Supervision(self._handle) if isinstance(self._handle, LocalJob) else _ClusterWatch(self._handle)

    def _too_late(self, timeout: float | None) -> WaitTimeout:
        phase = self._handle.peek().phase.value
        return WaitTimeout(
            f"job {self.name} has not ended within {timeout:g} s: it is {phase}", hint="wait again, or stop it"
        )

    def _interrupted(self) -> KeyboardInterrupt:
        return KeyboardInterrupt(
            f"job {self.name} is still running; job.stop() stops it, job.wait() waits again,"
            f" pliant.attach({self._handle.argument!r}) finds it from elsewhere"
        )

    def _ended(self) -> JobSummary:
        summary = self._handle.summary()
        if summary is None:
            raise JobFailed(
                f"job {self.name} ended without a summary", hint=f"check `pliant logs {self._handle.argument} --master`"
            )
        if summary.phase in FAILED_PHASES:
            raise failure_of(summary)
        return summary

    def _check_succeeded(self, timeout: float | None) -> None:
        summary = self.wait(timeout)
        if summary.phase is not Phase.SUCCEEDED:
            raise Conflict(
                f"job {self.name} has no result: {summary.phase.value.lower()}, {summary.reason}",
                hint=f"`pliant resume {self._handle.argument}` continues it",
            )

    # --- its result

    def _is_function(self) -> bool:
        if isinstance(self._handle, LocalJob):
            return (self._handle.home.path / FILE_NAME).exists()
        raise NotAvailable(
            f"results of job {self.name} are not kept: on Kubernetes its workers share no folder with this machine",
            hint="have the function write to storage that both can read",
        )

    def _result_files(self) -> list[ResultFile]:
        from pliant.api.functions.results import results_in

        assert self.folder is not None
        return results_in(self.folder)

    @staticmethod
    def _read(file: ResultFile, allow_pickle: bool) -> Any:
        from pliant.api.functions.results import read

        return read(file, allow_pickle=allow_pickle)


def failure_of(summary: JobSummary) -> JobFailed:
    failure, reason = summary.status.first_failure, summary.reason
    if failure is None or not failure.node:
        return JobFailed(f"job {summary.name} ended as {summary.phase.value}: {reason}")
    hint = failure.hint or f"its whole output is in {failure.log}"
    message = f"job {summary.name} failed: {reason}; first {failure.node}: {failure.message}"
    return JobFailed(message, hint=hint, node=failure.node, traceback=failure.traceback)


class _ClusterWatch:
    """The platform keeps its master alive; only a spec that cannot be carried out ends the waiting."""

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle

    def running(self) -> bool:
        if self._handle.is_over():
            return False
        view = self._handle.peek()
        if view.phase is Phase.INVALID:
            raise JobFailed(
                f"job {self._handle.name} cannot run: {view.status.message or view.status.reason}",
                hint="submit it again with another specification",
            )
        return True


Watch = Supervision | _ClusterWatch
