"""The group keeper: the shell around ``core.groups.GroupBook``.

It gives every program its place in torchrun's sense, and has all programs of a role start anew when one of a connected
group fails. Agents are told by the answers to their calls: a seat when they ask for one, a recall with a heartbeat.

The port of a generation is chosen by the master: a free one of this machine, below those that the system hands out by
itself, so nobody gets it by chance before rank 0 listens on it. Another program may still take it on purpose; then rank 0
cannot listen, its last words name the port, and the failed generation is followed by one with another port.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from pliant.core.clock import Clock
from pliant.core.errors import NotFound
from pliant.core.groups import Decision, GroupBook, RestartAll, StartProgram
from pliant.core.node_states import Node, NodeState
from pliant.core.nodes import NodeBook
from pliant.master.journal import Journal
from pliant.rpc import pliant_pb2 as pb

LOWEST_PORT = 15_000
TRIES = 100


class GroupKeeper:
    def __init__(
        self,
        book: GroupBook,
        nodes: NodeBook,
        journal: Journal,
        clock: Clock,
        *,
        max_restarts: int,
        choose: Callable[[], tuple[str, int]] | None = None,
        one_machine: bool = True,
    ) -> None:
        """``choose`` gives the address and port for a new rank 0; ``one_machine``: all nodes share one."""
        self.book = book
        self._nodes = nodes
        self._journal = journal
        self._clock = clock
        self._max_restarts = max_restarts
        self._choose = choose or (lambda: ("127.0.0.1", free_port()))
        self._one_machine = one_machine

    # --- what agents say

    def place(self, name: str) -> pb.Group:
        """The seat of a node that is ready to start its program; generation 0 if it has to wait for one."""
        node = self._node(name)
        if node is None or node.ended:
            return pb.Group()
        if not self.book.group(node.role).generation:
            self._form(node.role)
        seat = self.book.seat(node.role, name)
        if seat is None and node.seated:
            self._told(self._journal.do(self.book.join, role=node.role, node=name))
            self._form(node.role)
            seat = self.book.seat(node.role, name)
        return self._message(seat)

    def heartbeat(self, name: str, generation: int, grouped: bool) -> tuple[str, pb.Group]:
        """(why its program shall end, its seat if it has none)."""
        node = self._node(name)
        if node is None or node.ended:
            return "", pb.Group()
        if grouped:
            self.seen(name, generation)
        if generation:
            return self.book.recall(node.role, name, generation), pb.Group()
        if self.book.group(node.role).ending and name in self.book.group(node.role).running:
            self._gone(node, None, finished=False, message="it had not started")
        self._form(node.role)
        return "", self._message(self.book.seat(node.role, name))

    def seen(self, name: str, generation: int) -> None:
        node = self._node(name)
        if node is not None and not self.book.group(node.role).connected:
            self._journal.event("group", "its program speaks with its peers as torchrun's do", name)
            self._told(self._journal.do(self.book.seen, role=node.role, node=name, generation=generation))

    def program_gone(self, name: str, generation: int | None, *, finished: bool, message: str) -> None:
        node = self._node(name)
        if node is not None:
            self._gone(node, generation, finished=finished, message=message)

    def excuses(self, name: str, generation: int, message: str) -> bool:
        """Whether a program failed only because its group did."""
        node = self._node(name)
        return node is not None and self.book.excuses(node.role, name, generation, message)

    def frozen(self, name: str) -> None:
        """A member whose program is stopped holds up all the others."""
        node = self._node(name)
        if node is None:
            return
        if name in self.book.group(node.role).running:
            self._restart(node.role, f"the program of {name} is stopped")

    # --- time

    def tick(self) -> None:
        for role in self._nodes.roles():
            group = self.book.group(role)
            there = {
                node.name
                for node in self._nodes.live(role)
                if not group.ending or node.state is NodeState.RUNNING  # who has not come yet runs nothing
            }
            for name in self.book.stray(role, there):
                node = self._node(name)
                if node is not None:
                    self._gone(node, None, finished=False, message="it is not there")
            leaving = next((n.name for n in self._nodes.live(role) if not n.seated and n.name in group.running), None)
            if leaving is not None:  # its peers end before it does, so that its end is no failure of theirs
                self._restart(role, f"{leaving} leaves")
            if group.generation:
                self._form(role)

    # --- inside

    def _node(self, name: str) -> Node | None:
        try:
            return self._nodes.get(name)
        except NotFound:
            return None

    def _restart(self, role: str, reason: str) -> None:
        group = self.book.group(role)
        if group.connected and not group.ending:
            self._told(self._journal.do(self.book.restart, role=role, generation=group.generation, reason=reason))

    def _gone(self, node: Node, generation: int | None, *, finished: bool, message: str) -> None:
        if node.name not in self.book.group(node.role).running:
            return
        self._told(
            self._journal.do(
                self.book.gone,
                role=node.role,
                node=node.name,
                generation=generation,
                finished=finished,
                message=message,
            )
        )

    def _form(self, role: str) -> None:
        """The next generation of a role, if it is time."""
        if self._nodes.closed:
            return
        seated = self._nodes.seated(role)
        ready = [node.name for node in seated if node.state is NodeState.RUNNING]
        least = self._nodes.role(role).spec.min_replicas
        coming, now = len(seated) - len(ready), self._clock.now()
        if not self.book.formable(role, now, ready=len(ready), coming=coming, least=least):
            return
        before = self.book.group(role)
        addr, port = self._choose()
        if not self._one_machine:
            first = self._nodes.get(ready[0]) if before.generation and ready else seated[0]
            if not first.address:
                return  # rank 0 is not there yet, and nobody knows where the others shall meet
            addr, port = first.address, random.randrange(LOWEST_PORT, _first_ephemeral())
        # At the start the others are on their way, and programs wait for each other by themselves.
        names = ready if before.generation else [node.name for node in seated]
        reason = before.ending or "the job starts"
        self._told(self._journal.do(self.book.form, role=role, nodes=names, addr=addr, port=port, reason=reason))

    def _told(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            match decision:
                case RestartAll(generation=generation, reason=reason):
                    self._journal.event("group", f"all programs start anew after generation {generation}: {reason}")
                case StartProgram(rank=0, generation=generation, world_size=size) if generation > 1:
                    self._journal.event("group", f"generation {generation} has {size} programs", decision.node)

    def _message(self, seat: StartProgram | None) -> pb.Group:
        if seat is None:
            return pb.Group()
        return pb.Group(
            generation=seat.generation,
            rank=seat.rank,
            world_size=seat.world_size,
            local_rank=seat.rank if self._one_machine else 0,
            local_world_size=seat.world_size if self._one_machine else 1,
            group_rank=0 if self._one_machine else seat.rank,
            addr=seat.addr,
            port=seat.port,
            restart_count=seat.restart_count,
            max_restarts=max(0, self._max_restarts),
        )


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody has, and that the system gives nobody by itself."""
    for _ in range(TRIES):
        port = random.randrange(LOWEST_PORT, _first_ephemeral())
        if (bound := _bind(host, port)) is not None:
            return bound
    bound = _bind(host, 0)
    assert bound is not None, "the system has no free port left"
    return bound


def _bind(host: str, port: int) -> int | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return None
        return int(probe.getsockname()[1])


def _first_ephemeral() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768  # as Linux has it unless told otherwise
    return max(first, LOWEST_PORT + 1000)
