"""Programs that start and fail together: what torchrun calls a worker group, one for each role of a job.

Every program gets a rank, the size of the world and the address of rank 0, as from torchrun. Most programs ignore them (a
shell script, a reader of the shard queue, our own trainer), and are independent of each other. A program that uses them is
observed by its agent on the port of rank 0; from then on the role is *connected*: when one of its programs fails, all are
ended and restarted in a new generation, with new ranks and a new port.

Neighbours: ``core/nodes/book.py`` knows which nodes there are and counts failures; ``master/components/groups.py`` feeds both.

Invariants:

1. Generations of a role rise by one, and each has ranks 0 to n-1, one node each.
2. A generation is formed only when no program of the previous one can run, so two never write at the same time.
3. Until a role is connected, no event of one program ends another. A node that joins takes the rank of one that left,
   else the next rank; it gets the world as it is then.
4. Once it is, the failure or removal of a member and the arrival of a node end the generation; a program that finished
   does not. A node that joins after a member has finished waits until the others are done: there is no work left to share.
5. What fails while its generation ends is a consequence and is excused, unless it is a fault of its own: its message equals
   that of the first failure, or the first only reported a lost peer. A program that reports a lost peer is always excused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pliant.core.errors import Conflict, CorruptData, InvalidRequest
from pliant.core.state_machine import StateMachine

MAX_WAIT_FOR_NODES_S = 5.0  # that a formable generation waits for nodes which are being created
MAX_MEMBERS = 100_000
NOBODY = ""  # holds a rank that no living program has announced
# Messages of a program that failed because a peer did, of torch, gloo, NCCL and the system.
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
    generation: int = 0  # 0: none has been formed
    members: tuple[str, ...] = ()  # in the order of their ranks
    running: tuple[str, ...] = ()  # their programs run, or may be started at any moment
    finished: tuple[str, ...] = ()
    addr: str = ""
    port: int = 0
    reason: str = ""  # why it was formed
    connected: bool = False  # a program of this role was observed on the port of rank 0, in any generation
    altered: str = ""  # how this generation differs from the one that was formed
    ending: str = ""  # why this generation is being ended; empty: it is in use
    fault: str = ""  # message of its first failure
    quiet_since: float = 0.0  # the last end of a program


@dataclass(frozen=True, slots=True)
class RankAssignment:
    """The rank of a program in its group, as torchrun's environment has it."""

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


class GroupBook(StateMachine):
    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def group(self, role: str) -> Group:
        return self._groups.get(role) or Group(role)

    # --- events

    def form(self, now: float, *, role: str, nodes: list[str], addr: str, port: int, reason: str) -> list[Decision]:
        """Begin the next generation; the first of the nodes is rank 0."""
        group = self.group(role)
        if not nodes or len(set(nodes)) != len(nodes):
            raise InvalidRequest(f"a generation of {role} needs nodes, each listed once, not {nodes!r}")
        if not 0 < port < 1 << 16:
            raise InvalidRequest(f"invalid port {port}")
        if group.running:
            raise Conflict(f"generation {group.generation} of {role} still has running programs")
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
        return list(self._starts(self._put(formed), nodes))

    def join(self, now: float, *, role: str, node: str) -> list[Decision]:
        """This node is ready to run its program, for the first time or again. Without a rank now, it waits."""
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
            altered = altered or f"{node} joined"
        running = tuple(name for name in members if name in (*group.running, node))
        finished = tuple(name for name in group.finished if name != node)
        changed = replace(group, members=tuple(members), running=running, finished=finished, altered=altered)
        return list(self._starts(self._put(changed), [node]))

    def adopt(
        self, now: float, *, role: str, node: str, generation: int, rank: int, world_size: int, addr: str, port: int
    ) -> list[Decision]:
        """The program of this node runs with this rank, which a master whose journal is lost had assigned
        (``core/takeover.py``). The newest generation is the one in use; programs of an older one are recalled."""
        if generation < 1 or not 0 <= rank < world_size <= MAX_MEMBERS or not 0 < port < 1 << 16:
            raise InvalidRequest(
                f"{node} announces rank {rank} of {world_size} in generation {generation}, port {port}"
            )
        group = self.group(role)
        if node in group.running or generation < group.generation:
            return []
        if generation > group.generation:
            group = Group(role, generation, addr=addr, port=port, reason="taken over", connected=group.connected)
        members = list(group.members) + [NOBODY] * (world_size - len(group.members))
        if node in members:
            members[members.index(node)] = NOBODY
        if members[rank] == NOBODY:
            members[rank] = node
        else:
            members.append(node)
        running = tuple(name for name in members if name in (*group.running, node))
        self._put(replace(group, members=tuple(members), running=running))
        return []

    def seen(self, now: float, *, role: str, node: str, generation: int) -> list[Decision]:
        """A program of this role communicates with its peers on the port of rank 0."""
        group = self.group(role)
        if group.connected:
            return []
        group = self._put(replace(group, connected=True))
        if group.altered and not group.ending and group.running:
            return self._end(group, f"{group.altered} before the programs connected")
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
        """End a generation of connected programs for another reason than the end of one."""
        group = self.group(role)
        if not group.connected or group.ending or not group.running or generation != group.generation:
            return []
        return self._end(group, reason)

    # --- finders

    def start_for(self, role: str, node: str) -> StartProgram | None:
        """How the program of this node starts now; None: it waits."""
        group = self.group(role)
        if group.ending or node not in group.running:
            return None
        return next(self._starts(group, [node]))

    def recall(self, role: str, node: str, generation: int) -> str:
        """Why the program that this node runs in a generation is to end; empty: it is not."""
        group = self.group(role)
        if generation == group.generation:
            return group.ending
        return f"generation {generation} has ended" if 0 < generation < group.generation else ""

    def excuses(self, role: str, node: str, generation: int, message: str) -> bool:
        """Whether a failure is only a consequence of the end of its generation."""
        group = self.group(role)
        in_it = bool(group.ending) and node in group.running and generation == group.generation
        if not in_it or LOST_PEER.search(message):
            return in_it
        return message != group.fault and not LOST_PEER.search(group.fault)

    def formable(self, role: str, now: float, *, ready: int, coming: int, min_nodes: int) -> bool:
        """Whether to form with the nodes that are ready; ``coming`` are being created, ``min_nodes`` are needed."""
        group = self.group(role)
        if not ready or group.running:
            return False
        if not group.generation:
            return True
        if not group.connected or ready < min(min_nodes, ready + coming):
            return False
        return not coming or now >= group.quiet_since + MAX_WAIT_FOR_NODES_S

    def stray(self, role: str, live: Collection[str]) -> tuple[str, ...]:
        """Members that should run and whose node no longer exists; ``gone`` is due for each."""
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
    def _starts(group: Group, nodes: Sequence[str]) -> Iterator[StartProgram]:
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
