"""The master's gRPC services: protobuf in, a component's method, protobuf out.

Each handler answers only after ``journal.durable()``. A call to a component that this master does not run is refused with
the flag that would start it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, TypeAlias, TypeVar

import grpc.aio

from pliant.core.errors import Conflict, InvalidRequest, NotAvailable
from pliant.core.leases import Lease
from pliant.core.rendezvous import Expelled, Waiting, World
from pliant.core.shard_queue import Piece
from pliant.master.components import Components
from pliant.master.parameters import ParameterCoordinator, parse_specs, verdict_message
from pliant.master.stats import MOST_METRICS, NodeUsage
from pliant.master.status import job_status, world_message
from pliant.ps.files import dump_folder
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.datasets import from_message, to_message
from pliant.rpc.orders import order_message

T = TypeVar("T")
Context: TypeAlias = Any  # grpc.aio.ServicerContext, which is generic for mypy and not at run time
LONGEST_REASON = 1000  # characters
SEAT_WAIT = 5.0  # seconds; a server that waits for a seat asks again
ORDERS_WAIT = 1.0  # seconds; with every call a server says what it did and uses
DUMP_WAIT = 600.0  # seconds
LONGEST_NAME = 200  # characters, of a metric
NOTES_PER_REPLY = 4 << 20  # bytes
LONGEST_WAIT = 30.0  # seconds; a caller that waits longer asks again


def _need(component: T | None, name: str, flag: str) -> T:
    if component is None:
        raise NotAvailable(f"this master runs without its {name}", hint=f"start it with {flag}")
    return component


async def _at_most(waiting: Awaitable[T], context: Context, most: float = LONGEST_WAIT) -> T | None:
    """The result, or None when the caller's deadline is near."""
    left = context.time_remaining()
    seconds = most if left is None else min(most, left * 0.8)
    try:
        return await asyncio.wait_for(waiting, max(0.0, seconds))
    except TimeoutError:
        return None


class JobServicer(services.JobServicer):
    def __init__(self, master: Components) -> None:
        self._m = master

    async def GetStatus(self, request: pb.Empty, context: Context) -> pb.JobStatus:
        await self._m.journal.durable()
        return job_status(self._m)

    async def WaitForEnd(self, request: pb.Empty, context: Context) -> pb.JobStatus:
        await _at_most(self._m.ended.wait(), context)
        await self._m.journal.durable()
        return job_status(self._m)

    async def GetEvents(self, request: pb.EventsRequest, context: Context) -> pb.EventsReply:
        await self._m.journal.durable()
        limit = min(max(request.limit, 0) or 1000, 10_000)
        events = await asyncio.to_thread(self._m.read_events, request.after, limit)
        return pb.EventsReply(
            events=[pb.Event(number=e.number, time=e.time, kind=e.kind, node=e.node, message=e.message) for e in events]
        )

    async def GetAudit(self, request: pb.Empty, context: Context) -> pb.AuditReply:
        if self._m.read_audit is None:
            raise NotAvailable(f"job {self._m.name} was run without --audit", hint="run it with `pliant run --audit`")
        await self._m.journal.durable()
        found = await asyncio.to_thread(self._m.read_audit)  # from the journal on disk, as a person would
        return pb.AuditReply(json=json.dumps(found))

    async def Scale(self, request: pb.ScaleRequest, context: Context) -> pb.ScaleReply:
        before, now = self._m.scale(request.role or "worker", request.replicas, request.reason[:LONGEST_REASON])
        await self._m.journal.durable()
        return pb.ScaleReply(before=before, now=now)

    async def Stop(self, request: pb.StopRequest, context: Context) -> pb.Empty:
        reason = request.reason[:LONGEST_REASON] or "stopped by the user"
        self._m.stop(reason, at_once=request.at_once, failed=request.failed)
        await self._m.journal.durable()
        return pb.Empty()

    async def MoveOff(self, request: pb.MoveOffRequest, context: Context) -> pb.MoveOffReply:
        parameters = _need(self._m.parameters, "coordinator of parameter servers", "strategy ps-sync or ps-async")
        if self._m.job.over:
            raise Conflict("the job is over; nothing is moved any more")
        seat = parameters.move_off(request.node, request.share, request.reason[:LONGEST_REASON])
        await self._m.journal.durable()
        count = len(parameters.book.map.partitions_of(seat.number))
        return pb.MoveOffReply(seat=seat.number, partitions=count, weight=seat.weight)


