"""The rank of a program among those of its role, as torchrun assigns it, and whether the program makes use of it.

The master assigns ranks (``core/rendezvous/groups.py`` says when). Here they become the environment that torchrun sets, and here is
looked for evidence that the program depends on them: a socket on the port of rank 0, open or closed a moment ago, or last words
that name that port.
``GroupSlot`` is what the agent holds: the assignment, if there is one, and the master's word that the program must give it up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from pliant.agent.usage import process_tree
from pliant.platforms.process_stat import tree_stats
from pliant.rpc import pliant_pb2 as pb

log = logging.getLogger(__name__)

_TIME_WAIT = "06"  # as the kernel's table of sockets writes it
CONNECT_S = 15.0  # that new sockets of a program are looked at
LOOK_AGAIN_S = 30.0  # after that, even if it has no new ones
UNASSIGNED_HEARTBEAT_INTERVAL_S = 0.1  # while the program waits for its assignment


@dataclass(frozen=True, slots=True)
class RankAssignment:
    generation: int
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    group_rank: int
    addr: str
    port: int
    restart_count: int
    max_restarts: int

    @classmethod
    def from_message(cls, group: pb.Group) -> RankAssignment | None:
        """None: there is none yet."""
        if not group.generation:
            return None
        return cls(*(getattr(group, name) for name in cls.__slots__))

    def environment(self, job: str, role: str) -> dict[str, str]:
        """As torchrun's agent sets it; rank 0's process opens the store itself."""
        machines = max(1, self.world_size // max(1, self.local_world_size))
        values: dict[str, object] = {
            "RANK": self.rank,
            "WORLD_SIZE": self.world_size,
            "LOCAL_RANK": self.local_rank,
            "LOCAL_WORLD_SIZE": self.local_world_size,
            "GROUP_RANK": self.group_rank,
            "GROUP_WORLD_SIZE": machines,
            "ROLE_RANK": self.rank,
            "ROLE_WORLD_SIZE": self.world_size,
            "ROLE_NAME": role,
            "MASTER_ADDR": self.addr,
            "MASTER_PORT": self.port,
            "TORCHELASTIC_RESTART_COUNT": self.restart_count,
            "TORCHELASTIC_MAX_RESTARTS": self.max_restarts,
            "TORCHELASTIC_RUN_ID": job,
        }
        return {name: str(value) for name, value in values.items()}

    def is_used_by(self, pid: int) -> bool:
        """Whether the program or a child of it listens on the port of rank 0, or is connected to it."""
        if not _in_use(pid, self.port):
            return False
        for process in process_tree(pid):
            try:
                connections = process.net_connections(kind="tcp")
            except psutil.Error:
                continue
            for connection in connections:
                listens = connection.status == psutil.CONN_LISTEN and connection.laddr.port == self.port
                if listens or (connection.raddr and connection.raddr.port == self.port):
                    return True
        return False

    def is_named_in(self, last_words: str) -> bool:
        """Whether a failing program names the port, as torch does if it cannot listen on it or reach it."""
        return re.search(rf"\b{self.port}\b", last_words) is not None


class SocketWatch:
    """When to look at the machine's table of connections, which takes the kernel milliseconds even if it is empty.

    As long as a program has the sockets that it had, once they had time to connect, it uses no port that it did not use.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: frozenset[str] = frozenset()
        self._look_until = -math.inf
        self._look_again = -math.inf

    def is_due(self, pid: int) -> bool:
        now, sockets = self._clock(), _sockets_of(pid)
        if sockets is None:
            return True
        if sockets != self._known:
            self._known, self._look_until = sockets, now + CONNECT_S
        if not sockets or (now > self._look_until and now < self._look_again):
            return False
        self._look_again = now + LOOK_AGAIN_S
        return True


def _sockets_of(pid: int) -> frozenset[str] | None:
    """Of the program and its children, by name; None: they cannot be read."""
    found: set[str] = set()
    for process in tree_stats(pid):
        folder = f"/proc/{process.pid}/fd"
        try:
            descriptors = os.listdir(folder)
        except FileNotFoundError:  # it ended
            continue
        except OSError:
            return None
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{descriptor}")
                if target.startswith("socket:"):
                    found.add(target)
    return frozenset(found) if found or Path("/proc/self/fd").exists() else None


