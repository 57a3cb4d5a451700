"""The job as a whole: its status, events and audit, and what people ask of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pliant.core.changes import (
    Answer,
    AssignSeats,
    Change,
    ChangeRequest,
    MovePartitions,
    RequestSource,
    Stop,
    plan_request,
)
from pliant.core.errors import InvalidRequest, NotAvailable
from pliant.core.planning.plan import JobStage, RolePlan
from pliant.core.resources import Resources, RolloutMode
from pliant.core.series.job_series import JobSeries
from pliant.core.shards.shard_map import MAX_CELLS, shard_maps
from pliant.master.components.changes import ChangeHandler
from pliant.master.components.scaling import ManualGenerator, ManualPlan, PlanningConfig
from pliant.master.components.series import SeriesRecorder
from pliant.master.controller import JobController
from pliant.master.services.waiting import MAX_REASON, Context, at_most
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.audits import audit_message
from pliant.rpc.events import event_message
from pliant.rpc.series import series_message
from pliant.rpc.shard_maps import shard_maps_message
from pliant.rpc.status import status_message

WORKER = "worker"  # the role that is scaled if none is named
MAX_ID = 200  # characters
MAX_EVENTS_BYTES = 4 << 20  # of one reply


class JobServicer(services.JobServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    async def GetStatus(self, request: pb.Empty, context: Context) -> pb.JobStatus:
        await self._controller.journal.durable()
        return status_message(self._controller.status())

    async def WaitForEnd(self, request: pb.Empty, context: Context) -> pb.JobStatus:
        await at_most(self._controller.ended.wait(), context)
        await self._controller.journal.durable()
        return status_message(self._controller.status())

    async def GetEvents(self, request: pb.EventsRequest, context: Context) -> pb.EventsReply:
        await self._controller.journal.durable()
        limit = min(max(request.limit, 0) or 1000, 10_000)
        return await asyncio.to_thread(self._events, request.after, limit)

    def _events(self, after: int, limit: int) -> pb.EventsReply:
        """In a thread: events of a large job name many nodes, and the master has other callers."""
        reply, size = pb.EventsReply(), 0
        for event in self._controller.read_events(after, limit):
            message = event_message(event)
            size += message.ByteSize()
            if reply.events and size > MAX_EVENTS_BYTES:
                break  # the caller asks for those after the last
            reply.events.append(message)
        return reply

    async def GetSeries(self, request: pb.SeriesRequest, context: Context) -> pb.SeriesReply:
        recorder = self._controller.require(SeriesRecorder)
        return await asyncio.to_thread(_series, recorder.series(), request)

    async def GetAudit(self, request: pb.Empty, context: Context) -> pb.AuditReply:
        if self._controller.read_audit is None:
            raise NotAvailable(
                f"job {self._controller.name} ran without --audit", hint="run it with `pliant run --audit`"
            )
        await self._controller.journal.durable()
        found = await asyncio.to_thread(self._controller.read_audit)  # from the journal on disk, as a person would
        return audit_message(found)

    async def GetShardMaps(self, request: pb.ShardMapsRequest, context: Context) -> pb.ShardMapsReply:
        book = self._controller.state.shards
        return shard_maps_message(shard_maps(book, request.max_cells or MAX_CELLS) if book is not None else ())

    async def Scale(self, request: pb.ScaleRequest, context: Context) -> pb.ScaleReply:
        asked = {one.role or WORKER: one for one in (request, *request.others)}
        if len(asked) <= len(request.others):
            raise InvalidRequest("a role is named twice in one request")
        manual = ManualPlan(
            {role: self._role_plan(role, one) for role, one in asked.items()},
            reason=request.reason[:MAX_REASON],
            id=request.id[:MAX_ID],
        )
        base_version = request.base_version if request.HasField("base_version") else None
        plan = ManualGenerator().generate_plan(JobStage.RUNNING, PlanningConfig(base_version, manual=manual))
        assert plan is not None
        answer = await self._handle(plan_request(plan, RequestSource.PERSON))
        first, *others = (self._scaled(role, answer) for role in asked)
        first.others.extend(others)
        return first

    def _role_plan(self, role: str, request: pb.ScaleRequest) -> RolePlan:
        resources = self._resources(role, request)
        replicas = request.replicas if request.HasField("replicas") or resources is None else None
        return RolePlan(replicas, resources, _rollout(request.rollout))

    def _scaled(self, role: str, answer: Answer) -> pb.ScaleReply:
        nodes = self._controller.state.nodes
        wanted = nodes.role(role).spec.replicas if nodes is not None else 0
        found = answer.results
        return pb.ScaleReply(
            before=int(found.get(f"{role}.before", wanted)),
            now=int(found.get(f"{role}.now", wanted)),
            version=answer.version,
            outdated=int(found.get(f"{role}.outdated", 0)),
            in_place=bool(found.get(f"{role}.in_place")),
        )

    def _resources(self, role: str, request: pb.ScaleRequest) -> Resources | None:
        """What each node of the role should have; None: nothing is said of it."""
        given = {name: getattr(request, name) for name in ("cpu", "memory_mb", "gpu") if request.HasField(name)}
        nodes = self._controller.state.nodes
        if not given or nodes is None:
            return Resources() if given else None  # without nodes it is refused
        return replace(nodes.role(role).spec.resources, **given)

    async def Stop(self, request: pb.StopRequest, context: Context) -> pb.Empty:
        await self._handle(_request(request, Stop(at_once=request.at_once, failed=request.failed)))
        return pb.Empty()

    async def MoveOff(self, request: pb.MoveOffRequest, context: Context) -> pb.MoveOffReply:
        answer = await self._handle(_request(request, MovePartitions(request.node, request.share)))
        found = answer.results
        return pb.MoveOffReply(seat=int(found["seat"]), partitions=int(found["partitions"]), weight=found["weight"])

    async def AssignSeats(self, request: pb.AssignSeatsRequest, context: Context) -> pb.AssignSeatsReply:
        asked = _request(request, AssignSeats(dict(request.seats)))
        if request.HasField("base_version"):
            asked = replace(asked, base_version=request.base_version)
        answer = await self._handle(asked)
        found = answer.results
        seats = {name.removesuffix(".seats"): int(count) for name, count in found.items() if name.endswith(".seats")}
        return pb.AssignSeatsReply(virtual_workers=int(found["virtual_workers"]), seats=seats, version=answer.version)

    async def _handle(self, request: ChangeRequest) -> Answer:
        answer = self._controller.require(ChangeHandler).handle(request)
        await self._controller.journal.durable()
        answer.check()
        return answer


def _series(series: JobSeries, request: pb.SeriesRequest) -> pb.SeriesReply:
    return series_message(series.since(request.since).thinned(request.max_points))


def _rollout(name: str) -> RolloutMode:
    try:
        return RolloutMode(name) if name else RolloutMode.AUTO
    except ValueError:
        raise InvalidRequest(f"unknown rollout {name[:MAX_ID]!r}; known: {', '.join(RolloutMode)}") from None


def _request(message: pb.StopRequest | pb.MoveOffRequest | pb.AssignSeatsRequest, change: Change) -> ChangeRequest:
    return ChangeRequest(message.id[:MAX_ID], RequestSource.PERSON, (change,), message.reason[:MAX_REASON])
