"""One world as a set of processes that can add tensors up: a gloo group, and a way to leave it at any moment.

A collective is never waited for by its own ``wait``: that would hang on a frozen peer until a time-out. Its future and the
master's report that the world is broken set one event, whichever comes first (``World.finish``). An abandoned collective may
still write into its buffers later, so buffers of a broken world are never used again, and the group is ended by a reaper
thread. A wait that takes much longer than waits usually do is reported (``on_overdue``); the master finds out whose fault it is
(``core/rendezvous/failure_detector.py``).

Members learn each other's addresses through the master (``address_store.py``); gloo listens on this node's own address only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from pliant.core.errors import PermanentError, PliantError, RetryableError
from pliant.core.rendezvous.failure_detector import MAX_WAIT_S, WaitPace
from pliant.torch.worlds.address_store import AddressStore
from pliant.torch.worlds.group_reaper import keep_group, make_device, reap_group

CONNECT_TIMEOUT_S = 30.0  # for all members to reach each other
PORT_KEY = "port"
MAX_LATE_S = 0.1  # by which this process may wake up late and yet have run
NEVER = timedelta(days=1)  # the time-out of a collective; never reached: see ``finish``


# Publishes this process's keys to the members of a world and returns what each of them published, in the order of their ranks.
ExchangeKeys = Callable[["World", dict[str, bytes]], Sequence[Mapping[str, bytes]]]


class WorldBroken(RetryableError):
    """A peer is gone; form a new world and continue with the survivors."""


@dataclass(frozen=True)
class Peer:
    name: str
    progress: int  # the higher, the newer its state
    has_state: bool
    units: frozenset[int]  # of the step in progress, that it has gradients of


@dataclass
class World:
    round: int
    rank: int
    peers: Sequence[Peer]
    group: Any = None  # dist.ProcessGroupGloo; None in a world of one
    broken: threading.Event = field(default_factory=threading.Event)
    seats: tuple[int, ...] = ()  # virtual workers that each rank hosts; empty: evenly
    waiting: int = 0  # joiners, as the master reports
    outdated: bool = False  # virtual workers were assigned otherwise meanwhile, as the master reports
    ranks: tuple[int, ...] = ()  # in the round, of the members of a part of it; empty: this is the whole
    port: int = 0  # where this process listens for its peers' connections, and where they do
    peer_ports: frozenset[int] = frozenset()
    store: AddressStore | None = None  # of the group; lives as long as it
    pace: WaitPace = field(default_factory=WaitPace)  # of this process, over all its worlds
    on_overdue: Callable[[World], None] = lambda world: None  # a peer may have failed; must not block
    _interrupts: set[threading.Event] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def size(self) -> int:
        return len(self.peers)

    @property
    def alone(self) -> bool:
        return self.group is None

    def break_up(self) -> None:
        """The master reports that a peer is gone: all waiting ends."""
        with self._lock:
            self.broken.set()
            for event in self._interrupts:
                event.set()

    def allreduce(self, tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM) -> Any:
        """Start summing a tensor over all peers, in place."""
        options = dist.AllreduceOptions()
        options.reduceOp = op
        options.timeout = NEVER
        return self._begin(lambda: self.group.allreduce([tensor], options))

    def broadcast(self, tensor: torch.Tensor) -> Any:
        """Start sending rank 0's tensor to all."""
        options = dist.BroadcastOptions()
        options.timeout = NEVER
        return self._begin(lambda: self.group.broadcast([tensor], options))

    def alltoall(self, taken: torch.Tensor, given: torch.Tensor, takes: list[int], gives: list[int]) -> Any:
        """Start giving each peer its part of one flat tensor, and taking the others' parts, in the order of ranks.

        ``takes`` and ``gives``: how many elements, by rank.
        """
        options = dist.AllToAllOptions()
        options.timeout = NEVER
        return self._begin(lambda: self.group.alltoall_base(taken, given, takes, gives, options))

    def subgroup(self, ranks: Sequence[int], host: str, exchange: ExchangeKeys) -> World:
        """Some of the peers as a group of their own, which breaks with the world."""
        part = World(self.round, list(ranks).index(self.rank), [self.peers[r] for r in ranks], ranks=tuple(ranks))
        part.broken = self.broken
        part.on_overdue = self.on_overdue
        part._interrupts, part._lock = self._interrupts, self._lock
        connect(part, host, exchange)
        return part

    def finish(self, works: Sequence[Any]) -> None:
        """Wait until all are done; raises ``WorldBroken`` as soon as one failed or the world is known to be broken."""
        if not works:
            return
        done = threading.Event()
        left = len(works)
        failed: list[Exception] = []
        count = threading.Lock()

        def one_done(future: Any) -> None:
            nonlocal left
            try:
                future.value()
            except RuntimeError as error:  # what gloo raises when a peer closed its connection
                failed.append(error)
            with count:
                left -= 1
                if left == 0 or failed:
                    done.set()

        with self._lock:
            self._interrupts.add(done)
            if self.broken.is_set():
                done.set()
        for work in works:
            work.get_future().add_done_callback(one_done)
        waited = self.wait(done)
        with self._lock:
            self._interrupts.discard(done)
        if not failed and not left:
            self.pace.record(waited)
        if failed:
            raise WorldBroken(f"round {self.round}: a collective failed: {str(failed[0])[:200]}")
        if left:
            raise WorldBroken(f"round {self.round}: the master reports that a peer was lost")

    def wait(self, done: threading.Event) -> float:
        """Returns the seconds that it took. Time in which this process itself did not run says nothing about its peers."""
        began = time.monotonic()
        pause = self.pace.limit
        while True:
            slice_began = time.monotonic()
            if done.wait(pause):
                return time.monotonic() - began
            if time.monotonic() - slice_began < pause + MAX_LATE_S:
                self.on_overdue(self)
                pause = min(2 * pause, MAX_WAIT_S)

    def leave(self) -> None:
        """Leave this world."""
        self.break_up()
        self.release()

    def abandon(self) -> None:
        """Leave this world with the process, which ends without ending the group."""
        self.break_up()
        if self.group is not None:
            keep_group((self.store, self.group))

    def release(self) -> None:
        """Release the group; ending it may block, so the reaper does it."""
        if self.group is not None:
            held, self.group = [self.store, self.group], None
            reap_group(held, self.port, self.peer_ports)

    def _begin(self, start: Callable[[], Any]) -> Any:
        try:
            return start()
        except RuntimeError as error:
            raise WorldBroken(f"round {self.round}: a collective could not start: {str(error)[:200]}") from error


