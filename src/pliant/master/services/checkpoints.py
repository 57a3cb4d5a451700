"""Calls of whoever writes checkpoints: agents, and programs without one."""

from __future__ import annotations

from pliant.core.errors import InvalidRequest
from pliant.master.components.checkpoints import CheckpointMonitor
from pliant.master.components.signals import CheckpointReported
from pliant.master.controller import JobController
from pliant.master.services.waiting import MAX_REASON, Context
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services

MAX_DIRECTORY = 4000  # characters
MAX_NODE = 255


class CheckpointsServicer(services.CheckpointsServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    @property
    def _monitor(self) -> CheckpointMonitor:
        return self._controller.require(CheckpointMonitor)

    async def Report(self, request: pb.CheckpointReport, context: Context) -> pb.Empty:
        _check(request.directory)
        if request.step < 0:
            raise InvalidRequest(f"a checkpoint of step {request.step}")
        self._monitor.report(
            CheckpointReported(
                request.node[:MAX_NODE],
                request.directory,
                request.step,
                request.problem[:MAX_REASON],
                request.hint[:MAX_REASON],
            )
        )
        await self._controller.journal.durable()
        return pb.Empty()

    async def ReportUnusable(self, request: pb.UnusableDestination, context: Context) -> pb.UnusableDestinationReply:
        _check(request.directory)
        proceed = self._monitor.unusable(
            request.node[:MAX_NODE], request.directory, request.problem[:MAX_REASON], request.hint[:MAX_REASON]
        )
        await self._controller.journal.durable()
        return pb.UnusableDestinationReply(proceed=proceed)


def _check(directory: str) -> None:
    if not 0 < len(directory) <= MAX_DIRECTORY:
        raise InvalidRequest(f"a checkpoint directory of {len(directory)} characters; allowed: 1 to {MAX_DIRECTORY}")
