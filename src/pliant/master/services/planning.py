"""What people ask of the resource planner: its plans, and why the job has what it has."""

from __future__ import annotations

from pliant.master.controller import JobController
from pliant.master.explanation import explain_job, plans_of_job
from pliant.master.services.waiting import Context
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.planning import explain_message, plans_message


class PlanningServicer(services.PlanningServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    async def GetPlans(self, request: pb.Empty, context: Context) -> pb.PlansReply:
        await self._controller.journal.durable()
        return plans_message(plans_of_job(self._controller))

    async def Explain(self, request: pb.Empty, context: Context) -> pb.ExplainReply:
        found = await explain_job(self._controller)
        await self._controller.journal.durable()
        return explain_message(found)