class NodesServicer(services.NodesServicer):
    def __init__(self, master: Components) -> None:
        self._m = master

    @property
    def _nodes(self) -> Any:
        return _need(self._m.nodes, "node manager", "--need-pod-manager")

    async def Register(self, request: pb.RegisterRequest, context: Context) -> pb.RegisterReply:
        welcome, reason, incarnation = self._nodes.register(
            request.node,
            request.agent_pid,
            request.host[:255],
            request.incarnation,
            request.pid,
            request.address[:255],
        )
        group = self._m.groups.place(request.node) if self._m.groups is not None and welcome else None
        await self._m.journal.durable()
        return pb.RegisterReply(
            welcome=welcome,
            reason=reason,
            incarnation=incarnation,
            heartbeat_seconds=self._m.heartbeat_seconds,
            group=group,
        )

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Context) -> pb.HeartbeatReply:
        stop, grace, reason = self._nodes.heartbeat(request.node)
        usage = request.usage
        self._m.stats.collect_node_resource_usage(
            request.node, NodeUsage(self._m.clock.now(), usage.cpu, usage.memory_mb, usage.memory_limit_mb)
        )
        kill = self._m.note_frozen(request.node, request.incarnation, usage.stopped)
        recall, group = "", None
        if self._m.groups is not None:
            recall, group = self._m.groups.heartbeat(request.node, request.generation, request.grouped)
        await self._m.journal.durable()
        return pb.HeartbeatReply(stop=stop, grace=grace, reason=reason, recall=recall, group=group, kill=kill)

    async def ProgramStarted(self, request: pb.ProgramStartedRequest, context: Context) -> pb.Empty:
        self._nodes.program_started(request.node, request.incarnation, request.pid)
        await self._m.journal.durable()
        return pb.Empty()

    async def ProgramExited(self, request: pb.ProgramExitedRequest, context: Context) -> pb.ProgramExitedReply:
        restart = self._m.program_exited(request)
        group = self._m.groups.place(request.node) if self._m.groups is not None and restart is not None else None
        await self._m.journal.durable()
        if restart is None:
            return pb.ProgramExitedReply(restart=False)
        return pb.ProgramExitedReply(
            restart=True, delay=restart.delay, incarnation=restart.incarnation, reason=restart.reason, group=group
        )


