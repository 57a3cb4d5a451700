"""The rendezvous server: the shell around ``core.rendezvous.Rendezvous``; it wakes those who wait for a world."""

from __future__ import annotations

import asyncio

from pliant.core.clock import Clock
from pliant.core.rendezvous import Expelled, Outcome, Rendezvous, RoundStatus, Waiting, World
from pliant.master.journal import Journal


class RendezvousServer:
    def __init__(self, machine: Rendezvous, journal: Journal, clock: Clock) -> None:
        self.machine = machine
        self._journal = journal
        self._clock = clock
        self._changed = asyncio.Event()
        self._expected = -1
        self._heard: dict[str, float] = {}  # member -> when; not journaled

    def join(self, member: str, incarnation: str, attrs: dict[str, str], step: int, after: int | None) -> None:
        self._told(
            self._journal.do(
                self.machine.join, member=member, incarnation=incarnation, attrs=attrs, step=step, after=after
            )
        )
        self.heard_of(member)

    def leave(self, member: str, incarnation: str) -> None:
        self._told(self._journal.do(self.machine.leave, member=member, incarnation=incarnation))

    def died(self, member: str) -> None:
        """A program ended, or is given up; whatever incarnation of it was a member is gone."""
        self._heard.pop(member, None)
        self._told(self._journal.do(self.machine.died, member=member, incarnation=None))

    def set_limits(self, min_nodes: int, max_nodes: int, wait_seconds: float | None = None) -> None:
        limits = self.machine.limits
        wait = limits.wait_seconds if wait_seconds is None else wait_seconds
        if (min_nodes, max_nodes, wait) == (limits.min_nodes, limits.max_nodes, limits.wait_seconds):
            return
        self._told(
            self._journal.do(
                self.machine.set_limits, min_nodes=min_nodes, max_nodes=max_nodes, wait_seconds=wait_seconds
            )
        )
        self._journal.event("rendezvous", f"worlds have {min_nodes} to {max_nodes} members from now on")

    def expect(self, count: int) -> None:
        """How many workers there are or will soon be; a world of so many is formed without waiting."""
        if count != self._expected:
            self._expected = count
            self._told(self._journal.do(self.machine.expect, count=count))

    def close(self) -> None:
        if not self.machine.closed:
            self._told(self._journal.do(self.machine.close))

    def is_member(self, name: str) -> bool:
        """Of the world in use, or of those who wait for one."""
        machine = self.machine
        gone = machine.status(machine.round).missing if machine.round else ()
        in_world = machine.world is not None and any(m.name == name for m in machine.world.members) and name not in gone
        return in_world or any(m.name == name for m in machine.waiting)

    def was_member(self, name: str) -> bool:
        """Of the latest world."""
        return self.machine.world is not None and any(m.name == name for m in self.machine.world.members)

    def heard_of(self, member: str) -> None:
        """A sign of life of a member's own process. Who is no member owes us none."""
        if self.is_member(member):
            self._heard[member] = self._clock.now()

    def resume(self) -> None:
        """After a pause of the master, silence is counted from now on."""
        now = self._clock.now()
        names = {m.name for m in self.machine.waiting} | {
            m.name for m in (self.machine.world.members if self.machine.world else ())
        }
        self._heard = dict.fromkeys(names, now)

    async def get_world(self, member: str, incarnation: str) -> World | Waiting | Expelled:
        """Wait until there is a world with this member, or there will be none."""
        while True:
            found = self.machine.world_of(member, incarnation)
            if not isinstance(found, Waiting) or found.join_again:
                return found
            await self._changed.wait()

    async def watch_round(self, round: int, known_waiting: int) -> RoundStatus:
        """Wait until the round is broken, or the number of those who wait differs from what the caller knows."""
        while True:
            status = self.machine.status(round)
            if not status.intact or status.waiting != known_waiting:
                return status
            await self._changed.wait()

    def tick(self, member_timeout: float) -> None:
        now = self._clock.now()
        for member, heard in list(self._heard.items()):
            if now - heard > member_timeout:
                del self._heard[member]
                self._journal.event(
                    "silent", f"{member} was silent for {now - heard:.0f} s and is out of its world", member
                )
                self.died(member)
        if self.machine.due(self._clock.now()):
            self._told(self._journal.do(self.machine.form))

    def _told(self, outcome: Outcome) -> None:
        if outcome.formed is not None:
            names = ", ".join(m.name for m in outcome.formed.members)
            self._journal.event("world", f"round {outcome.formed.round}: {names} ({outcome.reason})")
        self._changed.set()
        self._changed = asyncio.Event()
