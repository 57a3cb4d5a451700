"""What programs report of their own progress."""

from __future__ import annotations

from pliant.core.errors import InvalidRequest
from pliant.core.shards.datasets import MAX_RECORDS
from pliant.master.components.signals import RecordsAccepted, StepReported
from pliant.master.components.stats import MemoryStats
from pliant.master.controller import JobController
from pliant.master.services.waiting import Context
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services


class StatsServicer(services.StatsServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    async def ReportStep(self, request: pb.ReportStepRequest, context: Context) -> pb.Empty:
        if not 0 <= request.records <= MAX_RECORDS:
            raise InvalidRequest(f"{request.records} records in one step")
        self._controller.require(MemoryStats).set_step(request.node, request.step, dict(request.metrics))
        if request.records > 0:
            self._controller.signals.publish(RecordsAccepted(request.node, request.records))
        self._controller.signals.publish(StepReported(request.node, request.step))
        return pb.Empty()