class ShardsServicer(services.ShardsServicer):
    def __init__(self, master: Components) -> None:
        self._m = master

    @property
    def _shards(self) -> Any:
        return _need(self._m.shards, "data shard manager", "--need-task-manager")

    async def CreateDataset(self, request: pb.Dataset, context: Context) -> pb.CreateDatasetReply:
        created = self._shards.create_shards(from_message(request))
        await self._m.journal.durable()
        return pb.CreateDatasetReply(created=created)

    async def GetDataset(self, request: pb.DatasetName, context: Context) -> pb.Dataset:
        spec = self._shards.book.queue(request.name).spec
        await self._m.journal.durable()
        return to_message(spec)

    async def GrowStream(self, request: pb.GrowRequest, context: Context) -> pb.GrowReply:
        length = self._shards.grow_stream(
            request.dataset, request.records, request.close, request.producer, request.number
        )
        await self._m.journal.durable()
        return pb.GrowReply(length=length)

    async def OpenSession(self, request: pb.OpenSessionRequest, context: Context) -> pb.OpenSessionReply:
        self._m.open_session(self._shards, request.session, request.node, request.incarnation)
        await self._m.journal.durable()
        return pb.OpenSessionReply(beat_seconds=self._m.beat_seconds)

    async def CloseSession(self, request: pb.CloseSessionRequest, context: Context) -> pb.Empty:
        self._shards.close_session(request.session)
        await self._m.journal.durable()
        return pb.Empty()

    async def Beat(self, request: pb.BeatRequest, context: Context) -> pb.Empty:
        self._shards.beat(request.session)
        await self._m.journal.durable()
        return pb.Empty()

    async def Exchange(self, request: pb.ExchangeRequest, context: Context) -> pb.ExchangeReply:
        notes = await self._keep_notes(request)
        answer = self._shards.get_shard(
            request.session,
            request.request,
            request.dataset or None,
            request.want,
            list(request.done),
            [[p.lease, p.records] for p in request.progress],
            [[f.lease, f.message[:2000]] for f in request.failed],
            list(request.released),
            notes,
        )
        await self._m.journal.durable()
        reply = pb.ExchangeReply(refused=answer.refused, supply=answer.supply.value)
        for lease in answer.leases:
            _put_shard(reply, lease)
        return reply

    async def _keep_notes(self, request: pb.ExchangeRequest) -> list[list[Any]]:
        if not request.notes:
            return []
        store = _need(self._shards.notes, "store for notes", "--need-task-manager")
        kept = [asyncio.to_thread(store.keep, request.dataset, note.data) for note in request.notes]
        return [[note.lease, text] for note, text in zip(request.notes, await asyncio.gather(*kept), strict=True)]

    async def GetNotes(self, request: pb.NotesRequest, context: Context) -> pb.NotesReply:
        queue = self._shards.book.queue(request.dataset)
        store = _need(self._shards.notes, "store for notes", "--need-task-manager")
        numbered = sorted(queue.notes.items())
        await self._m.journal.durable()
        reply, size = pb.NotesReply(complete=queue.complete), 0
        for (epoch, ordinal), text in numbered[max(0, request.skip) :]:
            extent = queue.extent(Piece(epoch, ordinal))
            data = await asyncio.to_thread(store.read, request.dataset, text)
            if reply.notes and size + len(data) > NOTES_PER_REPLY:
                reply.more = True
                break
            size += len(data)
            reply.notes.add(
                epoch=epoch, ordinal=ordinal, name=extent.name, start=extent.start, end=extent.end, data=data
            )
        return reply

    async def CommitPlan(self, request: pb.CommitPlanRequest, context: Context) -> pb.Empty:
        self._shards.commit_plan(request.dataset, request.shards, request.node, end=request.end)
        await self._m.journal.durable()
        return pb.Empty()

    async def EndDataset(self, request: pb.DatasetName, context: Context) -> pb.Empty:
        self._shards.end_dataset(request.name)
        await self._m.journal.durable()
        return pb.Empty()

    async def WaitForShards(self, request: pb.WaitForShardsRequest, context: Context) -> pb.WaitForShardsReply:
        shards = self._shards
        if request.session:
            shards.beat(request.session)
        supply = await _at_most(shards.wait_for_shards(request.dataset, request.session), context, self._m.longest_wait)
        if request.session:
            shards.beat(request.session)
        await self._m.journal.durable()
        return pb.WaitForShardsReply(supply=supply.value if supply else "wait")

    async def Checkpoint(self, request: pb.Empty, context: Context) -> pb.ShardCheckpoint:
        saved = self._shards.checkpoint()
        await self._m.journal.durable()
        return pb.ShardCheckpoint(json=json.dumps(saved, separators=(",", ":")))

    async def RestoreCheckpoint(self, request: pb.ShardCheckpoint, context: Context) -> pb.Empty:
        try:
            saved = json.loads(request.json)
            self._shards.restore_checkpoint(saved)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise InvalidRequest(f"this is no shard checkpoint: {error}") from error
        await self._m.journal.durable()
        return pb.Empty()


