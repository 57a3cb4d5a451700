"""The agent's conversation with its master: registration, heartbeats, and reports that must arrive.

While the master is away the program keeps running. An agent without an answer for ``orphan_timeout`` gives its node up;
on one machine it first tries to have the master started again.
"""

from __future__ import annotations

import logging
import math
import os
import random
import socket
import time
from collections.abc import Callable
from typing import Any

from pliant.agent.exits import ExitReport
from pliant.agent.limits import NodeLimits
from pliant.agent.program_runner import ProgramRunner
from pliant.agent.rank_assignment import GroupSlot
from pliant.agent.stop_request import StopRequest
from pliant.checkpoint.problems import StorageProblem
from pliant.checkpoint.slots import WriteResult
from pliant.core.errors import PliantError, RetryableError
from pliant.core.nodes.environment import NodeEnvironment
from pliant.platforms.local import revive
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import AsyncMasterClient
from pliant.rpc.enums import EXIT_REASON, PERMANENT_KIND
from pliant.rpc.retry import call_with_retry_async
from pliant.rpc.usage import time_spent_message

log = logging.getLogger(__name__)

MAX_RETRY_PAUSE_S = 0.1  # between attempts to reach the master
REVIVE_INTERVAL_S = 2.0  # of silence of the master, between two attempts to have it started again
HEARTBEAT_TIMEOUT_S = 5.0
STOPPING_WAIT_S = 3.0  # for a master that does not answer, once the program of a node that stops has ended
DEFAULT_HEARTBEAT_INTERVAL_S = 1.0
MAX_UNANSWERED_PAUSE_S = 1.0  # after a heartbeat without an answer: the next one has to come before the time-out
HEARTBEAT_JITTER = 0.1  # share by which intervals differ: agents that registered together do not stay together
WATCH_INTERVAL_S = 1.0  # between two looks at the program, however rare heartbeats are
STOPPED_INTERVAL_S = (
    0.2  # between two heartbeats that say that the program is stopped, until the master has had time to act
)
STOPPED_HURRY_S = 3.0


class Orphaned(Exception):
    """No master for too long."""


