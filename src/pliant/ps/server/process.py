"""The process of one parameter server: ``python -m pliant.ps``, the program of the role ``ps``.

It takes a seat at the master, restores the seat's state (``recovery.restore``), replays the orders after it, and only then
announces its address. From then on one loop asks for orders and executes them, while connections are served by threads of their
own, and another one (``liveness_reporter``) reports that the loop makes progress. If its fencing token is stale, it drops
everything and asks for another seat.
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
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.parameters.dumps import RestorePoint
from pliant.ps.recovery.order_executor import OrderExecutor, Stopped
from pliant.ps.recovery.restore import restored
from pliant.ps.server.liveness_reporter import LivenessReporter
from pliant.ps.server.server import PsServer
from pliant.ps.store.store import ParameterStore
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, MasterClient
from pliant.rpc.contributions import orders_from_message
from pliant.rpc.own_address import own_address
from pliant.rpc.parameters import restore_point
from pliant.rpc.tls import TlsFiles

log = logging.getLogger(__name__)

MAX_RETRY_PAUSE_S = 0.1  # between attempts to reach the master
ALIVE_TIMEOUT_S = 5.0  # the next report follows soon


class PsNode:
    def __init__(self, address: Address, *, node: str, incarnation: int, folder: Path, host: str) -> None:
        self._master = MasterClient(address)
        self._address = address
        self._node = node
        self._incarnation = incarnation
        self._folder = folder
        self._host = host
        self._retry_timeout = NodeEnvironment.from_env(os.environ).orphan_timeout
        self.stopping = threading.Event()
        self._waits = False  # for a seat, and holds nothing
        self._messages: deque[str] = deque(maxlen=100)  # for the job's events

    def run(self) -> None:
        """Until it is asked to stop."""
        try:
            while not self.stopping.is_set():
                point = self._join()
                if point is not None:
                    self._serve(point)
        except Stopped:
            log.info("%s ends as requested", self._node)
        finally:
            self._master.close()

    def stop(self, *_: object) -> None:
        """A signal's handler, in the thread of ``run``: a call that waits for a seat is left, all else is brought to its end."""
        self.stopping.set()
        if self._waits:
            raise Stopped

    def _join(self) -> RestorePoint | None:
        request = pb.JoinSeatRequest(node=self._node, incarnation=self._incarnation)
        self._waits = True
        try:
            reply = self._call(self._master.stubs.parameters.JoinSeat, request, timeout=15)
        finally:
            self._waits = False
        return restore_point(reply) if reply.HasField("holder") else None

    def _serve(self, point: RestorePoint) -> None:
        with LivenessReporter(lambda: self._report_alive(point)) as reporter:
            self._serve_with(point, reporter)

    def _serve_with(self, point: RestorePoint, reporter: LivenessReporter) -> None:
        begun = time.monotonic()
        store = restored(point, self._folder, self._report)
        executor = OrderExecutor(
            store,
            point,
            self._folder,
            report=self._report,
            on_dump=lambda order, failure: self._report_dump(point, order, failure),
            stopping=self.stopping,
            at_disk=reporter.at_disk,
        )
        server: PsServer | None = None
        try:
            self._follow(point, store, executor, None, until=point.last)
            executor.finish_replay()
            tls = self._address.tls if isinstance(self._address.tls, TlsFiles) else None  # programs have files
            server = PsServer(store, self._address.token, host=self._host, tls=tls, stage=executor.stage)
            server.start()
            where = f"{_advertised(self._host)}:{server.port}"
            log.info("seat %d is served at %s after %.2f s", point.seat, where, time.monotonic() - begun)
            ready = pb.SeatReadyRequest(holder=_holder(point), address=where)
            self._call(self._master.stubs.parameters.SeatReady, ready)
            self._follow(point, store, executor, server, until=None)
        except SessionExpired as error:
            log.warning("%s gives up seat %d: %s", self._node, point.seat, error.message)
        finally:
            if server is not None:
                server.stop()
            executor.close()

    def _follow(
        self,
        point: RestorePoint,
        store: ParameterStore,
        executor: OrderExecutor,
        server: PsServer | None,
        *,
        until: int | None,
    ) -> None:
        """Execute orders, until stopped or up to a number."""
        base = point.base
        while not self.stopping.is_set() and (until is None or executor.done < until):
            request = pb.NextOrdersRequest(
                holder=_holder(point),
                after=executor.done,
                stats=_stats(store, server, executor),
                messages=list(self._messages),
                load=[pb.PartitionLoad(partition=p, share=share) for p, share in store.load.heaviest()],
            )
            reply = self._call(self._master.stubs.parameters.NextOrders, request)
            for _ in request.messages:
                self._messages.popleft()
            for order in orders_from_message(reply):
                executor.execute(order)
            if reply.base > base:
                base = reply.base
                executor.truncate_log(base)

    def _report_alive(self, point: RestorePoint) -> None:
        self._master.call(self._master.stubs.parameters.SeatAlive, _holder(point), timeout=ALIVE_TIMEOUT_S)

    def _report_dump(self, point: RestorePoint, order: int, failure: str) -> None:
        request = pb.ReportDumpRequest(holder=_holder(point), order=order, failure=failure)
        try:
            self._call(self._master.stubs.parameters.ReportDump, request)
        except (PliantError, Stopped) as error:
            log.warning("dump %d was not reported: %s", order, error)

    def _report(self, text: str) -> None:
        log.warning("%s", text)
        self._messages.append(text)

    def _call(self, method: Callable[..., Any], request: Any, *, timeout: float = 10.0) -> Any:
        return self._master.call_with_retry(
            method,
            request,
            retry_timeout=self._retry_timeout,
            timeout=timeout,
            pause=self._pause,
            max_pause=MAX_RETRY_PAUSE_S,
        )

    def _pause(self, seconds: float) -> None:
        if self.stopping.wait(seconds):
            raise Stopped


def _holder(point: RestorePoint) -> pb.SeatHolder:
    return pb.SeatHolder(seat=point.seat, fencing_token=point.fencing_token)


def _stats(store: ParameterStore, server: PsServer | None, executor: OrderExecutor) -> pb.SeatStats:
    stats: dict[str, Any] = server.stats() if server is not None else {"store": store.stats()}
    stored = stats["store"]
    used = resource.getrusage(resource.RUSAGE_SELF)
    return pb.SeatStats(
        rows=stored["rows"],
        bytes=stored["bytes"],
        bytes_in=stats.get("bytes_in", 0),
        bytes_out=stats.get("bytes_out", 0),
        requests=sum(stats.get("requests", {}).values()),
        queue=stored["queue"] + stats.get("in_work", 0),
        apply_seconds=stored["apply_seconds"],
        cpu_seconds=used.ru_utime + used.ru_stime,
        log_bytes=executor.log_bytes,
        iteration=stored["iteration"],
    )


def _advertised(host: str) -> str:
    return socket.gethostbyname(socket.gethostname()) if host == "0.0.0.0" else host


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    environment = NodeEnvironment.from_env(os.environ)
    address = Address.of_node(environment)
    if environment.parameters_dir is None:
        raise PermanentError(
            "PLIANT_PS_DIR is not set", hint="run it as the role ps in a job with strategy ps-sync or ps-async"
        )
    node = PsNode(
        address,
        node=environment.node or f"ps-guest-{os.getpid()}",
        incarnation=environment.incarnation or 0,
        folder=environment.parameters_dir,
        host=os.environ.get("PLIANT_PS_HOST") or own_address(address.target),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, node.stop)
    node.run()