class GroupSlot:
    def __init__(self) -> None:
        self._assignment: RankAssignment | None = None
        self._used = False  # the program was seen to use its assignment
        self._sockets = SocketWatch()
        self.recall = ""  # why the program must end, to be started again with its group
        self.is_recalled = False  # and it was ended for that reason
        self._news = asyncio.Event()
        self._hurry = asyncio.Event()  # an assignment is wanted, or there is other news: the next heartbeat is due

    @property
    def generation(self) -> int:
        """0: there is no assignment."""
        return self._assignment.generation if self._assignment is not None else 0

    @property
    def is_ready(self) -> bool:
        """Whether the program may start. An assignment that was recalled before that is given up."""
        if self.recall:
            self.assign(pb.Group())
        return self._assignment is not None

    def assign(self, group: pb.Group) -> None:
        self._assignment = RankAssignment.from_message(group)
        self.recall, self.is_recalled, self._used = "", False, False
        self._sockets = SocketWatch()
        if self._assignment is None:
            self._hurry.set()
        self.wake()

    def update(self, generation: int, reply: pb.HeartbeatReply) -> None:
        """Take over the reply to a heartbeat that was sent in this generation."""
        if generation != self.generation:
            return
        if reply.recall and not self.recall:
            log.info("the program restarts with its group: %s", reply.recall)
            self.recall = reply.recall
            self.wake()
        elif self._assignment is None and reply.group.generation:
            self.assign(reply.group)

    def hurry(self) -> None:
        """The next heartbeat is due."""
        self._hurry.set()

    def wake(self) -> None:
        """Wake whoever waits for news."""
        self._news.set()

    async def news(self) -> None:
        self._news.clear()
        await self._news.wait()

    async def until_heartbeat_due(self, seconds: float, interval: float) -> bool:
        """Wait so long; True: the next heartbeat is due before that, as an assignment is wanted.

        ``interval``: between two heartbeats of an agent that has one."""
        self._hurry.clear()
        if self._assignment is None:
            seconds = max(UNASSIGNED_HEARTBEAT_INTERVAL_S, interval / 10)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)
        return self._hurry.is_set() or self._assignment is None

    def message(self) -> pb.Group | None:
        """The assignment, as the master sent it."""
        if self._assignment is None:
            return None
        return pb.Group(**{name: getattr(self._assignment, name) for name in RankAssignment.__slots__})

    def environment(self, job: str, role: str) -> dict[str, str]:
        return self._assignment.environment(job, role) if self._assignment is not None else {}

    def is_used_by(self, pid: int) -> bool:
        """Sampled until it is seen once."""
        if not self._used and self._assignment is not None and self._sockets.is_due(pid):
            self._used = self._assignment.is_used_by(pid)
        return self._used

    def was_used(self, last_words: str) -> bool:
        """Of a program that has ended: one that ran for a moment may never have been sampled while it was connected."""
        if self._used or self._assignment is None:
            return self._used
        return self._assignment.is_named_in(last_words) or _lingers(self._assignment.port)


def _lingers(port: int) -> bool:
    """Whether the kernel still knows of a closed connection of the port (TIME_WAIT, about a minute)."""
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for _, local, remote, state, *_ in map(str.split, rows):
            if state == _TIME_WAIT and f"{port:04X}" in (local.rpartition(":")[2], remote.rpartition(":")[2]):
                return True
    return False


def _in_use(pid: int, port: int) -> bool:
    """A cheap first check of all sockets of the machine: most programs never use the port, and each is sampled every second."""
    mark = f":{port:04X} ".encode()
    found, readable = False, False
    for table in ("tcp", "tcp6"):
        try:
            found = found or mark in Path(f"/proc/{pid}/net/{table}").read_bytes()
            readable = True
        except OSError:
            continue
    return found or not readable
