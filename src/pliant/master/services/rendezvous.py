"""Calls of workers that form a world."""

from __future__ import annotations

from dataclasses import asdict

from pliant.core.rendezvous.book import Closed, Expelled, RoundStatus, Waiting, World
from pliant.master.components.rendezvous import RendezvousServer
from pliant.master.controller import JobController
from pliant.master.services.waiting import Context, at_most
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.status import world_from_message, world_message


class RendezvousServicer(services.RendezvousServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    @property
    def _rendezvous(self) -> RendezvousServer:
        return self._controller.require(RendezvousServer)

    async def Join(self, request: pb.JoinRequest, context: Context) -> pb.Empty:
        after = request.after if request.HasField("after") else None
        self._rendezvous.join(request.member, request.incarnation, dict(request.attrs), request.step, after)
        await self._controller.journal.durable()
        return pb.Empty()

    async def Announce(self, request: pb.AnnounceRequest, context: Context) -> pb.Empty:
        world = asdict(world_from_message(request.world)) if request.HasField("world") else None
        self._rendezvous.announce(request.member, request.incarnation, world, request.after)
        await self._controller.journal.durable()
        return pb.Empty()

    async def Leave(self, request: pb.LeaveRequest, context: Context) -> pb.Empty:
        self._rendezvous.leave(request.member, request.incarnation)
        await self._controller.journal.durable()
        return pb.Empty()

    async def GetWorld(self, request: pb.GetWorldRequest, context: Context) -> pb.GetWorldReply:
        self._rendezvous.heard_of(request.member)
        found = await at_most(
            self._rendezvous.get_world(request.member, request.incarnation), context, self._controller.max_wait_s
        )
        self._rendezvous.heard_of(request.member)
        await self._controller.journal.durable()
        match found:
            case None:
                return pb.GetWorldReply(state=pb.WORLD_STATE_WAITING)
            case World():
                return pb.GetWorldReply(state=pb.WORLD_STATE_FORMED, world=world_message(found))
            case Expelled(reason=reason):
                return pb.GetWorldReply(state=pb.WORLD_STATE_EXPELLED, reason=reason)
            case Closed(reason=reason):
                return pb.GetWorldReply(state=pb.WORLD_STATE_CLOSED, reason=reason)
            case Waiting(reason=reason, join_again=again, round=round):
                state = pb.WORLD_STATE_REJOIN if again else pb.WORLD_STATE_WAITING
                return pb.GetWorldReply(state=state, reason=reason, round=round)
        raise AssertionError(found)

    async def WatchRound(self, request: pb.WatchRoundRequest, context: Context) -> pb.RoundStatus:
        rendezvous = self._rendezvous
        if request.member:
            rendezvous.heard_of(request.member)
        status = await at_most(
            rendezvous.watch_round(
                request.round,
                request.known_waiting,
                request.known_outdated,
                request.known_probe if request.HasField("known_probe") else None,
            ),
            context,
            self._controller.max_wait_s,
        )
        await self._controller.journal.durable()
        if status is None:
            status = rendezvous.book.status(request.round)
        return pb.RoundStatus(
            intact=status.intact,
            superseded=status.superseded,
            missing=status.missing,
            waiting=status.waiting,
            outdated=status.outdated,
            closed=rendezvous.book.closed,
            probe=rendezvous.probe,
        )

    async def Suspect(self, request: pb.SuspectRequest, context: Context) -> pb.Empty:
        self._rendezvous.suspect(request.round, request.member, request.incarnation)
        await self._controller.journal.durable()
        return pb.Empty()

    async def ExchangeAddresses(
        self, request: pb.ExchangeAddressesRequest, context: Context
    ) -> pb.ExchangeAddressesReply:
        rendezvous = self._rendezvous
        who = (request.round, request.member, request.incarnation)
        rendezvous.heard_of(request.member)
        if request.keys:
            rendezvous.publish_keys(*who, group=request.group, ranks=request.ranks, keys=dict(request.keys))
        found = await at_most(rendezvous.collect_keys(*who, group=request.group), context, self._controller.max_wait_s)
        await self._controller.journal.durable()
        match found:
            case None:
                return pb.ExchangeAddressesReply(state=pb.EXCHANGE_STATE_WAITING)
            case RoundStatus():
                return pb.ExchangeAddressesReply(state=pb.EXCHANGE_STATE_BROKEN)
        published = [pb.PublishedKeys(keys=keys) for keys in found]
        return pb.ExchangeAddressesReply(state=pb.EXCHANGE_STATE_COMPLETE, published=published)

    async def SetLimits(self, request: pb.SetLimitsRequest, context: Context) -> pb.Empty:
        wait_seconds = request.wait_seconds if request.HasField("wait_seconds") else None
        self._rendezvous.set_limits(request.min_nodes, request.max_nodes, wait_seconds)
        await self._controller.journal.durable()
        return pb.Empty()

    async def Close(self, request: pb.Empty, context: Context) -> pb.Empty:
        self._rendezvous.close()
        await self._controller.journal.durable()
        return pb.Empty()