class RendezvousServicer(services.RendezvousServicer):
    def __init__(self, master: Components) -> None:
        self._m = master

    @property
    def _rendezvous(self) -> Any:
        return _need(self._m.rendezvous, "rendezvous server", "strategy allreduce, or --need-rendezvous")

    async def Join(self, request: pb.JoinRequest, context: Context) -> pb.Empty:
        after = request.after if request.HasField("after") else None
        self._rendezvous.join(request.member, request.incarnation, dict(request.attrs), request.step, after)
        await self._m.journal.durable()
        return pb.Empty()

    async def Leave(self, request: pb.LeaveRequest, context: Context) -> pb.Empty:
        self._rendezvous.leave(request.member, request.incarnation)
        await self._m.journal.durable()
        return pb.Empty()

    async def GetWorld(self, request: pb.GetWorldRequest, context: Context) -> pb.GetWorldReply:
        self._rendezvous.heard_of(request.member)
        found = await _at_most(
            self._rendezvous.get_world(request.member, request.incarnation), context, self._m.longest_wait
        )
        self._rendezvous.heard_of(request.member)
        await self._m.journal.durable()
        match found:
            case None:
                return pb.GetWorldReply(state="waiting")
            case World():
                return pb.GetWorldReply(state="world", world=world_message(found))
            case Expelled(reason=reason):
                return pb.GetWorldReply(state="expelled", reason=reason)
            case Waiting(reason=reason, join_again=again, round=round):
                return pb.GetWorldReply(state="rejoin" if again else "waiting", reason=reason, round=round)
        raise AssertionError(found)

    async def WatchRound(self, request: pb.WatchRoundRequest, context: Context) -> pb.RoundStatus:
        rendezvous = self._rendezvous
        if request.member:
            rendezvous.heard_of(request.member)
        status = await _at_most(
            rendezvous.watch_round(request.round, request.known_waiting), context, self._m.longest_wait
        )
        await self._m.journal.durable()
        if status is None:
            status = rendezvous.machine.status(request.round)
        return pb.RoundStatus(
            intact=status.intact,
            superseded=status.superseded,
            missing=status.missing,
            waiting=status.waiting,
            closed=rendezvous.machine.closed,
        )

    async def SetLimits(self, request: pb.SetLimitsRequest, context: Context) -> pb.Empty:
        wait_seconds = request.wait_seconds if request.HasField("wait_seconds") else None
        self._rendezvous.set_limits(request.min_nodes, request.max_nodes, wait_seconds)
        await self._m.journal.durable()
        return pb.Empty()

    async def Close(self, request: pb.Empty, context: Context) -> pb.Empty:
        self._rendezvous.close()
        await self._m.journal.durable()
        return pb.Empty()


class TrainingServicer(services.TrainingServicer):
    def __init__(self, master: Components) -> None:
        self._m = master

    @property
    def _training(self) -> Any:
        return _need(self._m.training, "training service", "--need-training-service")

    async def ReportVersion(self, request: pb.ReportVersionRequest, context: Context) -> pb.ReportVersionReply:
        queued = self._training.report_version(request.version, evaluate=request.evaluate)
        await self._m.journal.durable()
        return pb.ReportVersionReply(queued=queued)

    async def Define(self, request: pb.TrainingDefinition, context: Context) -> pb.Empty:
        self._training.define(from_message(request.evaluation), request.monitor[:LONGEST_NAME], request.mode)
        await self._m.journal.durable()
        return pb.Empty()

    async def Watch(self, request: pb.WatchTrainingRequest, context: Context) -> pb.TrainingState:
        await _at_most(self._training.watch(request.known), context, self._m.longest_wait)
        await self._m.journal.durable()
        state: pb.TrainingState = self._training.state()
        return state

    async def ClaimRound(self, request: pb.ClaimRoundRequest, context: Context) -> pb.ClaimRoundReply:
        claimed = self._training.claim(request.version, request.session)
        await self._m.journal.durable()
        return pb.ClaimRoundReply(claimed=claimed)

    async def GiveUpRound(self, request: pb.GiveUpRoundRequest, context: Context) -> pb.Empty:
        self._training.give_up(request.version, request.reason[:LONGEST_REASON])
        await self._m.journal.durable()
        return pb.Empty()

    async def StopTraining(self, request: pb.StopRequest, context: Context) -> pb.Empty:
        self._training.stop(request.reason[:LONGEST_REASON])
        await self._m.journal.durable()
        return pb.Empty()

    async def GetEvaluation(self, request: pb.Empty, context: Context) -> pb.EvaluationReply:
        round = self._training.book.open_round
        await self._m.journal.durable()
        return pb.EvaluationReply(version=round.version, dataset=round.dataset) if round else pb.EvaluationReply()

    async def ReportEvaluation(self, request: pb.ReportEvaluationRequest, context: Context) -> pb.Empty:
        if len(request.metrics) > MOST_METRICS:
            raise InvalidRequest(f"{len(request.metrics)} metrics of one evaluation; allowed: {MOST_METRICS}")
        if request.session:
            self._training.score(request.version, request.session, dict(request.metrics), request.records)
        else:
            self._training.report_metrics(request.version, dict(request.metrics))
        await self._m.journal.durable()
        return pb.Empty()


