"""Calls of native training: model versions, evaluation rounds, the end of training."""

from __future__ import annotations

from pliant.core.errors import InvalidRequest
from pliant.core.progress import MAX_METRICS
from pliant.master.components.training import TrainingService, TrainingView
from pliant.master.controller import JobController
from pliant.master.services.waiting import MAX_REASON, Context, at_most
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.datasets import from_message
from pliant.rpc.status import result_message

MAX_NAME = 200  # characters, of a metric


class TrainingServicer(services.TrainingServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    @property
    def _training(self) -> TrainingService:
        return self._controller.require(TrainingService)

    async def ReportVersion(self, request: pb.ReportVersionRequest, context: Context) -> pb.ReportVersionReply:
        queued = self._training.report_version(request.version, evaluate=request.evaluate)
        await self._controller.journal.durable()
        return pb.ReportVersionReply(queued=queued)

    async def Define(self, request: pb.TrainingDefinition, context: Context) -> pb.Empty:
        self._training.define(from_message(request.evaluation), request.monitor[:MAX_NAME], request.mode)
        await self._controller.journal.durable()
        return pb.Empty()

    async def Watch(self, request: pb.WatchTrainingRequest, context: Context) -> pb.TrainingState:
        await at_most(self._training.watch(request.known), context, self._controller.max_wait_s)
        await self._controller.journal.durable()
        return _state_message(self._training.state())

    async def ClaimRound(self, request: pb.ClaimRoundRequest, context: Context) -> pb.ClaimRoundReply:
        claimed = self._training.claim(request.version, request.session)
        await self._controller.journal.durable()
        return pb.ClaimRoundReply(claimed=claimed)

    async def GiveUpRound(self, request: pb.GiveUpRoundRequest, context: Context) -> pb.Empty:
        self._training.give_up(request.version, request.reason[:MAX_REASON])
        await self._controller.journal.durable()
        return pb.Empty()

    async def StopTraining(self, request: pb.StopRequest, context: Context) -> pb.Empty:
        self._training.stop_training(request.reason[:MAX_REASON])
        await self._controller.journal.durable()
        return pb.Empty()

    async def GetEvaluation(self, request: pb.Empty, context: Context) -> pb.EvaluationReply:
        round = self._training.book.open_round
        await self._controller.journal.durable()
        return pb.EvaluationReply(version=round.version, dataset=round.dataset) if round else pb.EvaluationReply()

    async def ReportEvaluation(self, request: pb.ReportEvaluationRequest, context: Context) -> pb.Empty:
        if len(request.metrics) > MAX_METRICS:
            raise InvalidRequest(f"{len(request.metrics)} metrics of one evaluation; allowed: {MAX_METRICS}")
        if request.session:
            self._training.score(request.version, request.session, dict(request.metrics), request.records)
        else:
            self._training.report_metrics(request.version, dict(request.metrics))
        await self._controller.journal.durable()
        return pb.Empty()


def _state_message(view: TrainingView) -> pb.TrainingState:
    state = pb.TrainingState(
        tag=view.tag,
        shards_done=view.shards_done,
        claimed=view.is_claimed,
        waiting=view.waiting,
        needed=view.needed,
        results=[result_message(result) for result in view.results],
        best=-1 if view.best is None else view.best,
        stop_reason=view.stop_reason,
        trained=view.is_trained,
        ended=view.is_ended,
        due=view.due,
        version=view.version,
    )
    if view.open_round is not None:
        state.open_version, state.open_dataset = view.open_round.version, view.open_round.dataset
    return state
