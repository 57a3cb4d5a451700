"""Runs of a node's program, one after the other: start it, watch it, end it, and say why it ended.

``process`` is one process tree, ``exits`` judges what is left of it; who decides on the next run is the master (``app``).
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pliant.agent.exits import ExitReport, classify, read_tail
from pliant.agent.limits import NodeLimits
from pliant.agent.process import Program
from pliant.agent.rank_assignment import GroupSlot
from pliant.agent.stop_request import StopRequest
from pliant.agent.usage import MemoryWatchdog, Usage, UsageSampler, peak_of_children_mb
from pliant.agent.warm_standby import MIN_RUN_S, WarmStandby
from pliant.core.end_policy import SERVICE_ROLES
from pliant.core.errors import PermanentError, PliantError
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.permanent import PermanentKind
from pliant.core.planning.time_spent import TimeSpent
from pliant.files.time_meter import MeterPage, open_meter

log = logging.getLogger(__name__)

STANDBY_LOOK_S = 1.0  # between two looks whether a standby is to be prepared
CHECK_COMMAND = "check the command, its execute permission and the PATH of the job"


class ProgramRunner:
    def __init__(
        self,
        environment: NodeEnvironment,
        command: Sequence[str],
        log_file: Path,
        limits: NodeLimits,
        slot: GroupSlot,
        stop: StopRequest,
    ) -> None:
        self._environment = environment
        self._command = tuple(command)
        self._log_file = log_file
        self._limits = limits
        self._slot = slot
        self._stop = stop
        self.incarnation = 0
        self.program: Program | None = None  # None: none has been started since the last rank assignment
        self._sampler: UsageSampler | None = None
        self._meter: MeterPage | None = None  # of this run
        self._watchdog: MemoryWatchdog | None = None
        self._over_memory = ""
        self._peak_mb = 0.0  # of all runs: a replacement needs what any of them needed
        self._kill_reason = ""  # of the master
        keeps_standby = environment.warm_standby and environment.role not in SERVICE_ROLES
        self._standby = WarmStandby(self._command, log_file) if keeps_standby else None

    @property
    def pid(self) -> int:
        return self.program.pid if self.program is not None else 0

    @property
    def is_stopped(self) -> bool:
        """By SIGSTOP."""
        return self.program is not None and self.program.is_stopped

    @property
    def uses_assignment(self) -> bool:
        return self.program is not None and self._slot.is_used_by(self.program.pid)

    async def run(self, snapshot_dir: Path | None, on_started: Callable[[int], Awaitable[object]]) -> ExitReport:
        """One run. ``on_started`` is called with the pid while the program runs, and cancelled when it ends."""
        kills_before = self._limits.oom_kills()
        self._over_memory = self._kill_reason = ""
        if self._stop.is_requested:
            return ExitReport(ExitReason.PREEMPTED, "stopped before its program was started", "")
        self._meter = open_meter()
        try:
            return await self._run_metered(snapshot_dir, on_started, kills_before)
        finally:
            if self._meter is not None:
                self._meter.close()
            self._meter = None

    async def _run_metered(
        self, snapshot_dir: Path | None, on_started: Callable[[int], Awaitable[object]], kills_before: int
    ) -> ExitReport:
        try:
            program = self.program = await self._start(self._variables(snapshot_dir))
        except PermanentError as error:
            return ExitReport(
                ExitReason.ERROR,
                error.message,
                str(error),
                PermanentKind.COMMAND_NOT_FOUND,
                error.hint or CHECK_COMMAND,
            )
        except PliantError as error:
            return ExitReport(ExitReason.ERROR, error.message, str(error))
        self._sampler = UsageSampler(program.pid, self._limits.reader)
        self._watchdog = self._limits.make_watchdog(program.pid)
        started = asyncio.ensure_future(on_started(program.pid))
        preparing = asyncio.create_task(self._prepare_standby(snapshot_dir))
        try:
            await self._until_over(program)
            code = await program.wait()
        finally:
            started.cancel()
            preparing.cancel()
            await asyncio.gather(started, preparing, return_exceptions=True)
            self._sampler = self._watchdog = None
        self._peak_mb = max(self._peak_mb, peak_of_children_mb())
        limit = (
            self._limits.resources.memory_mb or math.inf
        )  # pages of shared files count for a process, not for its group
        report = self._report(code, program, self._limits.oom_kills() - kills_before)
        return replace(report, peak_mb=int(min(self._peak_mb, limit)))

    def sample(self) -> Usage | None:
        """What the program uses now; kills it if it exceeds a limit that the kernel does not enforce."""
        usage = self._sampler.sample() if self._sampler is not None else None
        self._peak_mb = max(self._peak_mb, usage.memory_mb if usage is not None else 0.0)
        self.watch_memory()
        return usage

    def watch_memory(self) -> None:
        """Kill the program if it exceeds a limit that the kernel does not enforce."""
        self._limits.refresh()
        if self._watchdog is not None:
            self._watchdog.limit_mb = self._limits.resources.memory_mb
        if self._watchdog is not None and self.program is not None and (problem := self._watchdog.check()) is not None:
            self._over_memory = problem
            self.program.signal_group(signal.SIGKILL)

    def time_spent(self) -> TimeSpent | None:
        """Where the time of the program went so far, as it counts itself; None: it does not run, or cannot count."""
        return self._meter.read() if self._meter is not None else None

    def kill(self, reason: str) -> None:
        """By order of the master. The program may be stopped or ignore signals, so only SIGKILL reaches it."""
        if self.program is None or self.program.returncode is not None:
            return
        if not self._kill_reason:
            log.info("%s: the master kills its program: %s", self._environment.node, reason)
        self._kill_reason = reason
        self.program.signal_group(signal.SIGKILL)

    async def end(self) -> None:
        """Kill what is left of the last run: what a program started must not outlive it."""
        if self.program is not None:
            await self.program.kill()

    async def end_standby(self) -> None:
        """The node ends, so nobody succeeds its program."""
        if self._standby is not None:
            await self._standby.end()

    async def until_recalled(self) -> None:
        """Until the program must end: the node stops, or its group restarts."""
        while not self._stop.is_requested and not self._slot.recall:
            await self._slot.news()

    # --- inside

    async def _start(self, env: dict[str, str]) -> Program:
        if self._standby is not None and (warm := self._standby.become(env, self._limits.procs_files)) is not None:
            return warm
        return await Program.start(self._command, env=env, log=self._log_file, attach_to=self._limits.procs_files)

    async def _prepare_standby(self, snapshot_dir: Path | None) -> None:
        """Once the program trains: before that it needs the processors itself."""
        if self._standby is None:
            return
        began = time.monotonic()
        while not self._stop.is_requested:
            await asyncio.sleep(STANDBY_LOOK_S)
            spent = self.time_spent()
            if (spent is not None and spent.began) or time.monotonic() - began > MIN_RUN_S:
                limit, used = self._limits.memory_limit_mb(), self._peak_mb
                await self._standby.prepare(self._variables(snapshot_dir), free_mb=limit - used if limit else math.inf)

    def _variables(self, snapshot_dir: Path | None) -> dict[str, str]:
        """``python`` means the Python that Pliant runs in, as in an activated environment."""
        path = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), os.environ.get("PATH"))))
        ranks = self._slot.environment(self._environment.job, self._environment.role)
        given = self._limits.resources
        own = replace(
            self._environment,
            incarnation=self.incarnation,
            snapshot_dir=snapshot_dir,
            cpu=given.cpu,
            memory_mb=given.memory_mb,
            meter=self._meter.path if self._meter is not None else "",
        )
        return {**os.environ, **ranks, **own.to_env(), "PATH": path}

    def _python(self) -> str:
        """The interpreter that runs the program, as far as its command says."""
        named = self._command[0] if self._command else ""
        path = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), os.environ.get("PATH"))))
        found = shutil.which(named, path=path) if Path(named).name.startswith("python") else None
        return found or sys.executable

    async def _until_over(self, program: Program) -> None:
        """Until the program ended, by itself or because the node stops or its group restarts."""
        ended = asyncio.create_task(program.wait())
        recalled = asyncio.create_task(self.until_recalled())
        try:
            await asyncio.wait({ended, recalled}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._slot.is_recalled = not self._stop.is_requested
                await program.stop(self._stop.grace)
        finally:
            for task in (ended, recalled):
                task.cancel()
            await asyncio.gather(ended, recalled, return_exceptions=True)

    def _report(self, code: int, program: Program, oom_kills: int) -> ExitReport:
        if self._slot.is_recalled:
            return ExitReport(ExitReason.KILLED, self._slot.recall, "")
        if self._kill_reason and not self._stop.is_requested:
            return ExitReport(ExitReason.KILLED, self._kill_reason, "")
        report = classify(
            code,
            terminating=self._stop.is_requested,
            oom_kills=oom_kills or bool(self._over_memory),
            log_tail=read_tail(self._log_file, program.log_offset),
            python=self._python(),
        )
        if report.exit_reason is ExitReason.COMPLETED and self._stop.is_preempted:
            return ExitReport(ExitReason.PREEMPTED, "preempted; the program ended in time", "")
        if self._over_memory:
            return ExitReport(ExitReason.OOM, self._over_memory, report.traceback)
        return report