class ParametersServicer(services.ParametersServicer):
    def __init__(self, master: Components) -> None:
        self._m = master

    @property
    def _parameters(self) -> ParameterCoordinator:
        return _need(self._m.parameters, "coordinator of parameter servers", "strategy ps-sync or ps-async")

    async def JoinSeat(self, request: pb.JoinSeatRequest, context: Context) -> pb.JoinSeatReply:
        parameters = self._parameters
        self._m.check_run(request.node, request.incarnation)
        seat = await _at_most(parameters.join(request.node, request.incarnation), context, SEAT_WAIT)
        await self._m.journal.durable()
        return parameters.joined_message(seat) if seat is not None else pb.JoinSeatReply(seat=-1)

    async def SeatReady(self, request: pb.SeatReadyRequest, context: Context) -> pb.Empty:
        self._parameters.ready(request.seat, request.tenure, request.address[:300])
        await self._m.journal.durable()
        return pb.Empty()

    async def NextOrders(self, request: pb.NextOrdersRequest, context: Context) -> pb.NextOrdersReply:
        parameters = self._parameters
        orders = await _at_most(parameters.next_orders(request), context, ORDERS_WAIT)
        await self._m.journal.durable()
        base, kept = parameters.book.base.order, parameters.book.kept()
        return pb.NextOrdersReply(orders=[order_message(order) for order in orders or ()], base=base, kept=kept)

    async def ReportDump(self, request: pb.ReportDumpRequest, context: Context) -> pb.Empty:
        self._parameters.report_dump(request.seat, request.tenure, request.order, request.failure[:LONGEST_REASON])
        await self._m.journal.durable()
        return pb.Empty()

    async def SeatAlive(self, request: pb.SeatTenure, context: Context) -> pb.Empty:
        self._parameters.alive(request.seat, request.tenure)
        return pb.Empty()

    async def GetMap(self, request: pb.GetMapRequest, context: Context) -> pb.ParameterMap:
        parameters = self._parameters
        await _at_most(parameters.wait_for_map(request.version, request.roster), context, self._m.longest_wait)
        await self._m.journal.durable()
        return parameters.map_message()

    async def Define(self, request: pb.DefineRequest, context: Context) -> pb.ParameterMap:
        self._parameters.define(parse_specs(request.tables), parse_specs(request.variables))
        await self._m.journal.durable()
        return self._parameters.map_message()

    async def Assign(self, request: pb.ContributeRequest, context: Context) -> pb.ContributeReply:
        verdict = self._parameters.assign(request)
        await self._m.journal.durable()
        return verdict_message(verdict)

    async def Contribute(self, request: pb.ContributeRequest, context: Context) -> pb.ContributeReply:
        reply = self._parameters.contribute(request)
        await self._m.journal.durable()
        return reply

    async def Schedule(self, request: pb.ScheduleRequest, context: Context) -> pb.ScheduleReply:
        reply = self._parameters.schedule(request)
        await self._m.journal.durable()
        return reply

    async def Dump(self, request: pb.DumpRequest, context: Context) -> pb.DumpReply:
        parameters = self._parameters
        found = await _at_most(parameters.dump(request.full), context, DUMP_WAIT)
        await self._m.journal.durable()
        if found is None:
            return pb.DumpReply(complete=False)
        order, iteration, complete = found
        path = str(dump_folder(parameters.folder, order))
        return pb.DumpReply(order=order, iteration=iteration, path=path, complete=complete)


class StatsServicer(services.StatsServicer):
    def __init__(self, master: Components) -> None:
        self._m = master

    async def ReportStep(self, request: pb.ReportStepRequest, context: Context) -> pb.Empty:
        self._m.report_step(request.node, request.step, request.records, dict(request.metrics))
        return pb.Empty()


def add_services(server: grpc.aio.Server, master: Components) -> None:
    services.add_JobServicer_to_server(JobServicer(master), server)
    services.add_NodesServicer_to_server(NodesServicer(master), server)
    services.add_ShardsServicer_to_server(ShardsServicer(master), server)
    services.add_RendezvousServicer_to_server(RendezvousServicer(master), server)
    services.add_TrainingServicer_to_server(TrainingServicer(master), server)
    services.add_ParametersServicer_to_server(ParametersServicer(master), server)
    services.add_StatsServicer_to_server(StatsServicer(master), server)


def _put_shard(reply: pb.ExchangeReply, lease: Lease) -> None:
    """Field by field: a third of the time of a message made apart and copied in, and there are thousands per call."""
    piece, extent, shard = lease.piece, lease.extent, reply.shards.add()
    shard.lease = lease.number
    shard.name = extent.name
    shard.start = extent.start
    shard.end = extent.end
    shard.offset = piece.offset
    shard.epoch = piece.epoch
    shard.ordinal = piece.ordinal
    if lease.indices:
        shard.indices.extend(lease.indices)
