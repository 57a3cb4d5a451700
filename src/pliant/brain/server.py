"""The Brain as a process: one of several is the active one, by a lease in the database; the others wait for their turn.

A *turn* begins when the lease is acquired: only then does the Brain listen, so that whoever connects reaches the active one. It
ends when the lease is lost (the database was away for too long, or another Brain took it) or the process is told to end. Writes of
a turn are fenced by its term, so one that has lost the lease without noticing changes nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import grpc.aio

from pliant.brain.callers import BrainBorder
from pliant.brain.coordinator import Coordinator
from pliant.brain.executor.algorithm_executor import AlgorithmExecutor
from pliant.brain.figures import BrainFigures, metrics_text
from pliant.brain.journal_service import JournalsServicer
from pliant.brain.own_folder import OwnFolder
from pliant.brain.report_writer import ReportWriter
from pliant.brain.services import ClustersServicer, PlanningServicer
from pliant.brain.store import leases
from pliant.brain.store.database import Database
from pliant.brain.store.migrating import check_schema, migrate
from pliant.brain.store.retention import Retention, roll_up
from pliant.core.errors import BrainUnavailable, PermanentError, PliantError, RetryableError
from pliant.rpc import brain_pb2_grpc as services
from pliant.rpc import http_pages
from pliant.rpc.server import SERVING, add_health, make_server
from pliant.rpc.unix_socket import ServedSocket

log = logging.getLogger(__name__)

T = TypeVar("T")

LEASE_S = 6.0
RENEW_S = 1.5
LIFT_S = 30.0  # between two turns that masters end since they have heard of a later term
PING_S = 5.0
RETRY_S = 1.0
GIVE_UP_S = 3.0  # for a database that does not answer, once the process was told to end
SOCKET_NAME = "brain.sock"
CLOSE_S = 1.0  # for calls that are under way
ROLL_UP_S = 60.0


@dataclass(frozen=True)
class BrainSettings:
    folder: Path  # token, certificates and, by default, the database
    database: str = ""  # URL; empty: SQLite in the folder
    listen: str = ""  # host:port, with TLS; empty: a Unix socket in the folder
    advertise: str = ""  # where others reach it, if not where it listens
    health_port: int | None = None
    health_host: str = "127.0.0.1"
    workers: int = 1  # processes for algorithms
    algorithm_timeout_s: float = 10.0
    algorithm_memory_mb: int = 1024
    migrates: bool = True  # an older schema is brought up to date at the start
    retention: Retention = field(default_factory=Retention)

    @property
    def url(self) -> str:
        return self.database or f"sqlite:///{self.folder / 'brain.db'}"


class BrainServer:
    def __init__(self, settings: BrainSettings) -> None:
        self.settings = settings
        self._folder = OwnFolder(settings.folder)
        self._token = self._folder.token()
        self.database = Database(settings.url)
        self._holder = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        self._lease: leases.Lease | None = None
        self._stop = asyncio.Event()
        self._turn_over = asyncio.Event()
        self._started = time.time()
        self._coordinator: Coordinator | None = None
        self._writer: ReportWriter | None = None
        self._lost_leases = 0
        self._lease_threads = ThreadPoolExecutor(2, "lease")  # of its own: a renewal waits for no other work
        self._lifted_at = float("-inf")  # when masters last ended a turn
        self._heard_of = 0  # the highest term that a master knows, if the database does not
        self.address = ""

    @property
    def is_active(self) -> bool:
        return self._coordinator is not None

    def stop(self) -> None:
        """In its event loop."""
        self._stop.set()
        self._turn_over.set()
        asyncio.get_running_loop().call_later(GIVE_UP_S, self.database.abort)

    async def run(self) -> None:
        """Until ``stop``, or a signal."""
        async with AsyncExitStack() as undo:
            undo.callback(self.database.close)
            undo.callback(self.database.abort)  # threads that still wait for it
            undo.callback(self._lease_threads.shutdown, wait=False)
            self._handle_signals()
            if self.settings.health_port is not None:
                pages = {"/healthz": self._health, "/readyz": self._ready, "/metrics": self._metrics}
                http = await http_pages.serve(self.settings.health_port, pages, self.settings.health_host)
                undo.callback(http.close)
            await self._prepare_database()
            executor = AlgorithmExecutor(
                self.settings.workers, self.settings.algorithm_timeout_s, self.settings.algorithm_memory_mb
            )
            undo.push_async_callback(executor.close)
            while not self._stop.is_set():
                if await self._acquire():
                    await self._take_turn(executor)

    # --- the lease

    @property
    def term(self) -> int:
        return self._lease.term if self._lease is not None else 0

    async def _acquire(self) -> bool:
        waited = False
        while not self._stop.is_set():
            try:
                self._lease = await self._in_lease_thread(
                    leases.acquire, self.database, leases.ACTIVE_BRAIN, self._holder, LEASE_S
                )
            except RetryableError as error:
                log.warning("cannot reach the database: %s", error)
            if self._lease is not None:
                log.info("this Brain is the active one, in term %d", self._lease.term)
                return True
            if not waited:
                log.info("another Brain is the active one; waiting for its lease to end")
                waited = True
            await self._pause(RETRY_S)
        return False

    async def _renew_on(self) -> None:
        """Until the lease is lost: another Brain has it, or it ran out by this machine's clock while the database was silent."""
        renewed = time.monotonic()
        while self._lease is not None:
            await asyncio.sleep(RENEW_S)
            began = time.monotonic()
            lease: leases.Lease | None = None
            try:
                lease = await self._renewed(self._lease, renewed + LEASE_S)
            except TimeoutError:
                log.error("the database was silent for %.0f s", time.monotonic() - renewed)
                self.database.abort()
            except PliantError as error:
                log.warning("cannot renew the lease: %s", error)
                if time.monotonic() - renewed < LEASE_S:
                    continue
            if lease is None:
                self._lose_lease()
                return
            self._lease, renewed = lease, began

    def _lose_lease(self) -> None:
        """As its renewal found, or a write that was fenced off."""
        if not self._turn_over.is_set():
            log.error("this Brain has lost its lease")
            self._lost_leases += 1
            self._turn_over.set()

    async def _renewed(self, lease: leases.Lease, until: float) -> leases.Lease | None:
        """Raises ``TimeoutError`` if the database is silent until then. One that answers others is waited for: a renewal stands
        behind the writes of this term that are under way, while which nobody can take the lease."""
        renewing = asyncio.ensure_future(self._in_lease_thread(leases.renew, self.database, lease, LEASE_S))
        renewing.add_done_callback(lambda done: done.cancelled() or done.exception())
        patience = max(0.0, until - time.monotonic())
        while not (await asyncio.wait((renewing,), timeout=patience))[0]:
            async with asyncio.timeout(PING_S):
                await self._in_lease_thread(self.database.ping)
            patience = RENEW_S
        return renewing.result()

    async def _in_lease_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._lease_threads, work, *arguments)

    def _raise_term(self, above: int) -> None:
        """Masters heard of a later turn than the database knows: it was restored from a backup. End this turn, and begin one that
        is later still. Not often: one job that says so again and again would end the turns of all."""
        now = time.monotonic()
        if now - self._lifted_at < LIFT_S:
            return
        self._lifted_at = now
        log.error("masters have heard of term %d and this is term %d: the database is an older one", above, self.term)
        self._heard_of = max(above, self._heard_of)
        self._turn_over.set()

    # --- a turn

    async def _take_turn(self, executor: AlgorithmExecutor) -> None:
        self._turn_over.clear()
        if self._stop.is_set():  # while the lease was acquired
            self._turn_over.set()
        try:
            await self._lift_term()
            async with AsyncExitStack() as undo:
                await self._serve(executor, undo)
                await self._turn_over.wait()
                self._coordinator = None
        except RetryableError as error:
            log.warning("this turn has ended: %s", error)
            await self._pause(RETRY_S)
        finally:
            self._coordinator = self._writer = None
            lease, self._lease = self._lease, None
            if lease is not None:
                with suppress(PliantError, TimeoutError):
                    async with asyncio.timeout(GIVE_UP_S):
                        await self._in_lease_thread(leases.release, self.database, lease)

    async def _lift_term(self) -> None:
        if self._lease is not None and self._heard_of >= self._lease.term:
            self._lease = await self._in_lease_thread(leases.raise_term, self.database, self._lease, self._heard_of)
            if self._lease is None:
                raise BrainUnavailable("another Brain has taken the lease")
            log.warning("continuing in term %d", self.term)

    async def _serve(self, executor: AlgorithmExecutor, undo: AsyncExitStack) -> None:
        coordinator = Coordinator(self.database, executor, lambda: self.term)
        writer = ReportWriter(self.database, lambda: self.term, time.time)
        coordinator.fenced_off = writer.fenced_off = self._lose_lease
        await coordinator.load()
        server = make_server(self._token, border=BrainBorder(self._token))
        health = add_health(server)
        planning = PlanningServicer(coordinator, writer, lambda: self.term, time.time, self._raise_term)
        services.add_PlanningServicer_to_server(planning, server)
        services.add_ClustersServicer_to_server(ClustersServicer(self.database, lambda: self.term, time.time), server)
        services.add_JournalsServicer_to_server(JournalsServicer(self.database, lambda: self.term, time.time), server)
        published = self._bind(server, undo)
        undo.push_async_callback(server.stop, CLOSE_S)
        undo.push_async_callback(coordinator.close)
        await server.start()
        await health.set("", SERVING)
        if published is not None:
            published.publish()
        self._folder.publish(self.address, self.term)
        for work in (self._renew_on(), writer.run(), coordinator.run(), self._roll_up_on()):
            undo.push_async_callback(_cancel, self._supervised(work))
        self._coordinator, self._writer = coordinator, writer
        log.info("serving at %s", self.address)

    def _supervised(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Nothing of a turn ends before the turn."""
        task = asyncio.create_task(work)

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("this turn of the Brain ends", exc_info=error)
                self._turn_over.set()

        task.add_done_callback(ended)
        return task

    def _bind(self, server: grpc.aio.Server, undo: AsyncExitStack) -> ServedSocket | None:
        listen = self.settings.listen
        if not listen:
            served = ServedSocket(self.settings.folder, SOCKET_NAME)
            served.bind(server)
            undo.callback(served.close)
            self.address = served.target
            return served
        host, _, port = listen.rpartition(":")
        try:
            advertised = (self.settings.advertise or listen).rpartition(":")[0].strip("[]")
            certificates = self._folder.certificates(advertised)
            bound = server.add_secure_port(listen, certificates.server_credentials(mutual=False))
        except RuntimeError as error:
            raise PermanentError(f"cannot listen on {listen}: {error}", hint="choose another --listen") from error
        if not bound:
            raise PermanentError(f"cannot listen on {listen}", hint="choose another --listen HOST:PORT")
        self.address = self.settings.advertise or f"{host}:{bound if port == '0' else port}"
        return None

    # --- the database

    async def _prepare_database(self) -> None:
        while not self._stop.is_set():
            try:
                if self.settings.migrates:
                    for revision in await asyncio.to_thread(migrate, self.database):
                        log.info("migrated the database to %s", revision)
                await asyncio.to_thread(check_schema, self.database)
                return
            except RetryableError as error:
                log.warning("waiting for the database: %s", error)
                await self._pause(RETRY_S)

    async def _roll_up_on(self) -> None:
        while True:
            try:
                await asyncio.to_thread(roll_up, self.database, time.time(), self.settings.retention, term=self.term)
            except RetryableError as error:
                log.warning("cannot roll up samples now: %s", error)
            await asyncio.sleep(ROLL_UP_S)

    # --- pages

    def _health(self) -> tuple[int, str]:
        return 200, "ok"

    def _ready(self) -> tuple[int, str]:
        return (200, f"active in term {self.term}") if self.is_active else (503, "not the active Brain")

    def _metrics(self) -> tuple[int, str]:
        return 200, metrics_text(
            BrainFigures(
                is_active=self.is_active,
                term=self.term,
                jobs=len(self._coordinator.views) if self._coordinator is not None else 0,
                followers=len(self._coordinator.subscribers) if self._coordinator is not None else 0,
                reports=self._writer.written if self._writer is not None else 0,
                transactions=self._writer.transactions if self._writer is not None else 0,
                offers=self._coordinator.offered if self._coordinator is not None else 0,
                failed_runs=self._coordinator.failed_runs if self._coordinator is not None else 0,
                lost_leases=self._lost_leases,
                started=self._started,
            )
        )

    # --- inside

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(RuntimeError, ValueError):  # not in the main thread: a test
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
