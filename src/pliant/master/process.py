"""One master process: replays the journal, assembles the components that the job needs, serves, and ends with the job.

Life cycle: replay the journal, listen (where the predecessor did, so that agents and programs find it: ``listening``), open the
platform, then tick the controller until the job is over and its nodes are gone. The caller holds the master's lock.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import signal
import threading
import time
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pliant.checkpoint.slots import remove_job
from pliant.core.clock import Clock
from pliant.core.errors import JobFailed, PermanentError, RetryableError
from pliant.core.events import MasterStarted
from pliant.core.job import Phase
from pliant.core.nodes.states import Launch
from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.shards.audit import JobAudit
from pliant.files.atomic import write_json
from pliant.files.reserve import DISK_ERRORS, set_aside
from pliant.master.assembly import Assembly, OpenPlatform
from pliant.master.clock import SystemClock
from pliant.master.components.series import SeriesRecorder
from pliant.master.components.signals import MasterPaused, SignalBus
from pliant.master.components.status_reporter import StatusReporter
from pliant.master.controller import JobController
from pliant.master.job_dir import JobDir
from pliant.master.journal.journal import Journal
from pliant.master.journal.local_copy import LocalCopy
from pliant.master.journal.replicated_store import ReplicatedStore
from pliant.master.journal.store import JournalStore, Recovered, SqliteStore, read_events
from pliant.master.listening import Listener
from pliant.master.metrics import MetricsServer, serve_metrics
from pliant.master.offline import audit_of
from pliant.master.services import add_services
from pliant.master.summary import job_summary
from pliant.platforms.base import JobContext, NodeLaunch, Platform
from pliant.platforms.job_environment import job_environment
from pliant.platforms.registry import make_platform, platform_traits
from pliant.rpc.brain.access import BrainAccess, BrainFolder
from pliant.rpc.brain.identity import Caller, home_namespace, job_uid
from pliant.rpc.identity import create_token_file, read_token_file
from pliant.rpc.server import SERVING, add_health, make_server
from pliant.rpc.tls import TlsFiles, create_certificates
from pliant.spec import JobSpec, initial_state, load_spec

log = logging.getLogger(__name__)

TICK_S = 0.1  # between two ticks
IDLE_TICK_S = 1.0  # the same while no decision was made for some time
ACTIVE_S = 5.0  # this time
MAX_TICK_S = 2.0  # a pause that is longer by this means that this process did not run
MAX_EVENTS_KEPT = 500  # with the summary of an ended job: the last ones
MAX_POINTS_KEPT = 4000  # of its series, likewise: 200 kB
MAX_EVENTS_READ = 1 << 31
STOP_OUTAGE_S = 5.0  # how long the journal's storage may be away once this master is told to end


class StopUnrecorded(RetryableError):
    """The job is to be stopped, and the journal cannot take that: whoever started this master ends the job's processes."""