def connect(world: World, host: str, exchange: ExchangeKeys) -> None:
    """Reach all peers; raises ``WorldBroken`` if one is gone before that."""
    if world.size == 1:
        return
    made: list[Any] = []
    problems: list[Exception] = []
    done = threading.Event()

    def make() -> None:
        try:
            made.append(_make_group(world, host, exchange))
        except (RuntimeError, ValueError, PliantError) as error:
            problems.append(error)
        finally:
            done.set()  # whatever ends this thread: nobody waits for it for ever

    with world._lock:
        world._interrupts.add(done)
        if world.broken.is_set():
            done.set()
    thread = threading.Thread(target=make, name=f"form-{world.round}", daemon=True)
    thread.start()
    world.wait(done)
    with world._lock:
        world._interrupts.discard(done)
    if not made:
        if problems and isinstance(problems[0], PermanentError):
            raise problems[0]
        why = str(problems[0])[:200] if problems else "a peer was lost"
        raise WorldBroken(f"round {world.round} could not be formed: {why}")
    world.group = made[0]


def _make_group(world: World, host: str, exchange: ExchangeKeys) -> Any:
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    device, world.port = make_device(host)
    options._devices = [device]
    options._timeout = timedelta(seconds=CONNECT_TIMEOUT_S)  # an abandoned attempt ends by itself
    world.store = store = AddressStore(lambda keys: exchange(world, keys))
    store.set(PORT_KEY, str(world.port))
    group = dist.ProcessGroupGloo(store, world.rank, world.size, options)
    ports = (int(keys[PORT_KEY]) for rank, keys in enumerate(store.published) if rank != world.rank)
    world.peer_ports = frozenset(port for port in ports if port)
    return group
