"""The agent of one node.

It registers, starts the program, and reports its end; the master decides whether the program is started again here. While
the master is away the program keeps running; an agent without a master for ``orphan_timeout`` ends its program and itself.

A program has a rank among those of its role, in torchrun's sense, and waits until one is assigned. A reply to a heartbeat may
recall it: then it is ended, as torchrun does when a member of a group failed, and started with the next assignment.

SIGTERM to the agent is a preemption notice: it is passed on to the program, which has ``grace`` seconds. An order of the
master to stop comes with a heartbeat (or as SIGTERM from the platform, where the master knows why it came).

``master_link`` talks to the master, ``program_runner`` runs the program, ``exits`` judges and records how it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Sequence

from pliant.agent.checkpoint_reports import CheckpointReports
from pliant.agent.exits import ExitReport, write_exit
from pliant.agent.limits import NodeLimits
from pliant.agent.log_copy import LogCopy
from pliant.agent.master_link import MasterLink, Orphaned
from pliant.agent.program_runner import ProgramRunner
from pliant.agent.rank_assignment import GroupSlot
from pliant.agent.snapshots import SnapshotWriter
from pliant.agent.stop_request import StopRequest
from pliant.checkpoint.trial import try_destination
from pliant.core.end_policy import SERVICE_ROLES
from pliant.core.errors import PermanentError
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.permanent import PermanentKind
from pliant.files.atomic import read_json, write_json
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, AsyncMasterClient

log = logging.getLogger(__name__)

EXIT_REJECTED = 4  # the master has given this node up
EXIT_FAILED = 1  # where the platform reads the exit code: the program did not complete


class Agent:
    def __init__(self, environment: NodeEnvironment, command: Sequence[str], master: AsyncMasterClient) -> None:
        if not environment.node or environment.log_file is None:
            raise PermanentError(
                "PLIANT_NODE or PLIANT_LOG_FILE is not set", hint="agents are started by their platform"
            )
        self._environment = environment
        self._log_file = environment.log_file
        self._identity = master.address.token
        self._slot = GroupSlot()
        self._stop = StopRequest(environment.grace, self._slot.wake)
        self._limits = NodeLimits(environment)
        self._runner = ProgramRunner(environment, command, self._log_file, self._limits, self._slot, self._stop)
        self._link = MasterLink(environment, master, self._runner, self._limits, self._slot, self._stop)
        self._snapshots: SnapshotWriter | None = None
        self._reports = CheckpointReports()
        self._is_destination_tried = False

    async def run(self) -> int:
        """Until the node ends; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGCHLD, self._link.on_child)  # the kernel reports also a child that is stopped
        self._write_record()
        copy = LogCopy(self._log_file) if self._environment.copies_log else None
        try:
            if not await self._link.register():
                return EXIT_REJECTED
            self._limits.apply()
            self._snapshots = SnapshotWriter.of_node(
                self._environment.job, self._environment.node, self._identity, self._reports.add
            )
            report = await self._run_beside(self._snapshots, copy)
        except Orphaned:
            log.error("no master for %.0f s: %s exits", self._link.silence, self._environment.node)
            report = ExitReport(ExitReason.UNKNOWN, "its agent could not reach a master for too long", "")
            if self._stop.is_preempted and self._runner.program is None:
                report = ExitReport(ExitReason.PREEMPTED, "stopped before its program was started", "")
        finally:
            await self._runner.end_standby()
            await self._runner.end()
            self._limits.remove()
            if self._snapshots is not None:
                await self._snapshots.flush()  # the memory itself goes with the job: a successor may want it
                await self._reports.offer(self._link.checkpoint_written)
            while copy is not None and copy.catch_up():
                continue
        write_exit(report, self._environment)
        is_read = self._environment.last_words is not None
        return EXIT_FAILED if is_read and report.exit_reason is not ExitReason.COMPLETED else 0

    async def _run_beside(self, snapshots: SnapshotWriter, copy: LogCopy | None) -> ExitReport:
        """The runs of the program, beside everything that goes on for as long as the agent lives."""
        beside = [
            asyncio.create_task(self._link.send_heartbeats()),
            asyncio.create_task(snapshots.run()),
            asyncio.create_task(self._reports.run(self._link.checkpoint_written)),
        ]
        if copy is not None:
            beside.append(asyncio.create_task(copy.run()))
        try:
            return await self._run_program(snapshots)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _run_program(self, snapshots: SnapshotWriter) -> ExitReport:
        """Run after run, until the master does not want another one; returns how the last one ended."""
        while True:
            await self._until_assigned()
            report = await self._try_destination()
            if report is None:
                report = await self._runner.run(snapshots.folder, self._link.program_started)
            try:
                reply = await self._report_exit(report, snapshots)
            except Orphaned:
                if self._stop.is_preempted:
                    return report  # the platform reads it from the node's record
                raise
            if not reply.restart or self._stop.is_requested:
                return report
            log.info("%s: run %d in %.1f s: %s", self._environment.node, reply.incarnation, reply.delay, reply.reason)
            self._runner.incarnation = reply.incarnation
            self._runner.program = None
            self._slot.assign(reply.group)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._runner.until_recalled(), reply.delay)
            if self._stop.is_requested:
                return report

    async def _report_exit(self, report: ExitReport, snapshots: SnapshotWriter) -> pb.ProgramExitedReply:
        if report.exit_reason is ExitReason.COMPLETED:
            # First what became of its checkpoints: the job may end well with this program, or not without the last one.
            await snapshots.flush()
            await self._reports.deliver(self._link.checkpoint_surely_written)
        reporting = asyncio.create_task(self._link.program_exited(report))
        await asyncio.sleep(0)  # the report is sent first: peers wait for it, what is left of the program does not
        await self._runner.end()
        return await reporting

    async def _try_destination(self) -> ExitReport | None:
        """Before the first run: whether checkpoints can be written where the job's spec says. None: the program may start."""
        wanted = self._environment.checkpoint
        if self._is_destination_tried or wanted is None or self._environment.role in SERVICE_ROLES:
            return None
        name = f"{self._environment.job}-{self._environment.node}"
        trying = asyncio.create_task(asyncio.to_thread(try_destination, wanted.directory, name))
        stopping = asyncio.create_task(self._runner.until_recalled())
        await asyncio.wait({trying, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not trying.done():
            return None  # the node stops, or its group restarts: then it is tried again
        problem = trying.result()
        self._is_destination_tried = problem is None or await self._link.destination_unusable(wanted.directory, problem)
        if problem is None or self._is_destination_tried:
            return None
        return ExitReport(
            ExitReason.ERROR,
            f"checkpoints cannot be written to {wanted.directory}: {problem.text}",
            "",
            PermanentKind.CHECKPOINT_DESTINATION if problem.is_permanent else None,
            problem.hint,
        )

    async def _until_assigned(self) -> None:
        """Until the program has its rank among its peers, or the node shall stop."""
        while not self._stop.is_requested and not self._slot.is_ready:
            await self._slot.news()

    def _write_record(self) -> None:
        """The platform writes it, unless its master died between starting this agent and writing."""
        folder = self._environment.node_dir
        if folder is not None and read_json(folder / "agent.json") is None:
            own = self._environment
            record = {"pid": os.getpid(), "resources": own.resources.to_json(), "gpus": list(own.gpus)}
            write_json(folder / "agent.json", record)

    def _on_signal(self, number: int) -> None:
        log.info("%s: got %s", self._environment.node, signal.Signals(number).name)
        self._stop.preempt(self._environment.grace)


async def run_agent(command: list[str]) -> int:
    environment = NodeEnvironment.from_env(os.environ)
    master = AsyncMasterClient(Address.of_node(environment))
    try:
        return await Agent(environment, command, master).run()
    finally:
        await master.close()
