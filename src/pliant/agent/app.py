"""The agent of one node.

It registers, starts the program, and reports its end; the master decides whether the program is started again here. While
the master is away the program goes on; an agent that hears of no master for ``orphan_timeout`` ends its program and itself.

A program has a seat among those of its role, in torchrun's sense, and waits for one if there is none. An answer to a
heartbeat may recall it: then it is ended, as torchrun does when a member of a group failed, and started with the next seat.

SIGTERM to the agent is a preemption notice: it is passed on to the program, which has ``grace`` seconds. An order of the
master to stop comes with a heartbeat (or as SIGTERM from the platform, where the master knows why it came).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.agent.exits import ExitReport, classify, read_tail
from pliant.agent.log_copy import LogCopy
from pliant.agent.process import Program
from pliant.agent.seat import Place
from pliant.agent.snapshots import SnapshotWriter
from pliant.agent.usage import MemoryWatchdog, UsageSampler
from pliant.core.errors import NotAvailable, PliantError, RetryableError
from pliant.core.relaunch import ExitReason
from pliant.core.resources import Resources
from pliant.platforms.cgroup import CgroupLimit, read_current
from pliant.platforms.durable_files import read_json, write_json
from pliant.platforms.local import cgroup_job, revive
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, AsyncMasterClient

log = logging.getLogger(__name__)

RETRY_PAUSE = 0.1  # seconds between tries to reach the master
REVIVE_EVERY = 2.0  # seconds of silence of the master between two looks whether anyone will start it again
NOT_WELCOME = 4  # exit code: the master has given this node up
FAILED = 1  # exit code where the platform looks at it: the program did not complete
LONGEST_WORDS = 2000  # characters; Kubernetes keeps 4096 bytes


class Orphaned(Exception):
    """No master for too long."""


@dataclass(frozen=True)
class AgentConfig:
    job: str
    node: str
    role: str
    command: tuple[str, ...]
    log: Path
    resources: Resources
    grace: float
    orphan_timeout: float
    node_dir: Path | None
    job_dir: Path | None
    limits: bool
    in_container: bool = False  # the platform limits this node, and its cgroup is the agent's own
    host: str = ""  # the machine; empty: as it calls itself
    address: str = ""  # where other nodes reach this one
    copy_log: bool = False
    last_words: Path | None = None  # where to leave why the node ended, for a platform that reads it there

    @classmethod
    def from_env(cls, command: list[str], env: Mapping[str, str] = os.environ) -> AgentConfig:
        folder, job_dir = env.get("PLIANT_NODE_DIR"), env.get("PLIANT_JOB_DIR")
        return cls(
            env["PLIANT_JOB"],
            env["PLIANT_NODE"],
            env["PLIANT_NODE"].rpartition("-")[0],
            tuple(command),
            Path(env["PLIANT_LOG_FILE"]),
            Resources(float(env.get("PLIANT_CPU", 0)), int(env.get("PLIANT_MEMORY_MB", 0))),
            float(env.get("PLIANT_GRACE", 10)),
            float(env.get("PLIANT_ORPHAN_TIMEOUT", 600)),
            Path(folder) if folder else None,
            Path(job_dir) if job_dir else None,
            env.get("PLIANT_LIMITS", "auto") == "auto",
            env.get("PLIANT_LIMITS") == "container",
            env.get("PLIANT_HOST", ""),
            env.get("PLIANT_ADDRESS", ""),
            env.get("PLIANT_LOG_COPY") == "1",
            Path(env["PLIANT_LAST_WORDS"]) if env.get("PLIANT_LAST_WORDS") else None,
        )


class Agent:
    def __init__(self, config: AgentConfig, master: AsyncMasterClient) -> None:
        self._config = config
        self._master = master
        self._program: Program | None = None
        self._incarnation = 0
        self._stopping: asyncio.Event = asyncio.Event()
        self._stop_grace = config.grace
        self._preempted = False
        self._over_memory = ""
        self._sentence = ""  # why the master has the program killed
        self._heard = time.monotonic()  # of the master
        self._looked = self._heard  # for who starts it again
        self._heartbeat_seconds = 1.0
        self._cgroup: CgroupLimit | None = None
        self._snapshots: SnapshotWriter | None = None
        self._sampler: UsageSampler | None = None
        self._watchdog: MemoryWatchdog | None = None
        self._place = Place()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._notice, number)
        if self._config.node_dir is not None and read_json(self._config.node_dir / "agent.json") is None:
            record = {"pid": os.getpid(), "resources": self._config.resources.to_json()}
            write_json(self._config.node_dir / "agent.json", record)
        copy = LogCopy(self._config.log) if self._config.copy_log else None
        try:
            if not await self._register():
                return NOT_WELCOME
            self._limit()
            identity = self._master.address.token
            self._snapshots = SnapshotWriter.of_node(self._config.job, self._config.node, identity)
            beside = [asyncio.create_task(self._beat()), asyncio.create_task(self._snapshots.run())]
            if copy is not None:
                beside.append(asyncio.create_task(copy.run()))
            try:
                report = await self._run_program()
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
        except Orphaned:
            log.error("no master for %.0f s: %s ends", time.monotonic() - self._heard, self._config.node)
            report = ExitReport(ExitReason.UNKNOWN, "its agent heard of no master for too long", "")
            if self._preempted and self._program is None:
                report = ExitReport(ExitReason.PREEMPTED, "stopped before its program was started", "")
        finally:
            if self._program is not None:
                await self._program.kill()
            if self._cgroup is not None:
                self._remove_cgroup(self._cgroup)
            if self._snapshots is not None:
                await self._snapshots.flush()  # the memory itself goes with the job: a successor may want it
            while copy is not None and copy.catch_up():
                continue
        self._write_exit(report)
        return 0 if self._config.last_words is None or report.exit_reason is ExitReason.COMPLETED else FAILED

    # --- the program

    async def _run_program(self) -> ExitReport:
        while True:
            await self._wait_for_seat()
            report = await self._one_run()
            asking = asyncio.create_task(self._report_exit(report))
            await asyncio.sleep(0)  # the report goes out first: peers wait for the news, leftovers can wait
            if self._program is not None:
                await self._program.kill()  # what it started must not outlive it
            answer = await asking
            if not answer.restart or self._stopping.is_set():
                return report
            log.info("%s: run %d in %.1f s: %s", self._config.node, answer.incarnation, answer.delay, answer.reason)
            self._incarnation = answer.incarnation
            self._take_seat(answer.group)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._until_told(), answer.delay)
            if self._stopping.is_set():
                return report

    def _take_seat(self, group: pb.Group) -> None:
        self._program = None
        self._place.take(group)

    async def _wait_for_seat(self) -> None:
        """Until the program has its place among its peers, or the node shall stop."""
        while not self._stopping.is_set() and not self._place.is_ready:
            await self._place.news()

    async def _one_run(self) -> ExitReport:
        config = self._config
        kills_before = self._oom_kills()
        self._over_memory = self._sentence = ""
        if self._stopping.is_set():
            return ExitReport(ExitReason.PREEMPTED, "stopped before its program was started", "")
        try:
            program = self._program = await Program.start(
                config.command,
                env=self._environment(),
                log=config.log,
                attach_to=self._cgroup.procs_files if self._cgroup else (),
            )
        except PliantError as error:
            return ExitReport(ExitReason.ERROR, error.message, str(error))
        own_group = read_current if config.in_container else None
        self._sampler = UsageSampler(program.pid, self._cgroup.read if self._cgroup else own_group)
        self._watchdog = None
        if self._cgroup is None and config.resources.memory_mb and not self._is_limited():
            self._watchdog = MemoryWatchdog(program.pid, config.resources.memory_mb)
        started = pb.ProgramStartedRequest(node=config.node, incarnation=self._incarnation, pid=program.pid)
        telling = asyncio.create_task(self._tell(self._master.stubs.nodes.ProgramStarted, started))
        try:
            await self._until_over(program)
            code = await program.wait()
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            self._sampler = self._watchdog = None
        if self._place.recalled:
            return ExitReport(ExitReason.KILLED, self._place.recall, "")
        if self._sentence and not self._stopping.is_set():
            return ExitReport(ExitReason.KILLED, self._sentence, "")
        kills = self._oom_kills() - kills_before
        tail = read_tail(config.log, program.log_offset)
        report = classify(
            code, terminating=self._stopping.is_set(), oom_kills=kills or bool(self._over_memory), log_tail=tail
        )
        if report.exit_reason is ExitReason.COMPLETED and self._preempted:
            return ExitReport(ExitReason.PREEMPTED, "preempted; the program ended in time", "")
        if self._over_memory:
            return ExitReport(ExitReason.OOM, self._over_memory, report.traceback)
        return report

    def _oom_kills(self) -> int:
        """So far, in the group of the program or, in a container, of the whole node."""
        if self._cgroup is not None:
            return self._cgroup.oom_kills()
        group = read_current() if self._config.in_container else None
        return group.oom_kills if group is not None else 0

    def _is_limited(self) -> bool:
        """Whether the kernel itself sees to the memory of this node."""
        group = read_current() if self._config.in_container else None
        return group is not None and group.memory_limit_bytes is not None

    def _environment(self) -> dict[str, str]:
        """``python`` means the Python that Pliant runs in, as in an activated environment."""
        path = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), os.environ.get("PATH"))))
        seat = self._place.environment(self._config.job, self._config.role)
        memory = self._snapshots.environment if self._snapshots is not None else {}
        return {**os.environ, **seat, **memory, "PATH": path, "PLIANT_INCARNATION": str(self._incarnation)}

    async def _until_over(self, program: Program) -> None:
        """Until the program ended, by itself or because the node shall stop or its group starts anew."""
        ended = asyncio.create_task(program.wait())
        told = asyncio.create_task(self._until_told())
        try:
            await asyncio.wait({ended, told}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._place.recalled = not self._stopping.is_set()
                await program.stop(self._stop_grace)
        finally:
            for task in (ended, told):
                task.cancel()
            await asyncio.gather(ended, told, return_exceptions=True)

    async def _until_told(self) -> None:
        """To end the program."""
        while not self._stopping.is_set() and not self._place.recall:
            await self._place.news()

    def _limit(self) -> None:
        """Real limits where the system allows it; else the watchdog looks after memory."""
        config = self._config
        if not config.limits or config.job_dir is None or not (config.resources.memory_mb or config.resources.cpu):
            return
        try:
            self._cgroup = CgroupLimit.create(
                cgroup_job(config.job, config.job_dir),
                config.node,
                memory_mb=config.resources.memory_mb,
                cpu=config.resources.cpu,
            )
        except NotAvailable as reason:
            log.info("no cgroup for %s, memory is watched instead: %s", config.node, reason)

    @staticmethod
    def _remove_cgroup(group: CgroupLimit) -> None:
        try:
            group.remove()
        except (RetryableError, OSError) as error:  # the platform tries again; how the program ended matters more
            log.warning("%s", error)

    # --- the master

    async def _register(self) -> bool:
        request = pb.RegisterRequest(
            node=self._config.node,
            agent_pid=os.getpid(),
            host=self._config.host or socket.gethostname(),
            address=self._config.address,
            incarnation=self._incarnation,
            pid=self._program.pid if self._program else 0,
        )
        reply = await self._tell(self._master.stubs.nodes.Register, request)
        if not reply.welcome:
            log.error("the master does not want %s: %s", self._config.node, reply.reason)
            return False
        self._heartbeat_seconds = reply.heartbeat_seconds or 1.0
        self._incarnation = max(self._incarnation, reply.incarnation)
        self._take_seat(reply.group)
        return True

    async def _report_exit(self, report: ExitReport) -> Any:
        return await self._tell(
            self._master.stubs.nodes.ProgramExited,
            pb.ProgramExitedRequest(
                node=self._config.node,
                incarnation=self._incarnation,
                exit_reason=report.exit_reason.value,
                message=report.message,
                traceback=report.traceback,
                log=str(self._config.log),
                generation=self._place.generation,
                grouped=self._place.is_named_in(report.traceback),
                recalled=self._place.recalled,
            ),
        )

    async def _beat(self) -> None:
        """Heartbeats with usage, for ever; also notices orders to stop, and that nobody is there any more."""
        while True:
            usage = self._sampler.sample() if self._sampler else None
            self._check_memory()
            limit = self._config.resources.memory_mb
            if not limit and (group := read_current()) is not None and group.memory_limit_bytes:
                limit = group.memory_limit_bytes >> 20
            request = pb.HeartbeatRequest(
                node=self._config.node,
                incarnation=self._incarnation,
                pid=self._program.pid if self._program else 0,
                usage=pb.Usage(
                    cpu=usage.cpu if usage else 0.0,
                    memory_mb=usage.memory_mb if usage else 0.0,
                    memory_limit_mb=limit,
                    stopped=self._program is not None and self._program.is_stopped,
                ),
                generation=self._place.generation,
                grouped=self._program is not None and self._place.is_used_by(self._program.pid),
            )
            try:
                reply = await self._master.call(self._master.stubs.nodes.Heartbeat, request, timeout=5)
            except RetryableError:
                self._check_orphaned()
            except PliantError as error:
                log.error("the master refuses this agent: %s", error)
                self._stop(self._config.grace)
            else:
                self._heard = time.monotonic()
                if reply.stop:
                    if not self._stopping.is_set():  # it is told with every heartbeat, until the program has ended
                        log.info("%s: the master ends it: %s", self._config.node, reply.reason)
                    self._stop(reply.grace)
                self._place.hear(request.generation, reply)
                if reply.kill and request.incarnation == self._incarnation:
                    self._kill(reply.kill)
            await self._place.pause(self._heartbeat_seconds)

    async def _tell(self, method: Callable[..., Any], request: Any) -> Any:
        """A call that must arrive: tried until the master answers, however often it is restarted meanwhile."""
        while True:
            try:
                reply = await self._master.call(method, request, timeout=10)
            except RetryableError:
                self._check_orphaned()
                if self._stopping.is_set() and self._program is None:
                    raise Orphaned from None  # it never began: whoever wants it to go need not wait for a master
                await asyncio.sleep(RETRY_PAUSE)
            else:
                self._heard = time.monotonic()
                return reply

    def _check_orphaned(self) -> None:
        now, job_dir = time.monotonic(), self._config.job_dir
        removed = job_dir is not None and not job_dir.exists()
        if removed or now - self._heard > self._config.orphan_timeout:
            self._stop(0.0)
            raise Orphaned
        if job_dir is not None and now - max(self._heard, self._looked) > REVIVE_EVERY:
            self._looked = now
            revive(job_dir)

    def _check_memory(self) -> None:
        if self._watchdog is not None and (problem := self._watchdog.check()) is not None and self._program:
            self._over_memory = problem
            self._program.signal_group(signal.SIGKILL)

    def _kill(self, reason: str) -> None:
        """The master's word: this run ends now. It may be stopped, or deaf, so that nothing else would reach it."""
        if self._program is None or self._program.returncode is not None:
            return
        if not self._sentence:
            log.info("%s: the master has its program killed: %s", self._config.node, reason)
        self._sentence = reason
        self._program.signal_group(signal.SIGKILL)

    # --- stopping

    def _notice(self, number: int) -> None:
        log.info("%s: got %s", self._config.node, signal.Signals(number).name)
        self._preempted = True
        self._stop(self._config.grace)

    def _stop(self, grace: float) -> None:
        self._stop_grace = grace
        self._stopping.set()
        self._place.tell()

    def _write_exit(self, report: ExitReport) -> None:
        if self._config.node_dir is not None:
            value = {"exit_reason": report.exit_reason.value, "message": report.message}
            write_json(self._config.node_dir / "exit.json", value)
        if self._config.last_words is not None:
            value = {"exit_reason": report.exit_reason.value, "message": report.message[:LONGEST_WORDS]}
            try:
                self._config.last_words.write_text(json.dumps(value), encoding="utf-8")
            except OSError as error:
                log.warning("the last words of %s cannot be left: %s", self._config.node, error)


async def run_agent(command: list[str]) -> int:
    master = AsyncMasterClient(Address.from_env())
    try:
        return await Agent(AgentConfig.from_env(command), master).run()
    finally:
        await master.close()
