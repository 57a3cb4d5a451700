"""Calls of agents: their node is there, how it is, and what its program did."""

from __future__ import annotations

from dataclasses import asdict, fields

from pliant.core.rendezvous.groups import RankAssignment
from pliant.master.components.groups import GroupCoordinator
from pliant.master.components.nodes import NodeManager
from pliant.master.components.programs import ProgramExit, ProgramSupervisor
from pliant.master.components.stats import MemoryStats
from pliant.master.controller import JobController
from pliant.master.services.waiting import Context
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.enums import EXIT_REASON, PERMANENT_KIND
from pliant.rpc.usage import node_usage

MAX_MESSAGE = 2000  # characters
MAX_TRACEBACK = 20_000
MAX_PATH = 4000


class NodesServicer(services.NodesServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    @property
    def _nodes(self) -> NodeManager:
        return self._controller.require(NodeManager)

    @property
    def _groups(self) -> GroupCoordinator:
        return self._controller.require(GroupCoordinator)

    @property
    def _programs(self) -> ProgramSupervisor:
        return self._controller.require(ProgramSupervisor)

    async def Register(self, request: pb.RegisterRequest, context: Context) -> pb.RegisterReply:
        welcome, reason, incarnation = self._nodes.register(
            request.node,
            request.agent_pid,
            request.host[:255],
            request.incarnation,
            request.pid,
            request.address[:255],
        )
        group = None
        if welcome and request.group.generation:
            self._groups.adopt(request.node, _assignment(request.group), request.grouped)
        elif welcome:
            group = self._groups.assign(request.node)
        await self._controller.journal.durable()
        return pb.RegisterReply(
            welcome=welcome,
            reason=reason,
            incarnation=incarnation,
            heartbeat_seconds=self._controller.heartbeat_seconds,
            group=_group_message(group),
        )

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Context) -> pb.HeartbeatReply:
        stop, grace, reason = self._nodes.heartbeat(request.node)
        if not stop and self._nodes.must_register(request.node):
            return pb.HeartbeatReply(register=True)
        usage = request.usage
        self._controller.require(MemoryStats).collect_node_resource_usage(
            request.node, node_usage(usage, self._controller.clock.now())
        )
        if usage.stopped:
            self._controller.woken.set()  # whoever waits for it has waited long enough
        kill = self._programs.heartbeat(request.node, request.incarnation, stopped=usage.stopped)
        recall, group = self._groups.heartbeat(request.node, request.generation, request.grouped)
        await self._controller.journal.durable()
        return pb.HeartbeatReply(
            stop=stop,
            grace=grace,
            reason=reason,
            recall=recall,
            group=_group_message(group),
            kill=kill,
            heartbeat_seconds=self._controller.heartbeat_seconds,
        )

    async def ProgramStarted(self, request: pb.ProgramStartedRequest, context: Context) -> pb.Empty:
        self._nodes.program_started(request.node, request.incarnation, request.pid)
        await self._controller.journal.durable()
        return pb.Empty()

    async def ProgramExited(self, request: pb.ProgramExitedRequest, context: Context) -> pb.ProgramExitedReply:
        restart = self._programs.exited(_program_exit(request))
        group = self._groups.assign(request.node) if restart is not None else None
        await self._controller.journal.durable()
        if restart is None:
            return pb.ProgramExitedReply(restart=False)
        return pb.ProgramExitedReply(
            restart=True,
            delay=restart.delay,
            incarnation=restart.incarnation,
            reason=restart.reason,
            group=_group_message(group),
        )


def _group_message(assignment: RankAssignment | None) -> pb.Group:
    """Generation 0: it has no rank yet."""
    return pb.Group(**asdict(assignment)) if assignment is not None else pb.Group()


def _assignment(message: pb.Group) -> RankAssignment:
    return RankAssignment(**{field.name: getattr(message, field.name) for field in fields(RankAssignment)})


def _program_exit(request: pb.ProgramExitedRequest) -> ProgramExit:
    return ProgramExit(
        node=request.node,
        incarnation=request.incarnation,
        exit_reason=EXIT_REASON.from_wire(request.exit_reason),
        message=request.message[:MAX_MESSAGE],
        traceback=request.traceback[-MAX_TRACEBACK:],
        log=request.log[:MAX_PATH],
        generation=request.generation,
        grouped=request.grouped,
        recalled=request.recalled,
        permanent=PERMANENT_KIND.from_wire(request.permanent) if request.permanent else None,
        hint=request.hint[:MAX_MESSAGE],
        peak_mb=max(0, request.peak_memory_mb),
    )
