"""``torchrun --rdzv-backend=pliant``: torchrun's agents meet at a Pliant master.

    torchrun --rdzv-backend=pliant --rdzv-endpoint=ADDRESS --rdzv-id=JOB \
             --rdzv-conf token_file=…[,tls_dir=…] --nnodes=1:3 train.py

Each torchrun agent is a member of the master's rendezvous (``core/rendezvous/book.py``). For each round it opens a key-value store
of its own; the world uses that of rank 0, for the agents under a prefix and for their workers (``MASTER_ADDR``, ``MASTER_PORT``).
A new store each time means that nothing of an earlier round is ever read. It is torch's ``TCPStore``, because workers expect one:
it authenticates nobody, and so listens on this node's own address only. A thread keeps a long poll at the master, which is also the
agent's heartbeat; torchrun asks for its result in its monitor loop.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

from pliant.core.errors import Conflict, MasterUnavailable, NotFound, PliantError, SessionExpired
from pliant.core.nodes.environment import NodeEnvironment
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, MasterClient
from pliant.rpc.identity import read_token_file
from pliant.rpc.own_address import own_address
from pliant.rpc.tls import TlsFiles

log = logging.getLogger(__name__)

JOIN_TIMEOUT_S = 600.0  # as torchrun's join_timeout
WATCH_TIMEOUT_S = 2.0  # a long poll is renewed after this
STORE_TIMEOUT_S = 300.0
STORE_BACKLOG = 2048  # workers that connect at once
RETRY_PAUSE_S = 0.1


class PeerGone(Exception):
    """A member of the world is gone before all had met; join again."""


class PliantRendezvous(RendezvousHandler):
    def __init__(
        self,
        master: MasterClient,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        *,
        local_addr: str | None = None,
        last_call: float | None = None,
        join_seconds: float = JOIN_TIMEOUT_S,
    ) -> None:
        self._master = master
        self._run_id = run_id
        self._limits = pb.SetLimitsRequest(min_nodes=min_nodes, max_nodes=max_nodes, wait_seconds=last_call)
        self._host = _host(local_addr, master.address.target)
        self._join_seconds = join_seconds
        self._member = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._incarnation = uuid.uuid4().hex
        self._last_round = 0
        self._last_world: pb.World | None = None
        self._store: TCPStore | None = None  # of the round in use
        self._watched = 0  # the round in use; 0: none
        self._waiting = 0
        self._broken = threading.Event()
        self._closed = False
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pliant-rendezvous", daemon=True)
        self._thread.start()
        atexit.register(self._leave)  # an agent that is terminated (SIGTERM) does not call ``shutdown``

    # --- what torchrun asks

    def get_backend(self) -> str:
        return "pliant"

    @property
    def use_agent_store(self) -> bool:
        return True

    def get_run_id(self) -> str:
        return self._run_id

    def is_closed(self) -> bool:
        return self._closed

    def set_closed(self) -> None:
        self._closed = True
        self._call(self._master.stubs.rendezvous.Close, pb.Empty())

    def num_nodes_waiting(self) -> int:
        """Above zero, torchrun restarts its workers in a new world; so also when the one in use has lost a member."""
        return self._waiting or int(self._broken.is_set())

    def next_rendezvous(self) -> RendezvousInfo:
        deadline = time.monotonic() + self._join_seconds
        self._watched = 0
        self._call(self._master.stubs.rendezvous.SetLimits, self._limits)
        while True:
            own = self._open_store()
            world = self._wait_for_world(own.port, deadline)
            names = [member.name for member in world.members]
            rank = names.index(self._member)
            try:
                store, address = self._meet(world, rank, own)
            except (PeerGone, RuntimeError) as error:  # torch's errors of a store are RuntimeErrors
                log.info("round %d was not formed: %s", world.round, error)
                self._watched = 0
                continue
            log.info("%s is rank %d of %d in round %d", self._member, rank, len(names), world.round)
            return RendezvousInfo(PrefixStore(f"pliant/{world.round}", store), rank, len(names), address)

    def shutdown(self) -> bool:
        """The end for all, as with torchrun's own backend: who asks for another world is refused."""
        if self._ended.is_set():
            return self._closed
        try:
            self.set_closed()
        except RendezvousConnectionError as error:
            log.warning("the rendezvous was not closed: %s", error)
        self._leave()
        return self._closed

    # --- joining

    def _open_store(self) -> TCPStore:
        """By itself a TCPStore listens on all interfaces."""
        family, *_, address = socket.getaddrinfo(self._host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server((str(address[0]), 0), family=family, backlog=STORE_BACKLOG)
        return TCPStore(
            self._host,
            listener.getsockname()[1],
            is_master=True,
            wait_for_workers=False,
            timeout=_seconds(STORE_TIMEOUT_S),
            master_listen_fd=listener.detach(),
        )

    def _wait_for_world(self, port: int, deadline: float) -> pb.World:
        """Join, and again until there is a world that this agent is a member of."""
        stubs = self._master.stubs.rendezvous
        while time.monotonic() < deadline:
            join = pb.JoinRequest(
                member=self._member,
                incarnation=self._incarnation,
                attrs={"store": f"{self._host}:{port}"},
                after=self._last_round,
            )
            try:
                self._call(stubs.Join, join, deadline)
            except SessionExpired as error:
                self._begin_anew(error.message)
                continue
            except NotFound:  # of the round: another master took over
                self._call(stubs.Announce, self._announcement(), deadline)
                continue
            reply = self._wait(deadline)
            if reply is None:
                continue
            self._last_round = self._watched = reply.round
            self._last_world = reply
            self._waiting = 0
            self._broken.clear()
            self._wake.set()
            return reply
        raise RendezvousTimeoutError(f"no world of {self._run_id} within {self._join_seconds:g} s")

    def _wait(self, deadline: float) -> pb.World | None:
        """The world; None: join again."""
        request = pb.GetWorldRequest(member=self._member, incarnation=self._incarnation)
        while time.monotonic() < deadline:
            reply = self._call(self._master.stubs.rendezvous.GetWorld, request, deadline, timeout=2 * WATCH_TIMEOUT_S)
            match reply.state:
                case pb.WORLD_STATE_FORMED:
                    world: pb.World = reply.world
                    return world
                case pb.WORLD_STATE_REJOIN:
                    self._last_round = max(self._last_round, reply.round)
                    return None
                case pb.WORLD_STATE_CLOSED:
                    self._closed = True
                    raise RendezvousClosedError(reply.reason)
                case pb.WORLD_STATE_EXPELLED:
                    self._begin_anew(reply.reason)
                    return None
        return None

    def _begin_anew(self, why: str) -> None:
        log.warning("%s rejoins: %s", self._member, why)
        self._incarnation, self._last_round, self._last_world = uuid.uuid4().hex, 0, None

    def _announcement(self) -> pb.AnnounceRequest:
        """For a master that took over from one whose journal is lost."""
        return pb.AnnounceRequest(
            member=self._member, incarnation=self._incarnation, world=self._last_world, after=self._last_round
        )

    def _meet(self, world: pb.World, rank: int, own: TCPStore) -> tuple[TCPStore, RendezvousStoreInfo]:
        """Reach the store of rank 0, and wait there until all members have."""
        host, _, port = world.members[0].attrs["store"].rpartition(":")
        store = own
        if rank != 0:
            store = TCPStore(
                host, int(port), is_master=False, wait_for_workers=False, timeout=_seconds(STORE_TIMEOUT_S)
            )
        key = f"pliant/{world.round}/here"
        store.add(key, 1)
        while store.add(key, 0) < len(world.members):
            if self._broken.wait(0.02):
                raise PeerGone("a member was lost before all had connected")
        self._store = store
        return store, RendezvousStoreInfo(host, int(port))

    def _call(
        self, method: Callable[..., Any], request: Any, deadline: float | None = None, timeout: float = 10.0
    ) -> Any:
        """A call that survives restarts of the master, until the deadline (None: as long as one call may take)."""
        retry_timeout = timeout if deadline is None else deadline - time.monotonic()
        try:
            return self._master.call_with_retry(
                method, request, retry_timeout=retry_timeout, timeout=timeout, max_pause=RETRY_PAUSE_S
            )
        except MasterUnavailable as error:
            raise RendezvousConnectionError(f"no response from {self._master.address.target}: {error}") from None
        except Conflict as error:
            self._closed = True
            raise RendezvousClosedError(str(error)) from None
        except (NotFound, SessionExpired):
            raise
        except PliantError as error:
            raise RendezvousConnectionError(f"{self._master.address.target} refused the call: {error}") from None

    # --- watching

    def _watch(self) -> None:
        """News of the round in use, for ever; each call is a sign of life."""
        while not self._ended.is_set():
            round = self._watched
            if not round or self._broken.is_set():
                self._wake.wait(WATCH_TIMEOUT_S)
                self._wake.clear()
                continue
            request = pb.WatchRoundRequest(
                round=round, known_waiting=self._waiting, member=self._member, incarnation=self._incarnation
            )
            try:
                status = self._look(request)
            except PliantError as error:
                log.debug("no news of round %d: %s", round, error)
                self._ended.wait(RETRY_PAUSE_S)
                continue
            if round != self._watched:
                continue
            self._waiting, self._closed = status.waiting, status.closed
            if not status.intact:
                self._broken.set()

    def _look(self, request: pb.WatchRoundRequest) -> pb.RoundStatus:
        stubs = self._master.stubs.rendezvous
        try:
            status: pb.RoundStatus = self._master.call(stubs.WatchRound, request, timeout=WATCH_TIMEOUT_S)
            return status
        except NotFound:
            self._master.call(stubs.Announce, self._announcement(), timeout=WATCH_TIMEOUT_S)
            raise

    def _leave(self) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._wake.set()
        atexit.unregister(self._leave)
        request = pb.LeaveRequest(member=self._member, incarnation=self._incarnation)
        try:
            self._master.call(self._master.stubs.rendezvous.Leave, request, timeout=2)
        except PliantError as error:
            log.debug("leaving was not reported to the master: %s", error)
        self._thread.join(2 * WATCH_TIMEOUT_S)
        self._master.close()


def create_handler(parameters: RendezvousParameters) -> PliantRendezvous:
    """From torchrun's options. Missing ones are taken from the environment of Pliant's own programs."""
    environment = NodeEnvironment.from_env(os.environ)
    target = parameters.endpoint or environment.master_addr
    token_file = parameters.get("token_file") or environment.token_file
    tls_dir = parameters.get("tls_dir") or environment.tls_dir
    if not target or not token_file:
        raise ValueError(
            "--rdzv-backend=pliant needs --rdzv-endpoint=ADDRESS of a Pliant master and --rdzv-conf token_file=FILE"
            " with its job's token; `pliant master` prints both"
        )
    tls = TlsFiles(Path(tls_dir)) if tls_dir else None
    address = Address(target, read_token_file(Path(token_file)), tls, environment.allows_plaintext)
    master = MasterClient(address)
    job = master.call(master.stubs.job.GetStatus, pb.Empty(), timeout=30).name
    if parameters.run_id not in ("", "none", job):
        raise ValueError(f"{target} is the master of {job!r}, but --rdzv-id is {parameters.run_id!r}")
    last_call = parameters.get("last_call_timeout")
    return PliantRendezvous(
        master,
        parameters.run_id,
        parameters.min_nodes,
        parameters.max_nodes,
        local_addr=parameters.local_addr,
        last_call=None if last_call is None else float(last_call),
        join_seconds=float(parameters.get("join_timeout", JOIN_TIMEOUT_S)),
    )


def _host(local_addr: str | None, target: str) -> str:
    """Under which peers reach this node. Some systems map their own name to 127.0.1.1, where only they do."""
    if not local_addr:
        return own_address(target)
    try:
        ip_address(local_addr)
    except ValueError:  # a name
        *_, address = socket.getaddrinfo(local_addr, 0, type=socket.SOCK_STREAM)[0]
        if ip_address(address[0]).is_loopback:
            return own_address(target)
    return local_addr


def _seconds(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)
