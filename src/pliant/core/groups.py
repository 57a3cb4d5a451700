"""Programs that start and fail together: what torchrun calls a worker group, one for each role of a job.

Every program is given a rank, the size of the world and the address of rank 0, as torchrun would. Most programs do not
care (a shell script, a reader of the shard queue, our own trainer), and what happens to one is nothing to the others. A
program that uses them is seen by its agent on the port of rank 0; from then on the role is *connected*: when one of its
programs fails, all are ended and start again in a new generation, with new ranks and a new port.

Neighbours: ``core/nodes.py`` knows which nodes there are and counts failures; ``master/groups.py`` feeds both.

What always holds:

1. Generations of a role rise by one, and each has ranks 0 to n-1, one node each.
2. A generation is formed only when no program of the one before can run any more, so two never write side by side.
3. Until a role is connected, no event of one program ends another. A node that comes takes the place of one that went,
   else a new one behind the others; it is given the world as it is then.
4. Once it is, the failure or removal of a member and the arrival of a node end the generation; a program that finished
   does not. Whoever comes after a member has finished waits until the others are done: they have nothing left to share.
5. What fails while its generation ends is a consequence and is excused, unless it is a fault of its own: it says what the
   first failure said, or the first only said that it had lost a peer. Who says that itself is always excused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pliant.core.errors import Conflict, CorruptData, InvalidRequest

PATIENCE = 5.0  # seconds that a formable generation waits for nodes which are being created
# What a program says that failed because another did; torch, gloo, NCCL and the system word it in these ways.
LOST_PEER = re.compile(
    r"connection (was )?(reset|closed|refused|aborted)|connection ?error|broken ?pipe|\bpeer\b|socket (closed|timeout)"
    r"|timed out|remote process (exited|has)|store->get|DistNetworkError|DistBackendError|DistStoreError",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class StartProgram:
    """The program of this node runs with this rank, in this generation."""

    node: str
    rank: int
    world_size: int
    addr: str
    port: int
    generation: int
    restart_count: int
    reason: str


@dataclass(frozen=True, slots=True)
class RestartAll:
    """The programs of these nodes end; the next generation is formed when they have."""

    role: str
    generation: int
    nodes: tuple[str, ...]
    reason: str


Decision = StartProgram | RestartAll


@dataclass(frozen=True, slots=True)
class Group:
    role: str
    generation: int = 0  # 0: none was formed yet
    members: tuple[str, ...] = ()  # in the order of their ranks
    running: tuple[str, ...] = ()  # those whose program runs or may be started at any moment
    finished: tuple[str, ...] = ()
    addr: str = ""
    port: int = 0
    reason: str = ""  # why it was formed
    connected: bool = False  # a program of this role was seen on the port of rank 0, in any generation
    altered: str = ""  # how this generation differs from the one that was formed
    ending: str = ""  # why this generation is being ended; empty: it is in use
    fault: str = ""  # what its first failure said
    quiet_since: float = 0.0  # the last end of a program


class GroupBook:
    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def group(self, role: str) -> Group:
        return self._groups.get(role) or Group(role)

    # --- events

    def form(self, now: float, *, role: str, nodes: list[str], addr: str, port: int, reason: str) -> list[Decision]:
        """Begin the next generation; the first of the nodes is rank 0."""
        group = self.group(role)
        if not nodes or len(set(nodes)) != len(nodes):
            raise InvalidRequest(f"a generation of {role} needs nodes, each once, not {nodes!r}")
        if not 0 < port < 1 << 16:
            raise InvalidRequest(f"{port} is no port")
        if group.running:
            raise Conflict(f"generation {group.generation} of {role} has programs that run")
        formed = Group(
            role=role,
            generation=group.generation + 1,
            members=tuple(nodes),
            running=tuple(nodes),
            addr=addr,
            port=port,
            reason=reason,
            connected=group.connected,
        )
        return list(self._seats(self._put(formed), nodes))

    def join(self, now: float, *, role: str, node: str) -> list[Decision]:
        """This node is there to run its program, for the first time or again. Without a seat now, it waits."""
        group = self.group(role)
        if not group.generation or group.ending or node in group.running:
            return []
        if group.connected:
            if group.finished or not group.running:
                return []
            return self._end(group, f"{node} joins")
        members, altered = list(group.members), group.altered
        if node not in members:
            free = [at for at, name in enumerate(members) if name not in (*group.running, *group.finished)]
            if free:
                members[free[0]] = node
            else:
                members.append(node)
            altered = altered or f"{node} came"
        running = tuple(name for name in members if name in (*group.running, node))
        finished = tuple(name for name in group.finished if name != node)
        changed = replace(group, members=tuple(members), running=running, finished=finished, altered=altered)
        return list(self._seats(self._put(changed), [node]))

    def seen(self, now: float, *, role: str, node: str, generation: int) -> list[Decision]:
        """A program of this role speaks with its peers on the port of rank 0."""
        group = self.group(role)
        if group.connected:
            return []
        group = self._put(replace(group, connected=True))
        if group.altered and not group.ending and group.running:
            return self._end(group, f"{group.altered} before the programs met")
        return []

    def gone(
        self, now: float, *, role: str, node: str, generation: int | None, finished: bool, message: str
    ) -> list[Decision]:
        """The program of this node ended, or will never start. ``generation`` None: whichever it is in."""
        group = self.group(role)
        if node not in group.running or generation not in (None, group.generation):
            return []
        running = tuple(name for name in group.running if name != node)
        done = (*group.finished, node) if finished else group.finished
        group = self._put(replace(group, running=running, finished=done, quiet_since=now))
        if finished or group.ending:
            return []
        if not group.connected:
            self._put(replace(group, altered=group.altered or f"{node} ended"))
            return []
        return self._end(group, f"{node} ended: {message}", fault=message)

    def restart(self, now: float, *, role: str, generation: int, reason: str) -> list[Decision]:
        """End a generation of connected programs for a reason that is not the end of one."""
        group = self.group(role)
        if not group.connected or group.ending or not group.running or generation != group.generation:
            return []
        return self._end(group, reason)

    # --- finders

    def seat(self, role: str, node: str) -> StartProgram | None:
        """Where the program of this node belongs now; None: it waits."""
        group = self.group(role)
        if group.ending or node not in group.running:
            return None
        return next(self._seats(group, [node]))

    def recall(self, role: str, node: str, generation: int) -> str:
        """Why the program that this node runs in a generation shall end; empty: it shall not."""
        group = self.group(role)
        if generation == group.generation:
            return group.ending
        return f"generation {generation} is over" if 0 < generation < group.generation else ""

    def excuses(self, role: str, node: str, generation: int, message: str) -> bool:
        """Whether a failure only follows from the end of its generation."""
        group = self.group(role)
        in_it = bool(group.ending) and node in group.running and generation == group.generation
        if not in_it or LOST_PEER.search(message):
            return in_it
        return message != group.fault and not LOST_PEER.search(group.fault)

    def formable(self, role: str, now: float, *, ready: int, coming: int, least: int) -> bool:
        """Whether to form with the nodes that are ready; ``coming`` are being created, ``least`` are needed."""
        group = self.group(role)
        if not ready or group.running:
            return False
        if not group.generation:
            return True
        if not group.connected or ready < min(least, ready + coming):
            return False
        return not coming or now >= group.quiet_since + PATIENCE

    def stray(self, role: str, live: Collection[str]) -> tuple[str, ...]:
        """Members that should run and whose node is no longer there; ``gone`` is due for each."""
        return tuple(name for name in self.group(role).running if name not in live)

    # --- the whole state

    def snapshot(self) -> dict[str, Any]:
        return {role: asdict(group) for role, group in self._groups.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        try:
            groups = {role: Group(**value) for role, value in state.items()}
            self._groups = {
                role: replace(g, members=tuple(g.members), running=tuple(g.running), finished=tuple(g.finished))
                for role, g in groups.items()
            }
        except (AttributeError, TypeError, ValueError) as error:
            raise CorruptData(f"not a snapshot of groups: {error!r}") from error

    # --- inside

    def _put(self, group: Group) -> Group:
        self._groups[group.role] = group
        return group

    def _end(self, group: Group, reason: str, fault: str = "") -> list[Decision]:
        self._put(replace(group, ending=reason, fault=fault))
        return [RestartAll(group.role, group.generation, group.running, reason)]

    @staticmethod
    def _seats(group: Group, nodes: Sequence[str]) -> Iterator[StartProgram]:
        for node in nodes:
            yield StartProgram(
                node,
                group.members.index(node),
                len(group.members),
                group.addr,
                group.port,
                group.generation,
                group.generation - 1,
                group.reason,
            )