class MasterLink:
    def __init__(
        self,
        environment: NodeEnvironment,
        master: AsyncMasterClient,
        runner: ProgramRunner,
        limits: NodeLimits,
        slot: GroupSlot,
        stop: StopRequest,
    ) -> None:
        self._environment = environment
        self._master = master
        self._runner = runner
        self._limits = limits
        self._slot = slot
        self._stop = stop
        self._last_answer = time.monotonic()
        self._last_revival = self._last_answer
        self._heartbeat_interval = DEFAULT_HEARTBEAT_INTERVAL_S
        self._stopped_since: float | None = None  # the program, by a signal

    @property
    def silence(self) -> float:
        """Seconds since the master last answered."""
        return time.monotonic() - self._last_answer

    async def register(self) -> bool:
        """False: the master has given this node up."""
        reply = await self._call(self._master.stubs.nodes.Register, self._introduction())
        if not reply.welcome:
            log.error("the master rejected %s: %s", self._environment.node, reply.reason)
            return False
        self._heartbeat_interval = reply.heartbeat_seconds or DEFAULT_HEARTBEAT_INTERVAL_S
        self._runner.incarnation = max(self._runner.incarnation, reply.incarnation)
        self._runner.program = None
        self._slot.assign(reply.group)
        return True

    def _introduction(self) -> pb.RegisterRequest:
        return pb.RegisterRequest(
            node=self._environment.node,
            agent_pid=os.getpid(),
            host=self._environment.host or socket.gethostname(),
            address=self._environment.address,
            incarnation=self._runner.incarnation,
            pid=self._runner.pid,
            group=self._slot.message(),
            grouped=self._runner.uses_assignment,
        )

    async def program_started(self, pid: int) -> None:
        request = pb.ProgramStartedRequest(node=self._environment.node, incarnation=self._runner.incarnation, pid=pid)
        await self._call(self._master.stubs.nodes.ProgramStarted, request)

    async def program_exited(self, report: ExitReport) -> pb.ProgramExitedReply:
        """The reply says whether, when and with which ranks the program is started again here."""
        request = pb.ProgramExitedRequest(
            node=self._environment.node,
            incarnation=self._runner.incarnation,
            exit_reason=EXIT_REASON.to_wire[report.exit_reason],
            message=report.message,
            traceback=report.traceback,
            log=str(self._environment.log_file),
            generation=self._slot.generation,
            grouped=self._slot.was_used(report.traceback),
            recalled=self._slot.is_recalled,
            permanent=PERMANENT_KIND.to_wire[report.permanent] if report.permanent is not None else None,
            hint=report.hint,
            peak_memory_mb=report.peak_mb,
        )
        reply: pb.ProgramExitedReply = await self._call(self._master.stubs.nodes.ProgramExited, request)
        return reply

    async def checkpoint_written(self, result: WriteResult) -> None:
        """What became of a checkpoint; tried once."""
        await self._master.call(
            self._master.stubs.checkpoints.Report, self._checkpoint(result), timeout=HEARTBEAT_TIMEOUT_S
        )

    async def checkpoint_surely_written(self, result: WriteResult) -> None:
        """Likewise; it must arrive."""
        await self._call(self._master.stubs.checkpoints.Report, self._checkpoint(result))

    async def destination_unusable(self, directory: str, problem: StorageProblem) -> bool:
        """Checkpoints cannot be written there; whether to train all the same."""
        request = pb.UnusableDestination(
            node=self._environment.node, directory=directory, problem=problem.text, hint=problem.hint
        )
        reply = await self._call(self._master.stubs.checkpoints.ReportUnusable, request)
        return bool(reply.proceed)

    async def send_heartbeats(self) -> None:
        """For ever; raises ``Orphaned``."""
        while True:
            request, pause = self._heartbeat(), MAX_UNANSWERED_PAUSE_S
            try:
                reply = await self._master.call(
                    self._master.stubs.nodes.Heartbeat, request, timeout=HEARTBEAT_TIMEOUT_S
                )
                if reply.register:
                    await self._announce()
            except RetryableError:
                self._check_orphaned()
            except PliantError as error:
                log.error("the master rejected this agent: %s", error)
                self._stop.request(self._environment.grace)
            else:
                self._last_answer = time.monotonic()
                self._heartbeat_interval = reply.heartbeat_seconds or self._heartbeat_interval
                self._obey(request, reply)
                pause = self._heartbeat_interval
            await self._until_heartbeat_due(min(pause, self._heartbeat_interval))

    # --- inside

    async def _until_heartbeat_due(self, seconds: float) -> None:
        """At once if there is news: an assignment is wanted, or the program is stopped, which is reported more often."""
        interval = seconds * random.uniform(1 - HEARTBEAT_JITTER, 1)
        due = time.monotonic() + interval
        while (left := due - time.monotonic()) > 0:
            if await self._slot.until_heartbeat_due(min(left, self._watch_interval()), interval):
                return
            self._runner.watch_memory()
            if self._runner.is_stopped:
                return

    def on_child(self) -> None:
        """A child of the agent was stopped, continued or ended (SIGCHLD); the master wants to know of the first at once."""
        if self._runner.is_stopped:
            self._slot.hurry()

    def _watch_interval(self) -> float:
        now = time.monotonic()
        if not self._runner.is_stopped:
            self._stopped_since = None
            return WATCH_INTERVAL_S
        if self._stopped_since is None:
            self._stopped_since = now
        return STOPPED_INTERVAL_S if now - self._stopped_since < STOPPED_HURRY_S else WATCH_INTERVAL_S

    def _checkpoint(self, result: WriteResult) -> pb.CheckpointReport:
        return pb.CheckpointReport(
            node=self._environment.node,
            directory=result.directory,
            step=result.step,
            problem=result.problem,
            hint=result.hint,
        )

    async def _announce(self) -> None:
        """To a master that took this node over: the journal of the one that launched it is lost."""
        log.info("%s: another master takes over; announcing run %d", self._environment.node, self._runner.incarnation)
        register = self._master.stubs.nodes.Register
        reply = await self._master.call(register, self._introduction(), timeout=HEARTBEAT_TIMEOUT_S)
        if not reply.welcome:
            log.error("the master rejected %s: %s", self._environment.node, reply.reason)
            self._stop.request(self._environment.grace)
        elif not self._slot.generation and reply.group.generation:
            self._slot.assign(reply.group)

    def _heartbeat(self) -> pb.HeartbeatRequest:
        usage = self._runner.sample()
        spent = self._runner.time_spent()
        return pb.HeartbeatRequest(
            node=self._environment.node,
            incarnation=self._runner.incarnation,
            pid=self._runner.pid,
            usage=pb.Usage(
                cpu=usage.cpu if usage else 0.0,
                memory_mb=usage.memory_mb if usage else 0.0,
                memory_limit_mb=self._limits.memory_limit_mb(),
                stopped=self._runner.is_stopped,
                cpu_limit=self._limits.resources.cpu,
                throttled=usage.throttled if usage else 0.0,
                time=time_spent_message(spent) if spent is not None and spent.began else None,
            ),
            generation=self._slot.generation,
            grouped=self._runner.uses_assignment,
        )

    def _obey(self, request: pb.HeartbeatRequest, reply: pb.HeartbeatReply) -> None:
        if reply.stop:
            if not self._stop.is_requested:  # every reply says so, until the program has ended
                log.info("%s: the master stops it: %s", self._environment.node, reply.reason)
            self._stop.request(reply.grace)
        self._slot.update(request.generation, reply)
        if reply.kill and request.incarnation == self._runner.incarnation:
            self._runner.kill(reply.kill)

    async def _call(self, method: Callable[..., Any], request: Any) -> Any:
        """A call that must arrive: repeated until the master answers, however often it is restarted meanwhile."""

        def check(_: PliantError) -> None:
            self._check_orphaned()
            is_idle = self._runner.program is None or self._runner.program.returncode is not None
            if self._stop.is_requested and is_idle and (self._runner.program is None or self.silence > STOPPING_WAIT_S):
                raise Orphaned from None  # nothing of it runs: a node that shall stop need not wait for a master

        reply = await call_with_retry_async(
            lambda: self._master.call(method, request),
            retry_timeout=math.inf,
            retry_on=RetryableError,
            on_failure=check,
            max_pause=MAX_RETRY_PAUSE_S,
        )
        self._last_answer = time.monotonic()
        return reply

    def _check_orphaned(self) -> None:
        now, job_dir = time.monotonic(), self._environment.job_dir
        is_removed = job_dir is not None and not job_dir.exists()
        if is_removed or now - self._last_answer > self._environment.orphan_timeout:
            self._stop.request(0.0)
            raise Orphaned
        if job_dir is not None and now - max(self._last_answer, self._last_revival) > REVIVE_INTERVAL_S:
            self._last_revival = now
            revive(job_dir)
