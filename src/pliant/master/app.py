"""One master process: reads the journal, makes the parts that the job needs, serves, and ends with the job.

Life: take the master's lock, replay the journal, listen (on the port of the predecessor, so that nobody has to be told),
compare with what the platform has, then feed events and time into the parts until the job is over and its nodes are gone.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import threading
import time
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import grpc.aio

from pliant.checkpoint.slots import remove_job
from pliant.core.clock import Clock
from pliant.core.datasets import ShardType
from pliant.core.errors import CorruptData, JobFailed, PermanentError, PliantError, RetryableError
from pliant.core.groups import GroupBook
from pliant.core.job import JobBook, Phase
from pliant.core.node_states import Launch, RoleSpec
from pliant.core.nodes import NodeBook
from pliant.core.ps_orders import ParameterBook
from pliant.core.rendezvous import Rendezvous
from pliant.core.shards import ShardBook
from pliant.core.training import TrainingBook
from pliant.core.wishes import WishBook
from pliant.master.clock import SystemClock
from pliant.master.components import PS, Components
from pliant.master.groups import GroupKeeper
from pliant.master.job_dir import JobDir
from pliant.master.journal import Journal
from pliant.master.journal_store import JournalStore, Recovered, SqliteStore, read_events
from pliant.master.measured import take_measurements
from pliant.master.metrics import MetricsServer, serve_metrics
from pliant.master.nodes import NodeManager
from pliant.master.notes import NoteStore
from pliant.master.parameters import ParameterCoordinator
from pliant.master.rendezvous import RendezvousServer
from pliant.master.report import Reporter
from pliant.master.service import add_services
from pliant.master.shards import DataShardManager
from pliant.master.summary import summarize
from pliant.master.training import TrainingService
from pliant.master.wishes import WishKeeper
from pliant.platforms.base import Desk, JobContext, NodeLaunch, Platform
from pliant.platforms.durable_files import read_json, write_json
from pliant.platforms.programs import program_environment
from pliant.platforms.registry import make_platform
from pliant.rpc.identity import create_token_file
from pliant.rpc.server import SERVING, add_health, bind, make_server
from pliant.rpc.tls import TlsFiles, create_certificates
from pliant.spec import JobSpec, load_spec

log = logging.getLogger(__name__)

TICK = 0.1  # seconds between two looks at what is due
LONGEST_TICK = 2.0  # seconds; a longer pause means that this process did not run
EVENTS_LEFT, EVENTS_READ = 500, 1 << 31  # of an ended job: those that are left with its summary, of at most so many
DEAF_SECONDS = 30.0  # before another try to hear people's wishes
BIND_TRIES = 50  # at the predecessor's port, TICK apart
DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})


class Master:
    def __init__(
        self,
        job_dir: JobDir,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: str = "",
        token_file: Path | None = None,
        tls_dir: Path | None = None,
        parameters_dir: Path | None = None,
        clock: Clock | None = None,
        platform: Platform | None = None,
        store: JournalStore | None = None,
    ) -> None:
        """``advertise``: where nodes reach this master, if not where it listens. Token and certificates are made in the
        job's folder unless they are given, and what parameter servers keep is there unless ``parameters_dir`` says otherwise.
        ``clock``, ``platform`` and ``store`` are the real time, the spec's platform and the job's file unless given.
        """
        self.job_dir = job_dir
        self.spec: JobSpec = load_spec(job_dir.spec)
        self._host = host
        self._port = port
        self._advertise = advertise
        self._token_file = token_file or job_dir.token
        self._tls_dir = tls_dir
        self._parameters_dir = parameters_dir or job_dir.parameters
        self._leaving = ""  # why this master, not the job, shall end
        self._clock = clock or SystemClock()
        self._machines: dict[str, Any] = {}
        self._platform = platform
        self._store = store
        self._broken = asyncio.Event()
        self._beside: list[asyncio.Task[None]] = []
        self._token = ""
        self._last_tick = time.monotonic()
        self._longest_tick = min(LONGEST_TICK, self.spec.fault.heartbeat_timeout / 4)

    async def run(self) -> Phase:
        """Until the job is over; gives how it ended. ``RetryableError``: the disk does not let us, for now."""
        try:
            return await self._run()
        except OSError as error:
            if error.errno not in DISK_ERRORS:
                raise
            raise RetryableError(
                f"cannot write to {self.job_dir.path}: {error}", hint="make room on its disk"
            ) from error

    async def _run(self) -> Phase:
        async with AsyncExitStack() as undo:
            journal = self._open_journal()
            undo.push_async_callback(journal.close)
            token = self._token = create_token_file(self._token_file)
            tls = self._certificates() if self.spec.tls else None
            server = make_server(token)
            health = add_health(server)
            undo.push_async_callback(self._close_platform)
            undo.push_async_callback(server.stop, 0.5)
            address = await self._listen(server, tls)
            parts = self._make_parts(journal, self._advertise or address)
            add_services(server, parts)
            first = journal.do(parts.job.master_started) == 1
            journal.event("master", f"master {'started' if first else 'is back'} (start {parts.job.master_starts})")
            parts.wire()
            self._start_parts(parts)
            metrics = self._serve_metrics(parts, first)
            if metrics is not None:
                undo.push_async_callback(asyncio.to_thread, metrics.close)
            await server.start()
            await health.set("", SERVING)
            where = {
                "address": self._advertise or address,
                "listens": address,
                "pid": os.getpid(),
                "metrics_port": metrics.port if metrics else None,
            }
            write_json(self.job_dir.master_file, where)
            await self._serve(parts)
        return parts.job.phase

    def _certificates(self) -> TlsFiles:
        return TlsFiles(self._tls_dir) if self._tls_dir else create_certificates(self.job_dir.tls, (self._host,))

    def _open_journal(self) -> Journal:
        """With every state machine as it was when the predecessor ended."""
        store = self._store or SqliteStore(self.job_dir.journal, sync=self.spec.journal.sync)
        try:
            recovered = store.load()
            self._make_machines()
            self._replay(recovered)
        except BaseException:
            store.close()
            raise
        journal = Journal(store, self._clock, last_event=recovered.last_event)
        journal.on_failure = lambda _: self._broken.set()
        for name, machine in self._machines.items():
            journal.attach(name, machine)
        journal.snapshot = self._snapshot
        return journal

    def _serve_metrics(self, parts: Components, first: bool) -> MetricsServer | None:
        try:
            return serve_metrics(parts, self.spec.metrics_port, self._host)
        except OSError as error:
            where = f"{self._host}:{self.spec.metrics_port}"
            if first:
                raise PermanentError(
                    f"cannot serve metrics on {where}: {error.strerror}", hint="choose another --metrics-port, or 0"
                ) from error
            log.warning("no metrics any more, %s is taken: %s", where, error)  # that ends no running job
            return None

    async def _close_platform(self) -> None:
        if self._platform is not None:
            await self._platform.close()

    # --- making

    def _make_machines(self) -> None:
        wanted = self.spec.components()
        self._machines["job"] = JobBook()
        if wanted.nodes:
            share = self.spec.platform.kubernetes.high_priority_share
            roles = {
                name: RoleSpec(
                    name,
                    role.replicas.min,
                    role.replicas.max,
                    role.replicas.target,
                    role.resources.to_core(),
                    role.min_resources.to_core(),
                    bool(role.critical),
                    high_share=share if name == "worker" else 0.0,
                )
                for name, role in self.spec.roles.items()
                if role.command
            }
            self._machines["nodes"] = NodeBook(
                roles,
                self.spec.fault_policy(),
                policies={name: self.spec.fault_policy(name) for name in roles},
                suspended="the job's description says so" if self.spec.suspend else "",
            )
            self._machines["wishes"] = WishBook(self.spec.wanted_state())
            self._machines["groups"] = GroupBook()
        if wanted.shards:
            self._machines["shards"] = ShardBook()
        if wanted.parameters:
            servers = self.spec.roles.get("ps")
            seats = servers.replicas.target if servers else 1
            self._machines["parameters"] = ParameterBook(self.spec.parameters.to_core(self.spec.strategy), seats)
        if wanted.rendezvous:
            self._machines["rendezvous"] = Rendezvous(self.spec.rendezvous_limits())
        if wanted.training:
            evaluation = next((d for d in self.spec.core_datasets() if d.type is ShardType.EVAL), None)
            self._machines["training"] = TrainingBook(
                eval_dataset=evaluation.name if evaluation else "", every_steps=self.spec.checkpoint.every_steps
            )

    def _replay(self, recovered: Recovered) -> None:
        at = "its snapshot"
        try:
            for name, state in (recovered.snapshot or {}).items():
                more = (recovered.definitions,) if name == "shards" else ()
                self._machines[name].restore(state, *more)
            for number, op in enumerate(recovered.operations, start=1):
                at = f"operation {number} of {len(recovered.operations)} ({op.machine}.{op.method})"
                getattr(self._machines[op.machine], op.method)(op.now, **op.arguments)
        except (PliantError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise CorruptData(
                f"the journal {self.job_dir.journal} cannot be replayed at {at}: {error!r}",
                hint="was job.yaml changed since the job began, or the file edited?",
            ) from error
        if recovered.snapshot is not None or recovered.operations:
            log.info("replayed %d operations of the journal", len(recovered.operations))

    def _snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        shards: ShardBook | None = self._machines.get("shards")
        state = {name: machine.snapshot() for name, machine in self._machines.items()}
        return state, shards.definitions() if shards is not None else {}

    async def _listen(self, server: grpc.aio.Server, tls: TlsFiles | None) -> str:
        """Where the predecessor listened, else (a first start, or the port was taken meanwhile) where we can."""
        before = read_json(self.job_dir.master_file)
        wanted = str(before.get("listens", before["address"])) if before else f"{self._host}:{self._port}"
        for attempt in range(BIND_TRIES):
            try:
                port = bind(server, wanted, tls)
                return f"{wanted.rpartition(':')[0]}:{port}"
            except RuntimeError as error:
                if before is None and self._port:
                    raise PermanentError(
                        f"cannot listen on {wanted}: {error}", hint="choose another --port, or 0 for any free one"
                    ) from error
                if attempt == 0:
                    log.warning("cannot listen on %s yet: %s", wanted, error)
                await asyncio.sleep(TICK)
        raise PermanentError(f"{wanted} is taken by another program; agents look for the master there")

    def _last_events(self) -> list[dict[str, Any]]:
        found = deque(read_events(self.job_dir.journal, limit=EVENTS_READ), maxlen=EVENTS_LEFT)
        return [asdict(event) for event in found]

    def _read_audit(self) -> dict[str, Any]:
        from pliant.master.offline import audit_of

        return audit_of(self.job_dir)

    def _make_parts(self, journal: Journal, address: str) -> Components:
        events = self.job_dir.journal
        parts = Components(
            self.spec.name,
            self._clock,
            journal,
            self._machines["job"],
            lambda after, limit: read_events(events, after=after, limit=limit),
            read_audit=self._read_audit if self.spec.audit else None,
            heartbeat_seconds=min(1.0, self.spec.fault.heartbeat_timeout / 5),
            session_timeout=self.spec.fault.session_timeout,
        )
        wanted = self.spec.components()
        if wanted.nodes:
            if self._platform is None:
                self._platform = make_platform(self.spec.platform.kind)
            tls_dir = (self._tls_dir or self.job_dir.tls) if self.spec.tls else None
            context = JobContext(
                self.spec.name,
                self.job_dir.path,
                address,
                self._token_file,
                tls_dir,
                self.spec.platform.model_dump(),  # amounts as numbers, not as people write them
            )
            scaler, watcher = self._platform.open(context)
            book = self._machines["nodes"]
            parts.nodes = NodeManager(book, journal, self._clock, scaler, watcher, self._describe)
            parts.groups = GroupKeeper(
                self._machines["groups"],
                book,
                journal,
                self._clock,
                max_restarts=self.spec.fault.error.limit,
                one_machine=self.spec.platform.kind == "local",
            )
        if wanted.shards:
            parts.shards = DataShardManager(
                self._machines["shards"],
                journal,
                self._clock,
                fault_tolerance=wanted.fault_tolerance,
                session_timeout=self.spec.fault.session_timeout,
                audit=self.spec.audit,
                notes=NoteStore(self.job_dir.path / "notes"),
            )
        if wanted.parameters:
            assert parts.shards is not None
            parts.parameters = ParameterCoordinator(
                self._machines["parameters"], journal, self._clock, parts.shards, self._parameters_dir
            )
        if wanted.rendezvous:
            parts.rendezvous = RendezvousServer(self._machines["rendezvous"], journal, self._clock)
        if wanted.training:
            assert parts.shards is not None
            evaluation = next((d for d in self.spec.core_datasets() if d.type is ShardType.EVAL), None)
            parts.training = TrainingService(self._machines["training"], journal, parts.shards, evaluation)
        return parts

    def _start_parts(self, parts: Components) -> None:
        if parts.rendezvous is not None:
            parts.rendezvous.resume()
        if parts.shards is not None:
            parts.shards.resume()
            for dataset in self.spec.core_datasets():
                if parts.training is None or dataset.type is not ShardType.EVAL:
                    parts.shards.create_shards(dataset)
        if parts.training is not None:
            parts.training.start()
        if parts.parameters is not None:
            parts.parameters.start(self.spec.parameters.restore)

    def _describe(self, launch: Launch) -> NodeLaunch:
        role = self.spec.roles[launch.role]
        env = program_environment(self.spec, launch.role, checkpoint_dir=str(self.job_dir.path / "checkpoints"))
        if self.spec.components().parameters:
            env["PLIANT_PS_DIR"] = str(self._parameters_dir)
        if self.spec.platform.kind == "local" and "OMP_NUM_THREADS" not in os.environ:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            env.setdefault("OMP_NUM_THREADS", str(max(1, cores // role.replicas.max)))  # else all fight for all cores
        return NodeLaunch(
            launch.node,
            launch.role,
            launch.resources,
            tuple(role.command),
            env,
            self.spec.working_dir or "",
            launch.avoid_hosts,
            launch.high_priority,
        )

    # --- serving

    async def _serve(self, parts: Components) -> None:
        loop = asyncio.get_running_loop()
        in_main_thread = threading.current_thread() is threading.main_thread()
        for number in (signal.SIGTERM, signal.SIGINT) if in_main_thread else ():
            loop.add_signal_handler(number, self._told_to_end, parts, signal.Signals(number).name)
        if parts.nodes is not None and not parts.job.over:
            await parts.nodes.resume()
        elif parts.nodes is not None:
            parts.nodes.stop(parts.job.reason)
            await parts.nodes.resume()
        follow = asyncio.create_task(parts.nodes.follow_platform()) if parts.nodes is not None else None
        desk = self._platform.desk() if self._platform is not None else None
        reporter = self._attend(parts, desk) if desk is not None else None
        if self._platform is not None and (usage := self._platform.usage()) is not None:
            self._beside.append(asyncio.create_task(take_measurements(parts, usage)))
        try:
            while not parts.gone.is_set():
                await self._tick(parts)
                if follow is not None and follow.done():
                    follow.result()  # raises what ended it
                if self._broken.is_set():
                    raise RetryableError(f"the journal cannot be written: {parts.journal.failure}")
                if self._leaving:
                    await parts.journal.durable()
                    raise RetryableError(self._leaving)
                self._check_folder(parts)
            if self.spec.platform.kind == "local":
                await asyncio.to_thread(remove_job, self.spec.name, self._token)
            if not self.job_dir.exists():
                raise JobFailed(f"the job's folder {self.job_dir.path} was removed while the job ran")
            await parts.journal.durable()
            summary = summarize(parts, asdict(self.spec.components()))
            write_json(self.job_dir.summary_file, summary)
            if reporter is not None:
                audit = {"audit": await asyncio.to_thread(self._read_audit)} if self.spec.audit else {}
                events = await asyncio.to_thread(self._last_events)  # the journal may be gone with the Pod
                await reporter.finish({**summary, **audit, "events": events})
        finally:
            if follow is not None:
                follow.cancel()
            for task in self._beside:
                task.cancel()
            await asyncio.gather(*self._beside, return_exceptions=True)

    def _told_to_end(self, parts: Components, name: str) -> None:
        """On this machine that is how a person stops the job. In a cluster only this master has to go elsewhere."""
        if self.spec.platform.kind == "kubernetes":
            self._leaving = f"the master got {name}; another goes on"
            parts.woken.set()
        else:
            parts.stop(f"the master got {name}")

    def _attend(self, parts: Components, desk: Desk) -> Reporter:
        """Hear wishes and tell how the job is doing, beside everything else."""
        assert parts.nodes is not None
        servers = PS if parts.parameters is not None else ""
        keeper = WishKeeper(
            self._machines["wishes"], parts.nodes, parts.journal, desk, scale=parts.scale, servers=servers
        )
        reporter = Reporter(parts, desk, lambda: keeper.refusal)
        self._beside = [asyncio.create_task(reporter.run()), asyncio.create_task(self._hear(keeper, parts))]
        return reporter

    @staticmethod
    async def _hear(keeper: WishKeeper, parts: Components) -> None:
        while True:
            try:
                await keeper.follow()
            except PliantError as error:  # the job goes on; who wishes something finds this among its events
                log.error("wishes cannot be heard: %s", error)
                parts.journal.event("wish", f"wishes cannot be heard: {error.message}")
            await asyncio.sleep(DEAF_SECONDS)

    async def _tick(self, parts: Components) -> None:
        self._forgive_absence(parts)
        if parts.shards is not None:
            parts.shards.tick()
        if parts.rendezvous is not None:
            parts.rendezvous.tick(self.spec.fault.session_timeout)
        if parts.training is not None:
            parts.training.tick()
        if parts.parameters is not None:
            parts.free_seats()
            parts.note_silent_servers()
            parts.parameters.tick()
        parts.excuse_idle()
        if parts.groups is not None:
            parts.groups.tick()
        if parts.nodes is not None:
            await parts.nodes.tick()
        parts.check_end()
        if not parts.gone.is_set():
            parts.woken.clear()
            try:
                async with asyncio.timeout(TICK):  # not wait_for, which up to Python 3.11 may lose a cancellation
                    await parts.woken.wait()
            except TimeoutError:
                return

    def _check_folder(self, parts: Components) -> None:
        """Without the job's folder no decision survives and no log is kept: end at once what is left."""
        if not self.job_dir.exists() and not parts.job.over:
            log.error("the job's folder was removed")
            parts.stop("the job's folder was removed", at_once=True)

    def _forgive_absence(self, parts: Components) -> None:
        """If this master itself was frozen or starved, the silence of others meanwhile is not theirs."""
        now = time.monotonic()
        absent, self._last_tick = now - self._last_tick, now
        if absent < self._longest_tick:
            return
        log.warning("this master did not run for %.1f s", absent)
        if parts.nodes is not None:
            parts.nodes.book.touch_all(self._clock.now())
        if parts.shards is not None:
            parts.shards.resume()
        if parts.rendezvous is not None:
            parts.rendezvous.resume()
        if parts.parameters is not None:
            parts.parameters.forgive_absence()
