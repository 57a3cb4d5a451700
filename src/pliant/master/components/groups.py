"""The group coordinator: the shell around ``core.rendezvous.groups.GroupBook``.

It assigns a rank to every program, as torchrun does, and restarts all programs of a role when one of a connected group
fails. Agents learn of it by the answers to their calls: a rank when they ask for one, a recall with a heartbeat.

The port of a generation is chosen by the master: a free one of this machine, below the ephemeral
range, so that no program gets it by chance before rank 0 listens on it. Another program may still take it on purpose; then
rank 0 cannot listen, its error names the port, and the failed generation is followed by one with another port.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from pliant.core.clock import Clock
from pliant.core.errors import NotFound
from pliant.core.events import GroupConnected, GroupFormed, GroupRestarted
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import Node, NodeState
from pliant.core.rendezvous.groups import Decision, GroupBook, RankAssignment, RestartAll, StartProgram
from pliant.master.components.base import Component
from pliant.master.components.signals import ProgramGone, ProgramStopped, Signal
from pliant.master.journal.journal import Journal

MAX_STOPPED_S = 5.0  # that a program may be stopped before its group, which waits for it, is restarted
MIN_PORT = 15_000
MAX_PORT_TRIES = 100


class GroupCoordinator(Component):
    name = "groups"
    title = "coordinator of groups"
    enabled_by = "--need-pod-manager"

    def __init__(
        self,
        book: GroupBook,
        nodes: NodeBook,
        journal: Journal,
        clock: Clock,
        *,
        max_restarts: int,
        choose_address: Callable[[], tuple[str, int]] | None = None,
        is_single_machine: bool = True,
    ) -> None:
        """``choose_address`` returns the address and port for a new rank 0; ``is_single_machine``: all nodes share one."""
        self.book = book
        self._nodes = nodes
        self._journal = journal
        self._clock = clock
        self._max_restarts = max_restarts
        self._choose_address = choose_address or (lambda: ("127.0.0.1", free_port()))
        self._is_single_machine = is_single_machine

    def on_event(self, signal: Signal) -> None:
        match signal:
            case ProgramGone(node=node, incarnation=None, exit_reason=reason, message=message):  # else by ``exited``
                self.program_gone(node, None, finished=reason is ExitReason.COMPLETED, message=message)
            case ProgramStopped(node=node, seconds=seconds) if seconds >= MAX_STOPPED_S:
                self._stopped(node)
            case _:
                return

    # --- calls of agents

    def assign(self, name: str) -> RankAssignment | None:
        """The rank of a node that is ready to start its program; None if it has to wait for one."""
        node = self._node(name)
        if node is None or node.ended:
            return None
        if not self.book.group(node.role).generation:
            self._form(node.role)
        start = self.book.start_for(node.role, name)
        if start is None and node.is_active:
            self._record(self._journal.do(self.book.join, role=node.role, node=name))
            self._form(node.role)
            start = self.book.start_for(node.role, name)
        return self._assignment(start)

    def adopt(self, name: str, given: RankAssignment, grouped: bool) -> None:
        """The rank that the program of a node runs with, of which this master's journal knows nothing."""
        node = self._node(name)
        if node is None or node.ended or name in self.book.group(node.role).running:
            return
        self._record(
            self._journal.do(
                self.book.adopt,
                role=node.role,
                node=name,
                generation=given.generation,
                rank=given.rank,
                world_size=given.world_size,
                addr=given.addr,
                port=given.port,
            )
        )
        if grouped:
            self.seen(name, given.generation)

    def heartbeat(self, name: str, generation: int, grouped: bool) -> tuple[str, RankAssignment | None]:
        """(why its program is to end, its rank if it has none)."""
        node = self._node(name)
        if node is None or node.ended:
            return "", None
        if grouped:
            self.seen(name, generation)
        if generation:
            return self.book.recall(node.role, name, generation), None
        if self.book.group(node.role).ending and name in self.book.group(node.role).running:
            self._gone(node, None, finished=False, message="it had not started")
        self._form(node.role)
        return "", self._assignment(self.book.start_for(node.role, name))

    def seen(self, name: str, generation: int) -> None:
        node = self._node(name)
        if node is not None and not self.book.group(node.role).connected:
            self._journal.event(GroupConnected(node=name, generation=generation))
            self._record(self._journal.do(self.book.seen, role=node.role, node=name, generation=generation))

    def program_gone(self, name: str, generation: int | None, *, finished: bool, message: str) -> None:
        node = self._node(name)
        if node is not None:
            self._gone(node, generation, finished=finished, message=message)

    def excuses(self, name: str, generation: int, message: str) -> bool:
        """Whether a program failed only because its group did."""
        node = self._node(name)
        return node is not None and self.book.excuses(node.role, name, generation, message)

    def _stopped(self, name: str) -> None:
        """A member whose program is stopped holds up all the others."""
        node = self._node(name)
        if node is None:
            return
        if name in self.book.group(node.role).running:
            self._restart(node.role, f"the program of {name} is stopped by a signal")

    # --- time

    async def tick(self) -> None:
        for role in self._nodes.roles():
            group = self.book.group(role)
            there = {
                node.name
                for node in self._nodes.live(role)
                if not group.ending or node.state is NodeState.RUNNING  # a node that has not registered runs nothing
            }
            for name in self.book.stray(role, there):
                node = self._node(name)
                if node is not None:
                    self._gone(node, None, finished=False, message="it does not exist")
            leaving = next(
                (n.name for n in self._nodes.live(role) if not n.is_active and n.name in group.running), None
            )
            if leaving is not None:  # its peers end first, so that its end is no failure of theirs
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
            self._record(self._journal.do(self.book.restart, role=role, generation=group.generation, reason=reason))

    def _gone(self, node: Node, generation: int | None, *, finished: bool, message: str) -> None:
        if node.name not in self.book.group(node.role).running:
            return
        self._record(
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
        """Form the next generation of a role, if it is due."""
        if self._nodes.closed:
            return
        active = self._nodes.active(role)
        ready = [node.name for node in active if node.state is NodeState.RUNNING]
        min_nodes = self._nodes.role(role).spec.min_replicas
        coming, now = len(active) - len(ready), self._clock.now()
        if not self.book.formable(role, now, ready=len(ready), coming=coming, min_nodes=min_nodes):
            return
        before = self.book.group(role)
        addr, port = self._choose_address()
        if not self._is_single_machine:
            first = self._nodes.get(ready[0]) if before.generation and ready else active[0]
            if not first.address:
                return  # rank 0 has not registered, so its address is unknown
            addr, port = first.address, random.randrange(MIN_PORT, _first_ephemeral())
        # At the start the others are being created, and programs wait for each other by themselves.
        names = ready if before.generation else [node.name for node in active]
        reason = before.ending or "job start"
        self._record(self._journal.do(self.book.form, role=role, nodes=names, addr=addr, port=port, reason=reason))

    def _record(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            match decision:
                case RestartAll(role=role, generation=generation, reason=reason):
                    self._journal.event(GroupRestarted(role=role, generation=generation, reason=reason))
                case StartProgram(rank=0, generation=generation, world_size=size) if generation > 1:
                    self._journal.event(GroupFormed(node=decision.node, generation=generation, world_size=size))

    def _assignment(self, start: StartProgram | None) -> RankAssignment | None:
        if start is None:
            return None
        # A program that has GPUs of its own sees only these: to scripts that choose one by LOCAL_RANK it is alone on its machine.
        is_alone = not self._is_single_machine or self._nodes.get(start.node).resources.gpu > 0
        return RankAssignment(
            generation=start.generation,
            rank=start.rank,
            world_size=start.world_size,
            local_rank=0 if is_alone else start.rank,
            local_world_size=1 if is_alone else start.world_size,
            group_rank=start.rank if is_alone else 0,
            addr=start.addr,
            port=start.port,
            restart_count=start.restart_count,
            max_restarts=max(0, self._max_restarts),
        )


def free_port(host: str = "127.0.0.1") -> int:
    """A free port outside the ephemeral range."""
    for _ in range(MAX_PORT_TRIES):
        port = random.randrange(MIN_PORT, _first_ephemeral())
        if (bound := _bind(host, port)) is not None:
            return bound
    bound = _bind(host, 0)
    assert bound is not None, "no free port left on this machine"
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
        first = 32_768  # the default of Linux
    return max(first, MIN_PORT + 1000)