class Master:
    def __init__(
        self,
        job_dir: JobDir,
        *,
        host: str = "",
        port: int = 0,
        advertise: str = "",
        token_file: Path | None = None,
        tls_dir: Path | None = None,
        parameters_dir: Path | None = None,
        brain_dir: Path | None = None,
        takes_over: bool = False,
        stop: str = "",
        clock: Clock | None = None,
        platform: Platform | None = None,
        store: JournalStore | None = None,
    ) -> None:
        """``host``, ``port``, ``advertise``: of TCP; without any it listens on a Unix socket only (``Listener``). Token and
        certificates are made in the job's folder unless they are given, and what parameter servers keep is there unless
        ``parameters_dir`` says otherwise. ``brain_dir``: token and authority for the Brain, if not in the job's folder.
        ``takes_over``: if the journal is empty, living nodes of the job go on (``core/takeover.py``); else they would be removed.
        ``stop``: why the job is to be stopped as soon as this master serves, if it is.
        ``clock``, ``platform`` and ``store`` are the real time, the spec's platform and the job's file unless given.
        """
        self.job_dir = job_dir
        self.spec: JobSpec = load_spec(job_dir.spec)
        self._token_file = token_file
        self._tls_dir = tls_dir
        self._parameters_dir = parameters_dir or job_dir.parameters
        self._brain_dir = BrainFolder(brain_dir or job_dir.brain)
        self._takes_over = takes_over
        self._stop = stop
        self._leaving = ""  # why this master ends although the job goes on
        self._clock = clock or SystemClock()
        self.state = initial_state(self.spec)
        self._platform = platform
        self._traits = platform_traits(self.spec.platform.kind) if platform is None else platform.traits
        self._listener = Listener(
            job_dir, host=host, port=port, advertise=advertise, is_single_machine=self._traits.is_single_machine
        )
        leaves_machine = self._traits.encrypts_by_default or self._listener.uses_tcp
        self._uses_tls = self.spec.security.uses_tls(default=leaves_machine)
        self._store = store
        self._journal: Journal | None = None
        self._broken = asyncio.Event()
        self._token = ""
        self._last_tick, self._pause_s = time.monotonic(), 0.0  # and how long the pause after it was meant to be
        self._active_at, self._seen = (
            time.monotonic(),
            0,
        )  # when the journal last had a new decision, and how many it had
        self._max_tick_s = min(MAX_TICK_S, self.spec.fault.heartbeat_timeout / 4)

    async def run(self) -> Phase:
        """Until the job is over; returns how it ended. ``RetryableError``: the disk cannot be written for now."""
        try:
            try:
                return await self._run()
            except OSError as error:
                if error.errno not in DISK_ERRORS:
                    raise
                raise RetryableError(
                    f"cannot write to {self.job_dir.path}: {error}", hint="make room on its disk"
                ) from error
        except RetryableError as error:
            if self._journal is not None and isinstance(self._journal.failure, PermanentError):
                raise self._journal.failure from error  # fenced off: no other start helps
            if self._leaving or not self._is_stopping:
                raise
            raise StopUnrecorded(error.message, hint=error.hint) from error

    @property
    def _is_stopping(self) -> bool:
        return self.state.job.phase is Phase.STOPPED

    async def _run(self) -> Phase:
        async with AsyncExitStack() as undo:
            self._token = self._read_token()
            journal = self._journal = await self._open_journal()
            undo.push_async_callback(journal.close)
            tls = self._certificates() if self._uses_tls else None
            server = make_server(self._token, admits_strangers=self._listener.uses_tcp and tls is None)
            health = add_health(server)
            undo.push_async_callback(self._close_platform)
            undo.callback(self._listener.close)
            undo.push_async_callback(server.stop, 0.5)
            await self._listener.bind(server, tls)
            controller = self._make_controller(journal, self._listener.address)
            undo.callback(add_services(server, controller).close)
            start = journal.do(self.state.job.master_started)
            journal.event(MasterStarted(start=start))
            if self.job_dir.resume_file.exists():
                controller.resume_job()
                await journal.durable()
                self.job_dir.resume_file.unlink()
            controller.prepare()
            metrics = self._serve_metrics(controller, first=start == 1)
            if metrics is not None:
                undo.push_async_callback(asyncio.to_thread, metrics.close)
            await server.start()
            await health.set("", SERVING)
            self._listener.publish()
            self.job_dir.problem_file.unlink(missing_ok=True)
            served = {"pid": os.getpid(), "metrics_port": metrics.port if metrics else None}
            write_json(self.job_dir.master_file, {**self._listener.where(), **served})
            if self._stop:
                controller.end_job(self._stop, at_once=True)
            elif self._traits.is_single_machine:
                set_aside(self.job_dir.reserve)
            await self._serve(controller)
        return self.state.job.phase

    def _read_token(self) -> str:
        return read_token_file(self._token_file) if self._token_file else create_token_file(self.job_dir.token)

    def _certificates(self) -> TlsFiles:
        return (
            TlsFiles(self._tls_dir) if self._tls_dir else create_certificates(self.job_dir.tls, (self._listener.host,))
        )

    def _make_store(self) -> JournalStore:
        if self.spec.journal.store == "file":
            return SqliteStore(self.job_dir.journal, sync=self.spec.journal.sync)
        access = self._brain_access()
        takes_back = self.job_dir.resume_file.exists()
        return ReplicatedStore(LocalCopy(self.job_dir.journal), access, self._identity(), takes_back=takes_back)

    async def _open_journal(self) -> Journal:
        """With every state machine as it was when the predecessor ended."""
        store = self._store or self._make_store()
        try:
            recovered = await _loaded(store)
            self.state.replay(recovered.snapshot, recovered.operations, source=f"the journal {self.job_dir.journal}")
        except BaseException:
            store.close()
            raise
        if recovered.snapshot is not None or recovered.operations:
            log.info("replayed %d operations of the journal", len(recovered.operations))
        journal = Journal(store, self._clock, self.state, last_event=recovered.last_event)
        journal.on_failure = lambda _: self._broken.set()
        return journal

    def _serve_metrics(self, controller: JobController, *, first: bool) -> MetricsServer | None:
        try:
            return serve_metrics(controller, self.spec.metrics_port, self._listener.host)
        except OSError as error:
            where = f"{self._listener.host}:{self.spec.metrics_port}"
            if first:
                raise PermanentError(
                    f"cannot serve metrics on {where}: {error.strerror}", hint="choose another --metrics-port, or 0"
                ) from error
            log.warning("metrics are disabled, %s is in use: %s", where, error)  # that ends no running job
            return None

    async def _close_platform(self) -> None:
        if self._platform is not None:
            await self._platform.close()

    # --- making

    def _last_events(self) -> list[dict[str, Any]]:
        found = deque(read_events(self.job_dir.journal, limit=MAX_EVENTS_READ), maxlen=MAX_EVENTS_KEPT)
        return [event.to_json() for event in found]

    def _read_audit(self) -> JobAudit:
        return audit_of(self.job_dir)

    def _make_controller(self, journal: Journal, address: str) -> JobController:
        events = self.job_dir.journal
        controller = JobController(
            self.spec.name,
            self.state,
            journal,
            self._clock,
            SignalBus(),
            read_events=lambda after, limit: read_events(events, after=after, limit=limit),
            read_audit=self._read_audit if self.spec.audit else None,
            heartbeat_timeout=self.spec.fault.heartbeat_timeout,
            session_timeout=self.spec.fault.session_timeout,
        )
        takes_over = self._takes_over and self.state.rendezvous is not None and self.state.parameters is None
        assembly = Assembly(
            self.spec,
            controller,
            self.job_dir.path / "notes",
            self._parameters_dir,
            self.job_dir.series_file,
            self.job_dir.tensorboard,
            takes_over=takes_over,
            brain=self._brain_access() if self.spec.optimize.uses_brain else None,
            identity=self._identity(),
            owner=job_owner(self.spec),
        )
        platform = self._open_platform(address) if self.state.nodes is not None else None
        controller.add(*assembly.components(platform))
        return controller

    def _identity(self) -> JobIdentity:
        """As the Brain knows this job."""
        return JobIdentity(job_namespace(self.spec), self.spec.name, job_uid(self._token))

    def _brain_access(self) -> BrainAccess:
        address = self.spec.optimize.brain or ""
        if not address:
            raise PermanentError(
                "the job reports to a Brain, but its spec does not say where", hint="set optimize.brain"
            )
        return self._brain_dir.access(address, Caller(job_namespace(self.spec), self.spec.name))

    def _open_platform(self, address: str) -> OpenPlatform:
        if self._platform is None:
            self._platform = make_platform(self.spec.platform.kind)
        tls_dir = (self._tls_dir or self.job_dir.tls) if self._uses_tls else None
        context = JobContext(
            self.spec.name,
            self.job_dir.path,
            address,
            self._token_file or self.job_dir.token,
            tls_dir,
            self.spec.platform.model_dump(),  # amounts as numbers, not as people write them
        )
        scaler, watcher = self._platform.open(context)
        return OpenPlatform(
            scaler,
            watcher,
            self._describe,
            is_single_machine=self._traits.is_single_machine,
            can_resize=self._traits.can_resize,
            channel=self._platform.control_channel(),
            usage=self._platform.usage(),
            capacity=self._platform.capacity,
            room=self._platform.free_room,
        )

    def _describe(self, launch: Launch) -> NodeLaunch:
        role = self.spec.roles[launch.role]
        return NodeLaunch(
            launch.node,
            launch.role,
            launch.resources,
            tuple(role.command),
            {} if self._traits.builds_node_environment else self._role_variables(launch.role),
            self.spec.working_dir or "",
            launch.avoid_hosts,
            launch.high_priority,
            job_environment(
                self.spec,
                checkpoint_dir=str(self.job_dir.path / "checkpoints"),
                parameters_dir=self._parameters_dir,
            ),
        )

    def _role_variables(self, role: str) -> dict[str, str]:
        env = dict(self.spec.roles[role].env)
        if self._traits.is_single_machine and "OMP_NUM_THREADS" not in os.environ:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            threads = max(1, cores // self.spec.roles[role].replicas.max)  # else all programs compete for all cores
            env.setdefault("OMP_NUM_THREADS", str(threads))
        return env

    # --- serving

    async def _serve(self, controller: JobController) -> None:
        loop = asyncio.get_running_loop()
        in_main_thread = threading.current_thread() is threading.main_thread()
        for number in (signal.SIGTERM, signal.SIGINT) if in_main_thread else ():
            loop.add_signal_handler(number, self._on_signal, controller, signal.Signals(number).name)
        await controller.start()
        try:
            while not controller.gone.is_set():
                await self._tick(controller)
            await self._finish(controller)
        finally:
            await controller.stop()

    async def _finish(self, controller: JobController) -> None:
        """What stays of a job of which nothing else is left."""
        if self._traits.is_single_machine:
            await asyncio.to_thread(remove_job, self.spec.name, self._token)
        if not self.job_dir.exists():
            raise JobFailed(f"the job directory {self.job_dir.path} was removed while the job was running")
        await controller.journal.durable()
        await controller.require(SeriesRecorder).write(durable=True)
        summary = job_summary(controller, asdict(self.spec.components())).to_json()
        write_json(self.job_dir.summary_file, summary)
        if (reporter := controller.find(StatusReporter)) is not None:
            audit = {"audit": (await asyncio.to_thread(self._read_audit)).to_json()} if self.spec.audit else {}
            events = await asyncio.to_thread(self._last_events)  # the journal may be gone with the Pod
            series = controller.require(SeriesRecorder).series().within(MAX_POINTS_KEPT).to_json()
            await reporter.finish({**summary, **audit, "events": events, "series": series})

    def _on_signal(self, controller: JobController, name: str) -> None:
        """On this machine that is how a person stops the job. In a cluster only this master has to go elsewhere."""
        controller.journal.limit_outage(STOP_OUTAGE_S)
        if self._traits.restarts_master:
            self._leaving = f"the master received {name}; another master continues"
            controller.woken.set()
        else:
            controller.end_job(f"the master received {name}")

    async def _tick(self, controller: JobController) -> None:
        # While the journal's storage is away nobody gets an answer, so nobody's silence is counted: this master is paused.
        if controller.journal.waited_s() < self._max_tick_s:
            self._forgive_absence(controller)
            await controller.tick()
        if not controller.gone.is_set():
            await self._pause(controller)
        if self._broken.is_set():
            raise RetryableError(f"cannot write the journal: {controller.journal.failure}")
        if self._leaving:
            await controller.journal.durable()
            raise RetryableError(self._leaving)
        self._check_folder(controller)

    async def _pause(self, controller: JobController) -> None:
        controller.woken.clear()
        now, noted = time.monotonic(), controller.journal.noted
        if noted != self._seen:
            self._seen, self._active_at = noted, now
        idle_tick = min(IDLE_TICK_S, self._max_tick_s / 2)
        seconds = TICK_S if now - self._active_at < ACTIVE_S else max(TICK_S, idle_tick)
        self._pause_s = seconds
        try:
            async with asyncio.timeout(seconds):  # not wait_for, which up to Python 3.11 may lose a cancellation
                await controller.woken.wait()
        except TimeoutError:
            return

    def _check_folder(self, controller: JobController) -> None:
        """Without the job directory no decision survives and no log is kept: end at once what is left."""
        if not self.job_dir.exists() and not self.state.job.over:
            log.error("the job directory was removed")
            controller.end_job("the job directory was removed", at_once=True)

    def _forgive_absence(self, controller: JobController) -> None:
        """If this master itself was frozen or starved, the silence of others meanwhile is not theirs."""
        now = time.monotonic()
        absent, self._last_tick = now - self._last_tick - self._pause_s, now
        if absent >= self._max_tick_s:
            log.warning("this master was paused for %.1f s", absent)
            controller.signals.publish(MasterPaused(absent))


async def _loaded(store: JournalStore) -> Recovered:
    """In a thread: it may wait for the Brain, and can be cancelled meanwhile."""
    loading = asyncio.ensure_future(asyncio.to_thread(store.load))
    try:
        return await asyncio.shield(loading)
    except asyncio.CancelledError:
        store.limit_outage(0.0)
        await asyncio.wait([loading])
        raise


def job_namespace(spec: JobSpec) -> str:
    """Jobs of a cluster have that of their Pods."""
    if spec.platform.kind in ("local", "ray"):
        return home_namespace(spec.platform.kind)
    return os.environ.get("PLIANT_NAMESPACE") or spec.platform.kubernetes.namespace


def job_owner(spec: JobSpec) -> str:
    """The user who started it from a folder; on Kubernetes, whoever has the namespace."""
    if spec.platform.kind not in ("local", "ray"):
        return job_namespace(spec)
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid-{os.geteuid()}"
