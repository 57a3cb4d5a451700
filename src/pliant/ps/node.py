"""The process of one parameter server: ``python -m pliant.ps``, the program of the role ``ps``.

It takes a seat at the master, restores what belongs there (``restoring``), executes the orders that were given meanwhile, and
only then says where it serves. From then on one loop asks for orders and executes them, while connections are served by
threads of their own, and another one (``pulse``) tells the master that the loop gets on. If the master says that the seat is no
longer its own, it lets go of everything and asks for another.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pliant.core.errors import PermanentError, PliantError, SessionExpired
from pliant.ps.executing import Executor, Stopped
from pliant.ps.pulse import Pulse
from pliant.ps.restoring import Beginning, restored
from pliant.ps.server import PsServer
from pliant.ps.store import ParameterStore
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, MasterClient
from pliant.rpc.orders import order_from
from pliant.rpc.tls import TlsFiles

log = logging.getLogger(__name__)

PAUSE = 0.1  # seconds between tries to reach the master
ALIVE_TIMEOUT = 5.0  # seconds; another word of it follows soon


class PsNode:
    def __init__(self, address: Address, *, node: str, incarnation: int, folder: Path, host: str) -> None:
        self._master = MasterClient(address)
        self._address = address
        self._node = node
        self._incarnation = incarnation
        self._folder = folder
        self._host = host
        self._patience = float(os.environ.get("PLIANT_ORPHAN_TIMEOUT", 600))
        self.stopping = threading.Event()
        self._waits = False  # for a seat, and holds nothing
        self._said: deque[str] = deque(maxlen=100)  # for the job's events

    def run(self) -> None:
        """Until it is told to stop."""
        try:
            while not self.stopping.is_set():
                begin = self._join()
                if begin is not None:
                    self._serve(begin)
        except Stopped:
            log.info("%s ends as it was told to", self._node)
        finally:
            self._master.close()

    def stop(self, *_: object) -> None:
        """A signal's handler, in the thread of ``run``: a call that waits for a seat is left, all else is brought to its end."""
        self.stopping.set()
        if self._waits:
            raise Stopped

    def _join(self) -> Beginning | None:
        request = pb.JoinSeatRequest(node=self._node, incarnation=self._incarnation)
        self._waits = True
        try:
            reply = self._insist(self._master.stubs.parameters.JoinSeat, request, timeout=15)
        finally:
            self._waits = False
        return Beginning.from_message(reply) if reply.seat >= 0 else None

    def _serve(self, begin: Beginning) -> None:
        with Pulse(lambda: self._tell_alive(begin)) as pulse:
            self._serve_with(begin, pulse)

    def _serve_with(self, begin: Beginning, pulse: Pulse) -> None:
        begun = time.monotonic()
        store = restored(begin, self._folder, self._say)
        executor = Executor(
            store,
            begin,
            self._folder,
            say=self._say,
            dumped=lambda order, failure: self._report_dump(begin, order, failure),
            stopping=self.stopping,
            at_disk=pulse.at_disk,
        )
        server: PsServer | None = None
        try:
            self._follow(begin, store, executor, None, until=begin.last)
            executor.caught_up()
            tls = self._address.tls if isinstance(self._address.tls, TlsFiles) else None  # programs have files
            server = PsServer(store, self._address.token, host=self._host, tls=tls, stage=executor.stage)
            server.start()
            where = f"{_advertised(self._host)}:{server.port}"
            log.info("seat %d is served at %s after %.2f s", begin.seat, where, time.monotonic() - begun)
            ready = pb.SeatReadyRequest(seat=begin.seat, tenure=begin.tenure, address=where)
            self._insist(self._master.stubs.parameters.SeatReady, ready)
            self._follow(begin, store, executor, server, until=None)
        except SessionExpired as error:
            log.warning("%s lets go of seat %d: %s", self._node, begin.seat, error.message)
        finally:
            if server is not None:
                server.stop()
            executor.close()

    def _follow(
        self, begin: Beginning, store: ParameterStore, executor: Executor, server: PsServer | None, *, until: int | None
    ) -> None:
        """Execute orders, for ever or up to a number."""
        base = begin.base
        while not self.stopping.is_set() and (until is None or executor.done < until):
            request = pb.NextOrdersRequest(
                seat=begin.seat,
                tenure=begin.tenure,
                after=executor.done,
                stats=_stats(store, server, executor),
                said=list(self._said),
            )
            reply = self._insist(self._master.stubs.parameters.NextOrders, request)
            for _ in request.said:
                self._said.popleft()
            for message in reply.orders:
                executor.execute(order_from(message))
            if reply.base > base:
                base = reply.base
                executor.cut(base)

    def _tell_alive(self, begin: Beginning) -> None:
        held = pb.SeatTenure(seat=begin.seat, tenure=begin.tenure)
        self._master.call(self._master.stubs.parameters.SeatAlive, held, timeout=ALIVE_TIMEOUT)

    def _report_dump(self, begin: Beginning, order: int, failure: str) -> None:
        request = pb.ReportDumpRequest(seat=begin.seat, tenure=begin.tenure, order=order, failure=failure)
        try:
            self._insist(self._master.stubs.parameters.ReportDump, request)
        except (PliantError, Stopped) as error:
            log.warning("dump %d was not reported: %s", order, error)

    def _say(self, text: str) -> None:
        log.warning("%s", text)
        self._said.append(text)

    def _insist(self, method: Callable[..., Any], request: Any, *, timeout: float = 10.0) -> Any:
        return self._master.insist(method, request, patience=self._patience, timeout=timeout, pause=self._pause)

    def _pause(self) -> None:
        if self.stopping.wait(PAUSE):
            raise Stopped


def _stats(store: ParameterStore, server: PsServer | None, executor: Executor) -> pb.SeatStats:
    told: dict[str, Any] = server.stats() if server is not None else {"store": store.stats()}
    kept = told["store"]
    used = resource.getrusage(resource.RUSAGE_SELF)
    return pb.SeatStats(
        rows=kept["rows"],
        bytes=kept["bytes"],
        bytes_in=told.get("bytes_in", 0),
        bytes_out=told.get("bytes_out", 0),
        requests=sum(told.get("requests", {}).values()),
        queue=kept["queue"] + told.get("in_work", 0),
        apply_seconds=kept["apply_seconds"],
        cpu_seconds=used.ru_utime + used.ru_stime,
        log_bytes=executor.log_bytes,
        iteration=kept["iteration"],
    )


def _advertised(host: str) -> str:
    return socket.gethostbyname(socket.gethostname()) if host == "0.0.0.0" else host


def own_host(master: str) -> str:
    """The address of this machine on the way to the master; ``PLIANT_PS_HOST`` says otherwise."""
    if given := os.environ.get("PLIANT_PS_HOST"):
        return given
    host, _, port = master.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host or "127.0.0.1", int(port)))  # sends nothing
        return str(probe.getsockname()[0])


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    address = Address.from_env()
    folder = os.environ.get("PLIANT_PS_DIR")
    if not folder:
        raise PermanentError(
            "PLIANT_PS_DIR is not set", hint="run it as the role ps of a job with strategy ps-sync or ps-async"
        )
    node = PsNode(
        address,
        node=os.environ.get("PLIANT_NODE", f"ps-guest-{os.getpid()}"),
        incarnation=int(os.environ.get("PLIANT_INCARNATION", 0)),
        folder=Path(folder),
        host=own_host(address.target),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, node.stop)
    node.run()
