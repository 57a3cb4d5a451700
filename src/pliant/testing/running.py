"""A real master, with gRPC and a journal in a file, in a thread of the test."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pliant.core.clock import Clock
from pliant.core.errors import PliantError
from pliant.core.job import Phase
from pliant.core.status import JobStatus
from pliant.master.controller import JobController
from pliant.master.job_dir import JobDir
from pliant.master.process import Master
from pliant.platforms.base import Platform
from pliant.platforms.local import sweep_job
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, MasterClient
from pliant.rpc.status import status_from_message
from pliant.spec import JobSpec
from pliant.testing.platform import FakePlatform
from pliant.testing.store import PerishableStore
from pliant.testing.waiting import MAX_WAIT_S

T = TypeVar("T")
log = logging.getLogger(__name__)


class RunningMaster:
    """``with RunningMaster(tmp_path, spec) as master: master.client.call(...)``.

    ``spec`` is a job's description as a dictionary or a ``JobSpec``; its defaults are fast ones for tests. ``platform`` is a
    ``FakePlatform`` by default; ``platform="spec"`` uses the one that the spec names. The folder, the platform and the clock
    outlive the master: after ``kill`` or ``stop``, ``start`` starts a successor.
    """

    def __init__(
        self,
        folder: Path,
        spec: JobSpec | Mapping[str, Any],
        *,
        platform: FakePlatform | Platform | str | None = None,
        clock: Clock | None = None,
        host: str = "",
        port: int = 0,
    ) -> None:
        """``host``, ``port``: listen on TCP as well.

        ``takes_over`` may be set later: successors then go on with the nodes that they find, if the journal was lost."""
        self.spec = spec if isinstance(spec, JobSpec) else JobSpec.from_dict({"name": "tested", **spec})
        self.job_dir = JobDir(folder / "job")
        self.job_dir.create()
        self.job_dir.spec.write_text(self.spec.to_yaml())
        self._given = FakePlatform() if platform is None else platform
        self._clock = clock
        self._host, self._port = host, port
        self.takes_over = False
        self._thread: threading.Thread | None = None
        self._master: _Watched | None = None
        self._task: asyncio.Task[Phase] | None = None
        self._store: PerishableStore | None = None
        self._client: MasterClient | None = None
        self._up = threading.Event()
        self.phase: Phase | None = None  # once the master has ended by itself
        self.failure: BaseException | None = None  # what ended it, if that was an error

    # --- life

    def start(self) -> RunningMaster:
        """Start a master on the folder; returns when it serves, or raises what prevented that."""
        assert self._thread is None, "it is already running"
        self._up.clear()
        self.failure = self.phase = None
        self._thread = threading.Thread(target=self._run, name="running-master", daemon=True)
        self._thread.start()
        assert self._up.wait(MAX_WAIT_S), "the master did not start"
        if self.failure is not None:
            self._thread.join()
            self._thread = None
            raise self.failure
        return self

    def kill(self) -> None:
        """As ``kill -9``: what is not on disk at this instant never gets there, and nothing more is answered."""
        if self._store is not None:
            self._store.die()
        self._cancel()

    def restart(self) -> RunningMaster:
        """``kill`` and ``start``."""
        self.kill()
        return self.start()

    def lose_journal(self) -> RunningMaster:
        """``kill``, and with the master its journal goes; its nodes, its address and the job's token stay."""
        self.kill()
        for file in self.job_dir.path.glob("journal.db*"):
            file.unlink()
        return self

    def fail_disk(self, failure: Exception | None = None) -> None:
        """From now on every write fails; the master notices by itself, and ends."""
        assert self._store is not None
        self._store.die(failure or OSError(28, "No space left on device"))

    def stop_job(self, reason: str = "the test is over") -> Phase | None:
        """End the job at once, as a person would, and wait for the master to leave."""
        self.run_inside(lambda parts: parts.end_job(reason, at_once=True))
        return self.join()

    def join(self, timeout: float = MAX_WAIT_S) -> Phase | None:
        """Wait until the master ended by itself."""
        if self._thread is not None:
            self._thread.join(timeout)
            assert not self._thread.is_alive(), "the master did not end"
            self._thread = None
        return self.phase

    def close(self) -> None:
        """Leave nothing behind: no thread, no process, no connection."""
        if self._thread is not None and self._thread.is_alive() and not isinstance(self._given, FakePlatform):
            try:
                self.stop_job()
            except (AssertionError, RuntimeError, PliantError) as error:
                log.warning("the job did not end by itself: %s", error)
        self.kill()
        sweep_job(self.job_dir.path)
        if self._client is not None:
            self._client.close()
            self._client = None

    def __enter__(self) -> RunningMaster:
        return self.start() if self._thread is None else self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- talking to it

    @property
    def address(self) -> Address:
        """Where it listens, and the token of the job."""
        return self.job_dir.address()

    @property
    def tcp_address(self) -> Address:
        """The same for programs of other machines, if it has a host or a port."""
        return self.job_dir.tcp_address()

    @property
    def client(self) -> MasterClient:
        """An authenticated client; the same one until ``close``, since a restarted master keeps its address."""
        if self._client is None:
            self._client = MasterClient(self.address)
        return self._client

    def status(self) -> JobStatus:
        """How the job is doing, as a client sees it."""
        return status_from_message(self.client.call(self.client.stubs.job.GetStatus, pb.Empty()))

    @property
    def platform(self) -> FakePlatform:
        """The fake platform, for its verbs."""
        assert isinstance(self._given, FakePlatform), "this master runs on a real platform"
        return self._given

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def run_inside(self, function: Callable[[JobController], T]) -> T:
        """Call a function with the master's controller, on its event loop, and return the result."""

        async def call(_: Master, parts: JobController) -> T:
            return function(parts)

        return self._await_inside(call)

    def state(self) -> dict[str, Any]:
        """All that would survive a restart, as JSON values: two equal states are the same state. It is on disk."""

        async def call(master: Master, parts: JobController) -> dict[str, Any]:
            found = dict(master.state.snapshot().state)
            await parts.journal.durable()
            return found

        return self._await_inside(call)

    def _await_inside(self, call: Callable[[Master, JobController], Coroutine[Any, Any, T]]) -> T:
        master = self._master
        assert master is not None
        assert master.loop is not None
        assert master.parts is not None
        return asyncio.run_coroutine_threadsafe(call(master, master.parts), master.loop).result(timeout=MAX_WAIT_S)

    # --- inside

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except asyncio.CancelledError:
            log.debug("the master was killed")
        except BaseException as error:  # noqa: BLE001  # raised in the thread that started it
            self.failure = error
        finally:
            self._up.set()

    async def _serve(self) -> None:
        self._store = PerishableStore(self.job_dir.journal)
        platform = self._given if isinstance(self._given, Platform) else None
        master = self._master = _Watched(
            self.job_dir,
            host=self._host,
            port=self._port,
            clock=self._clock,
            platform=platform,
            store=self._store,
            takes_over=self.takes_over,
        )
        master.loop, master.up = asyncio.get_running_loop(), self._up
        self._task = asyncio.create_task(master.run())
        self.phase = await self._task

    def _cancel(self) -> None:
        thread, master, task = self._thread, self._master, self._task
        if thread is None:
            return
        if master is not None and master.loop is not None and task is not None and not master.loop.is_closed():
            master.loop.call_soon_threadsafe(task.cancel)
        thread.join(MAX_WAIT_S)
        assert not thread.is_alive(), "the master's thread is stuck"
        self._thread = None


class _Watched(Master):
    """A master that signals when it serves, and exposes its controller."""

    loop: asyncio.AbstractEventLoop | None = None
    up: threading.Event | None = None
    parts: JobController | None = None

    async def _serve(self, parts: JobController) -> None:
        self.parts = parts
        if self.up is not None:
            self.up.set()
        await super()._serve(parts)
