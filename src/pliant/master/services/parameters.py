"""The gRPC service of parameter servers: protobuf in, a call of the coordinator, protobuf out
(``rpc/parameters.py``, ``rpc/contributions.py``)."""

from __future__ import annotations

from pliant.core.planning.node_summary import MAX_PARTITION_LOADS
from pliant.core.status_builder import seat_statuses
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.master.controller import JobController
from pliant.master.services.waiting import MAX_REASON, Context, at_most
from pliant.rpc import parameters as convert
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.contributions import batch_from_message, batch_reply, orders_message
from pliant.rpc.status import server_stats_from_message

MAX_SEAT_WAIT_S = 5.0  # a server that waits for a seat asks again
MAX_ORDERS_WAIT_S = 1.0  # with every call a server reports its progress and usage
MAX_DUMP_WAIT_S = 600.0
MAX_ADDRESS = 300  # characters


class ParametersServicer(services.ParametersServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    @property
    def _parameters(self) -> ParameterCoordinator:
        return self._controller.require(ParameterCoordinator)

    # --- servers

    async def JoinSeat(self, request: pb.JoinSeatRequest, context: Context) -> pb.JoinSeatReply:
        parameters = self._parameters
        self._controller.check_run(request.node, request.incarnation)
        seat = await at_most(parameters.join(request.node, request.incarnation), context, MAX_SEAT_WAIT_S)
        await self._controller.journal.durable()
        return convert.join_reply(parameters.book.restore_point(seat)) if seat is not None else pb.JoinSeatReply()

    async def SeatReady(self, request: pb.SeatReadyRequest, context: Context) -> pb.Empty:
        holder = request.holder
        self._parameters.ready(holder.seat, holder.fencing_token, request.address[:MAX_ADDRESS])
        await self._controller.journal.durable()
        return pb.Empty()

    async def NextOrders(self, request: pb.NextOrdersRequest, context: Context) -> pb.NextOrdersReply:
        parameters, holder = self._parameters, request.holder
        stats = server_stats_from_message(request.stats)
        waiting = parameters.next_orders(
            holder.seat,
            holder.fencing_token,
            request.after,
            stats,
            list(request.messages),
            {one.partition: one.share for one in request.load[:MAX_PARTITION_LOADS] if 0 <= one.share <= 1},
        )
        orders = await at_most(waiting, context, MAX_ORDERS_WAIT_S)
        await self._controller.journal.durable()
        return orders_message(orders or (), parameters.book.base.order)

    async def ReportDump(self, request: pb.ReportDumpRequest, context: Context) -> pb.Empty:
        dumps, holder = self._parameters.dumps, request.holder
        if request.failure:
            dumps.failed(holder.seat, holder.fencing_token, request.order, request.failure[:MAX_REASON])
        else:
            dumps.written(holder.seat, holder.fencing_token, request.order)
        await self._controller.journal.durable()
        return pb.Empty()

    async def SeatAlive(self, request: pb.SeatHolder, context: Context) -> pb.Empty:
        self._parameters.alive(request.seat, request.fencing_token)
        return pb.Empty()

    # --- workers

    async def GetMap(self, request: pb.GetMapRequest, context: Context) -> pb.ParameterMap:
        waiting = self._parameters.wait_for_map(request.version, request.seats_version)
        await at_most(waiting, context, self._controller.max_wait_s)
        await self._controller.journal.durable()
        return self._map()

    async def Define(self, request: pb.DefineRequest, context: Context) -> pb.ParameterMap:
        tables, variables = convert.definitions_from(request.tables), convert.definitions_from(request.variables)
        self._parameters.define(tables, variables)
        await self._controller.journal.durable()
        return self._map()

    async def Assign(self, request: pb.AssignRequest, context: Context) -> pb.ContributeReply:
        holders = convert.holders_from(request.holders)
        decision = self._parameters.assign(
            request.session, request.sequence, list(request.names), holders, request.map_version
        )
        await self._controller.journal.durable()
        return convert.push_reply(decision)

    async def Contribute(self, request: pb.ContributeRequest, context: Context) -> pb.ContributeReply:
        parameters = self._parameters
        (decision,) = parameters.contribute(request.session, [convert.push_with_records(request)])
        reply = convert.push_reply(decision, parameters.book.scheduled)
        await self._controller.journal.durable()
        return reply

    async def ContributeBatch(self, request: pb.ContributeBatchRequest, context: Context) -> pb.ContributeBatchReply:
        parameters = self._parameters
        decisions = parameters.contribute(request.session, batch_from_message(request))
        reply = batch_reply(decisions, parameters.book.scheduled)
        await self._controller.journal.durable()
        return reply

    async def Schedule(self, request: pb.ScheduleRequest, context: Context) -> pb.ScheduleReply:
        parameters = self._parameters
        parameters.schedule(request.first, convert.schedule_rows(request))
        reply = pb.ScheduleReply(iteration=parameters.book.iteration, scheduled=parameters.book.scheduled)
        await self._controller.journal.durable()
        return reply

    async def Dump(self, request: pb.DumpRequest, context: Context) -> pb.DumpReply:
        found = await at_most(self._parameters.dumps.request(full=request.full), context, MAX_DUMP_WAIT_S)
        await self._controller.journal.durable()
        if found is None:
            return pb.DumpReply(complete=False)
        return pb.DumpReply(order=found.order, iteration=found.iteration, path=str(found.path), complete=found.complete)

    def _map(self) -> pb.ParameterMap:
        parameters = self._parameters
        seats = seat_statuses(parameters.book, parameters.figures().servers)
        return convert.parameter_map_message(parameters.book, seats)
