"""The rendezvous server: the shell around ``core.rendezvous.book.RendezvousBook``; it wakes those that wait for a world."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pliant.core.clock import Clock
from pliant.core.end_policy import worker_roles
from pliant.core.errors import MasterUnavailable
from pliant.core.events import MemberSilent, ProgramFrozen, WorldFormed, WorldLimitsSet, WorldTakenOver
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.rendezvous.book import Closed, Expelled, Outcome, RendezvousBook, RoundStatus, Waiting, World
from pliant.core.rendezvous.exchange import AddressExchange, Keys
from pliant.core.rendezvous.failure_detector import FailureDetector
from pliant.master.components.base import Component
from pliant.master.components.signals import (
    HeartbeatsPaced,
    JobOver,
    MasterPaused,
    NodesAdopted,
    NodesChanged,
    NodesIdle,
    ProgramGone,
    ProgramStopped,
    Signal,
    SignalBus,
    WorldInUse,
)
from pliant.master.journal.journal import Journal

MAX_STOPPED_S = (
    1.5  # that a program may be stopped before its peers continue without it, though none of them misses it yet
)
LOOK_INTERVAL_S = 0.1  # while a member is suspected


class RendezvousServer(Component):
    name = "rendezvous"
    title = "rendezvous server"
    enabled_by = "strategy allreduce, or --need-rendezvous"

    def __init__(
        self,
        book: RendezvousBook,
        journal: Journal,
        clock: Clock,
        signals: SignalBus,
        *,
        member_timeout: float,
        takes_over: bool = False,
    ) -> None:
        """``member_timeout``: seconds of silence after which a member is out of its world. ``takes_over``: members may be in
        worlds that the journal does not know (``core/takeover.py``)."""
        self.book = book
        self._takes_over = takes_over
        self._member_timeout = member_timeout
        self._journal = journal
        self._clock = clock
        self._signals = signals
        self._changed = asyncio.Event()
        self._exchange = AddressExchange()  # not journaled
        self._expected = -1
        self._heard: dict[str, float] = {}  # member -> when; not journaled
        self._awaited_since = 0.0
        self._nodes: NodeBook | None = None
        self._detector = FailureDetector(member_timeout)
        self._heartbeat_interval = 1.0
        self._next_look: asyncio.TimerHandle | None = None

    def prepare(self) -> None:
        self._resume()

    def on_event(self, signal: Signal) -> None:
        match signal:
            case ProgramGone(node=node, exit_reason=reason):
                finished = reason is ExitReason.COMPLETED and self.was_member(node)
                self.died(node)
                if finished:  # training is complete: a late worker must not restart it
                    self.close()
            case ProgramStopped(node=node, seconds=seconds) if seconds >= MAX_STOPPED_S and self.is_member(node):
                self._frozen(node)
            case ProgramStopped(node=node, seconds=seconds):
                self._detector.stopped(self._clock.now(), node, seconds)
                self._look()
            case HeartbeatsPaced(seconds=seconds):
                self._heartbeat_interval = seconds
            case NodesAdopted(living=living, finished=finished):
                self._take_over(living, finished)
            case NodesChanged(nodes=nodes):
                self._nodes = nodes
                self.expect(sum(len(nodes.active(role)) for role in worker_roles(nodes)))
            case MasterPaused():
                self._resume()
            case JobOver():
                self.close()
            case _:
                return

    def join(self, member: str, incarnation: str, attrs: dict[str, str], step: int, after: int | None) -> None:
        self._check_ready()
        self._publish(
            self._journal.do(
                self.book.join, member=member, incarnation=incarnation, attrs=attrs, step=step, after=after
            )
        )
        self._detector.returned(member)
        self.heard_of(member)

    def announce(self, member: str, incarnation: str, world: dict[str, Any] | None, after: int) -> None:
        """The world that a member knows of, and this master does not: the journal of an earlier one is lost."""
        self._check_ready()
        before = self.book.world
        self._publish(
            self._journal.do(self.book.announce, member=member, incarnation=incarnation, world=world, after=after)
        )
        taken = self.book.world
        if taken is None or taken is before:
            return
        names = tuple(m.name for m in taken.members)
        self._journal.event(WorldTakenOver(node=member, round=taken.round, members=names))
        self._heard |= dict.fromkeys(names, self._clock.now())
        for name in names:
            if not self._is_there(name):  # it died while there was no master
                self.died(name)

    def _check_ready(self) -> None:
        if self._takes_over and self._nodes is None:
            raise MasterUnavailable("the master does not know its nodes yet")

    def _take_over(self, living: tuple[str, ...], finished: tuple[str, ...]) -> None:
        if finished:  # training is complete, as when its program ended under a master
            self.close()
        self._publish(self._journal.do(self.book.take_over, members=list(living)))
        self._awaited_since = self._clock.now()

    def _is_there(self, name: str) -> bool:
        """Whether this node lives; members of other names are guests, of which no node tells."""
        if self._nodes is None or name.rpartition("-")[0] not in self._nodes.roles():
            return True
        return any(node.name == name for node in self._nodes.live())

    def leave(self, member: str, incarnation: str) -> None:
        self._publish(self._journal.do(self.book.leave, member=member, incarnation=incarnation))

    def suspect(self, round: int, member: str, incarnation: str) -> None:
        """A member waits for its peers much longer than its steps take. Of a world that is not in use it means nothing."""
        world = self.book.world
        if world is None or world.round != round or not self.book.status(round).intact:
            return
        if (member, incarnation) not in {(m.name, m.incarnation) for m in world.members}:
            return
        before = self._detector.probe
        self._detector.suspect(self._clock.now(), [m.name for m in world.members])
        self.heard_of(member)
        if self._detector.probe != before:
            self._wake()  # all watch again, which is their sign of life
        self._look()

    @property
    def probe(self) -> int:
        """Rises when members are asked for a sign of life."""
        return self._detector.probe

    def _look(self) -> None:
        """Continue without the members that have failed; again soon, as long as somebody suspects."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        now = self._clock.now()
        heartbeats = self._nodes.heartbeats() if self._nodes is not None else {}
        survivors_wait = bool(self.book.waiting) and bool(self.book.round) and not self._in_use()
        for failure in self._detector.look(now, heartbeats, self._heartbeat_interval, is_awaited=survivors_wait):
            if not self.is_member(failure.member):
                continue
            if failure.stopped:
                self._frozen(failure.member)
            else:
                self._journal.event(MemberSilent(node=failure.member, seconds=failure.seconds))
                self.died(failure.member)
        if self._detector.is_suspecting(now):
            self._next_look = asyncio.get_running_loop().call_later(LOOK_INTERVAL_S, self._look)

    def _in_use(self) -> bool:
        return self.book.status(self.book.round).intact

    def _frozen(self, member: str) -> None:
        self._journal.event(ProgramFrozen(node=member, reason="its program is stopped by a signal", killed=False))
        self.died(member)

    async def stop(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()

    def died(self, member: str) -> None:
        """A program ended, or was given up; no incarnation of it is a member any more."""
        self._heard.pop(member, None)
        self._publish(self._journal.do(self.book.died, member=member, incarnation=None))

    def set_limits(self, min_nodes: int, max_nodes: int, wait_seconds: float | None = None) -> None:
        limits = self.book.limits
        wait = limits.wait_seconds if wait_seconds is None else wait_seconds
        if (min_nodes, max_nodes, wait) == (limits.min_nodes, limits.max_nodes, limits.wait_seconds):
            return
        self._publish(
            self._journal.do(self.book.set_limits, min_nodes=min_nodes, max_nodes=max_nodes, wait_seconds=wait_seconds)
        )
        self._journal.event(WorldLimitsSet(min_nodes=min_nodes, max_nodes=max_nodes))

    def assign_seats(self, seats: dict[str, int]) -> None:
        """Virtual workers by worker; the members of the world learn that it is outdated, and form another."""
        self._publish(self._journal.do(self.book.assign_seats, seats=seats))

    def expect(self, count: int) -> None:
        """The number of workers that exist or are being created; a world of that size is formed without waiting."""
        if count != self._expected:
            self._expected = count
            self._publish(self._journal.do(self.book.expect, count=count))

    def close(self) -> None:
        if not self.book.closed:
            self._publish(self._journal.do(self.book.close))

    def is_member(self, name: str) -> bool:
        """Of the world in use, or waiting for one."""
        book = self.book
        gone = book.status(book.round).missing if book.round else ()
        in_world = book.world is not None and any(m.name == name for m in book.world.members) and name not in gone
        return in_world or any(m.name == name for m in book.waiting)

    def was_member(self, name: str) -> bool:
        """Of the latest world."""
        return self.book.world is not None and any(m.name == name for m in self.book.world.members)

    def heard_of(self, member: str) -> None:
        """A sign of life of a member's own process. None is expected of others."""
        if self.is_member(member):
            self._heard[member] = self._clock.now()
            self._detector.heard(self._clock.now(), member)

    def _resume(self) -> None:
        """After a pause of the master, silence is counted from now on."""
        now = self._clock.now()
        names = {m.name for m in self.book.waiting} | {
            m.name for m in (self.book.world.members if self.book.world else ())
        }
        self._heard = dict.fromkeys(names, now)
        self._awaited_since = now

    async def get_world(self, member: str, incarnation: str) -> World | Waiting | Expelled | Closed:
        """Wait until there is a world with this member, or there will be none."""
        while True:
            found = self.book.world_of(member, incarnation)
            if not isinstance(found, Waiting) or found.join_again:
                return found
            await self._changed.wait()

    async def watch_round(
        self, round: int, known_waiting: int, known_outdated: bool = False, known_probe: int | None = None
    ) -> RoundStatus:
        """Wait until the round is broken, or it is different from what the caller knows who waits and whether it is outdated, or
        the caller is asked for a sign of life. ``known_probe`` None: of an earlier release, which gives none."""
        while True:
            status = self.book.status(round)
            if not status.intact or (status.waiting, status.outdated) != (known_waiting, known_outdated):
                return status
            if known_probe is not None and known_probe != self.probe:
                return status
            await self._changed.wait()

    def publish_keys(
        self, round: int, member: str, incarnation: str, *, group: str, ranks: Sequence[int], keys: Keys
    ) -> None:
        """Those who wait in ``collect_keys`` are woken by the last member of the group."""
        world = self.book.world
        if world is None or not self.book.status(round).intact:
            return  # as ``collect_keys`` will say
        done = self._exchange.publish(
            world, group=group, ranks=ranks, member=member, incarnation=incarnation, keys=keys
        )
        if done:
            self._wake()

    async def collect_keys(
        self, round: int, member: str, incarnation: str, *, group: str
    ) -> tuple[Keys, ...] | RoundStatus:
        """Wait until all members of the group have published, or the round is broken."""
        while True:
            status = self.book.status(round)
            world = self.book.world
            if world is None or not status.intact:
                return status
            found = self._exchange.collect(world, group=group, member=member, incarnation=incarnation)
            if found is not None:
                return found
            await self._changed.wait()

    async def tick(self) -> None:
        now = self._clock.now()
        for member, heard in list(self._heard.items()):
            if now - heard > self._member_timeout:
                del self._heard[member]
                self._journal.event(MemberSilent(node=member, seconds=now - heard))
                self.died(member)
        if self.book.awaited and now - self._awaited_since > self._member_timeout:
            self._publish(self._journal.do(self.book.stop_awaiting))
        if self.book.due(self._clock.now()):
            self._publish(self._journal.do(self.book.form))
        self._signals.publish(NodesIdle(tuple(member.name for member in self.book.waiting)))
        self._signals.publish(WorldInUse(self.book.members_in_use()))

    def _publish(self, outcome: Outcome) -> None:
        if outcome.formed is not None:
            members = tuple(member.name for member in outcome.formed.members)
            self._journal.event(WorldFormed(round=outcome.formed.round, members=members, reason=outcome.reason))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
