"""Membership in worlds: joining, watching, leaving, through the job's master.

A thread keeps a long poll for changes of the current round at the master; it notifies the world when a peer is gone and
how many wait to be admitted, and it is this process's heartbeat. While the master is unavailable the thread keeps retrying, and
training continues: only a change of the world has to wait.

A master that does not know the round (``NotFound``) took over from one whose journal is lost; the members announce their world to
it (``core/takeover.py``), and training continues as well.

While a world connects, its members exchange their addresses through the master, which keeps them in memory only. So what a
member published is never published again: if the master is restarted meanwhile, the member joins again, whereupon its peers do.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc

from pliant.client.job import Job
from pliant.core.errors import Conflict, NotFound, RetryableError, SessionExpired
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.rendezvous.failure_detector import WaitPace
from pliant.core.rendezvous.seat_assignment import VIRTUAL_WORKERS
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import DEADLINE_S
from pliant.rpc.own_address import own_address
from pliant.torch.worlds.group_reaper import wait_for_reaped_groups
from pliant.torch.worlds.world import CONNECT_TIMEOUT_S, Peer, World, WorldBroken, connect

log = logging.getLogger(__name__)

MAX_RETRY_PAUSE_S = 0.02  # peers wait meanwhile
WATCH_TIMEOUT_S = 2.0  # a long poll is renewed after this
WORLD_TIMEOUT_S = 20.0
LEAVE_TIMEOUT_S = 0.5  # for a master that does not answer
MAX_UNITS = 4 * 4096  # a member's units travel as bits in one attribute of at most 4096 hex digits


class Expelled(RetryableError):
    """The master expelled this process (it was frozen, say); it may join again as a new member, without its state."""


class TrainingOver(SystemExit):
    """The others have finished the training that this process came to join; there is nothing left to do."""

    def __init__(self, message: str) -> None:
        super().__init__(0)
        self.message = message


class Membership:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._master = job.master
        self._host = own_address(self._master.address.target)
        self._incarnation = uuid.uuid4().hex
        self._retry_timeout = NodeEnvironment.from_env(os.environ).orphan_timeout
        self._round = 0  # of the last world that this incarnation was in
        self._last_world: pb.World | None = None  # as the master sent it
        self._watched: World | None = None
        self._pace = WaitPace()
        self._probe = 0  # the last that the master asked for
        self._wake = threading.Event()
        self._pending_call: Any = None  # the one that waits for news
        self._suspicion: Any = None  # the last such call; gRPC cancels one that nobody holds
        self._closed = False
        self._watcher = threading.Thread(target=self._watch, name="pliant-world", daemon=True)
        self._watcher.start()

    def join(self, progress: int, *, has_state: bool, units: frozenset[int], virtual_workers: int) -> World:
        """Wait for the next world and connect to it.

        Raises ``Expelled`` if the master expelled this process meanwhile; a peer that dies while the world is formed only
        leads to another try.
        """
        attrs = {
            "state": "1" if has_state else "0",
            "units": f"{sum(1 << unit for unit in units):x}",
            VIRTUAL_WORKERS: str(virtual_workers),
        }
        while True:
            self._ask_to_join(progress, attrs)
            found = self._wait_for_world()
            if found is None:
                continue
            world = self._enter(found)
            try:
                connect(world, self._host, self._exchange)
            except WorldBroken as error:
                log.info("%s", error)
                world.leave()
                continue
            return world

    def subgroup(self, world: World, ranks: Sequence[int]) -> World:
        return world.subgroup(ranks, self._host, self._exchange)

    def close(self, *, ends_process: bool = False) -> None:
        """Leave for good. ``ends_process``: it ends now (``torch/termination.py``), so nothing is torn down or waited for."""
        if self._closed:
            return
        self._closed = True
        if self._watched is not None:
            self._watched.abandon() if ends_process else self._watched.leave()
        leaving = self._report_leaving()
        self._wake.set()
        if (call := self._pending_call) is not None:
            call.cancel()
        if not ends_process:
            self._watcher.join(5)
            wait_for_reaped_groups(3)
        if leaving is not None:
            try:
                leaving.result(LEAVE_TIMEOUT_S)
            except (grpc.RpcError, grpc.FutureTimeoutError, grpc.FutureCancelledError) as error:
                log.debug("leaving was not reported to the master: %s", error)

    def _report_leaving(self) -> Any:
        """The call, beside which the rest is closed. Without it the master learns by the end of the process, from its agent."""
        if self._job.closed:
            return None
        request = pb.LeaveRequest(member=self._job.node, incarnation=self._incarnation)
        try:
            leave = self._master.stubs.rendezvous.Leave
            return self._master.start(leave, request, timeout=LEAVE_TIMEOUT_S)
        except ValueError:  # the job was closed meanwhile
            return None

    # --- joining

    def _call(self, method: Callable[..., Any], request: Any, *, timeout: float = DEADLINE_S) -> Any:
        return self._master.call_with_retry(
            method, request, retry_timeout=self._retry_timeout, timeout=timeout, max_pause=MAX_RETRY_PAUSE_S
        )

    def _ask_to_join(self, progress: int, attrs: dict[str, str]) -> None:
        request = pb.JoinRequest(
            member=self._job.node, incarnation=self._incarnation, attrs=attrs, step=progress, after=self._round
        )
        try:
            try:
                self._call(self._master.stubs.rendezvous.Join, request)
            except NotFound:  # of the round
                self._call(self._master.stubs.rendezvous.Announce, self._announcement())
                self._call(self._master.stubs.rendezvous.Join, request)
        except SessionExpired as error:
            self._begin_anew()
            raise Expelled(f"{self._job.node} was expelled: {error.message}") from None
        except Conflict as error:
            raise TrainingOver(error.message) from None

    def _begin_anew(self) -> None:
        """As a new incarnation, which was in no world yet."""
        self._incarnation, self._round, self._last_world = uuid.uuid4().hex, 0, None

    def _announcement(self) -> pb.AnnounceRequest:
        """For a master that took over: which world this process was put into."""
        log.info("another master takes over; announcing round %d", self._round)
        return pb.AnnounceRequest(
            member=self._job.node, incarnation=self._incarnation, world=self._last_world, after=self._round
        )

    def _wait_for_world(self) -> pb.World | None:
        """The world that this process is a member of; None: join again."""
        request = pb.GetWorldRequest(member=self._job.node, incarnation=self._incarnation)
        while True:
            reply = self._call(self._master.stubs.rendezvous.GetWorld, request, timeout=WORLD_TIMEOUT_S)
            match reply.state:
                case pb.WORLD_STATE_FORMED:
                    world: pb.World = reply.world
                    return world
                case pb.WORLD_STATE_REJOIN:
                    self._round = max(self._round, reply.round)
                    return None
                case pb.WORLD_STATE_CLOSED:
                    raise TrainingOver(reply.reason)
                case pb.WORLD_STATE_EXPELLED:
                    self._begin_anew()
                    raise Expelled(f"{self._job.node} was expelled: {reply.reason}")

    def _enter(self, found: pb.World) -> World:
        peers = [_peer(member) for member in found.members]
        rank = [peer.name for peer in peers].index(self._job.node)
        world = World(found.round, rank, peers, seats=tuple(found.seats), pace=self._pace, on_overdue=self._suspect)
        self._round, self._last_world = found.round, found
        self._watched = world
        self._wake.set()
        return world

    def _exchange(self, world: World, keys: dict[str, bytes]) -> Sequence[Mapping[str, bytes]]:
        """Publish this process's keys once and wait for those of all peers."""
        request = pb.ExchangeAddressesRequest(
            round=world.round,
            member=self._job.node,
            incarnation=self._incarnation,
            group="part" if world.ranks else "",
            ranks=world.ranks,
            keys=keys,
        )
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while (left := deadline - time.monotonic()) > 0 and not world.broken.is_set():
            try:
                reply = self._master.call(self._master.stubs.rendezvous.ExchangeAddresses, request, timeout=left)
            except (RetryableError, NotFound) as error:
                raise WorldBroken(f"round {world.round}: no exchange of addresses: {error.message}") from None
            match reply.state:
                case pb.EXCHANGE_STATE_COMPLETE:
                    return [published.keys for published in reply.published]
                case pb.EXCHANGE_STATE_BROKEN:
                    break
            request.ClearField("keys")
        raise WorldBroken(f"round {world.round}: a peer was lost before all had published their addresses")

    # --- watching

    def _suspect(self, world: World) -> None:
        """Ask the master whether a peer has failed; its answer, if there is one, is that the round is broken."""
        request = pb.SuspectRequest(round=world.round, member=self._job.node, incarnation=self._incarnation)
        log.debug("round %d: peers are waited for longer than usual", world.round)
        try:
            suspect = self._master.stubs.rendezvous.Suspect
            self._suspicion = self._master.start(suspect, request, timeout=WATCH_TIMEOUT_S)
        except ValueError:  # the job was closed
            return

    def _watch(self) -> None:
        while not self._closed and not self._job.closed:
            world = self._watched
            if world is None or world.broken.is_set():
                self._wake.wait(WATCH_TIMEOUT_S)
                self._wake.clear()
                continue
            request = pb.WatchRoundRequest(
                round=world.round,
                known_waiting=world.waiting,
                known_outdated=world.outdated,
                known_probe=self._probe,
                member=self._job.node,
                incarnation=self._incarnation,
            )
            try:
                watch = self._master.stubs.rendezvous.WatchRound
                self._pending_call = self._master.start(watch, request, timeout=WATCH_TIMEOUT_S)
                if self._closed:  # ``close`` may have cancelled the call before this one
                    self._pending_call.cancel()
                status = self._pending_call.result()
            except (grpc.RpcError, grpc.FutureCancelledError, ValueError) as error:  # ValueError: the job was closed
                log.debug("no news of round %d: %s", world.round, error)
                if self._closed:
                    return
                if isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.NOT_FOUND:
                    self._announce()
                self._wake.clear()  # else the wait is none, and this a busy loop while the master is away
                self._wake.wait(0.1)
                continue
            world.waiting, world.outdated = status.waiting, status.outdated
            self._probe = status.probe
            if not status.intact:
                world.break_up()

    def _announce(self) -> None:
        """While training goes on; a failure is repeated with the next look."""
        try:
            announce = self._master.stubs.rendezvous.Announce
            self._pending_call = self._master.start(announce, self._announcement(), timeout=WATCH_TIMEOUT_S)
            if self._closed:
                self._pending_call.cancel()
            self._pending_call.result()
        except (grpc.RpcError, grpc.FutureCancelledError, ValueError) as error:
            log.debug("cannot announce the world: %s", error)


def _peer(member: pb.Member) -> Peer:
    bits = int(member.attrs["units"], 16)
    units = frozenset(unit for unit in range(bits.bit_length()) if bits >> unit & 1)
    return Peer(member.name, member.step, member.attrs["state"] == "1", units)
