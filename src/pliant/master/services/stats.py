"""What programs report of their own progress."""

from __future__ import annotations

from pliant.core.progress import StepReport, TrainingProgress
from pliant.master.components.signals import RecordsAccepted, StepReported
from pliant.master.components.stats import MemoryStats
from pliant.master.controller import JobController
from pliant.master.services.waiting import Context
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services

MAX_NAME = 200  # characters


class StatsServicer(services.StatsServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    async def ReportStep(self, request: pb.ReportStepRequest, context: Context) -> pb.Empty:
        report = _report(request)
        records = self._controller.require(MemoryStats).report_step(report)
        if records:
            self._controller.signals.publish(RecordsAccepted(request.node, records))
        self._controller.signals.publish(StepReported(request.node, request.step, report.progress.metrics))
        if report.progress.is_complete:  # the journal has it; whoever reports again later may not come
            await self._controller.journal.durable()
        return pb.Empty()


def _report(request: pb.ReportStepRequest) -> StepReport:
    progress = TrainingProgress(
        step=request.step,
        total_steps=request.total_steps,
        epoch=request.epoch,
        records_done=request.records_done,
        records_total=request.records_total,
        metrics={name[:MAX_NAME]: value for name, value in request.metrics.items()},
    )
    return StepReport(request.node, progress, request.run[:MAX_NAME], request.records, request.acknowledged)
