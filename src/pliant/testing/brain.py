"""A Brain in a thread of the test: real services, a real database, real processes for algorithms."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pliant.brain.server import BrainServer, BrainSettings
from pliant.rpc.brain.access import BrainAccess, local_brain
from pliant.rpc.brain.identity import LOCAL_NAMESPACE, Caller, job_token
from pliant.testing.waiting import wait_until

T = TypeVar("T")


class RunningBrain:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.settings = BrainSettings(folder, **settings)
        self._server: BrainServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.error: BaseException | None = None

    @property
    def server(self) -> BrainServer:
        assert self._server is not None
        return self._server

    def start(self, *, waits: bool = True) -> None:
        """``waits``: until it is the active one."""
        self.error, self._server = None, None
        self._thread = threading.Thread(target=self._run, name="brain", daemon=True)
        self._thread.start()
        if waits:
            wait_until(lambda: self.is_active or self.error is not None, what="the Brain")
            if self.error is not None:
                raise self.error

    @property
    def is_active(self) -> bool:
        return self._server is not None and self._server.is_active

    def stop(self) -> None:
        if self._thread is None:
            return
        loop, server = self._loop, self._server
        if loop is not None and server is not None and not loop.is_closed():
            loop.call_soon_threadsafe(server.stop)
        self._thread.join(timeout=60)
        assert not self._thread.is_alive(), "the Brain does not end"
        self._thread = None

    def call(self, work: Callable[[BrainServer], Coroutine[Any, Any, T]]) -> T:
        """In its event loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work(self.server), self._loop).result(timeout=60)

    def access(self, job: str = "", namespace: str = LOCAL_NAMESPACE) -> BrainAccess:
        """With the token of a job, or with that of the cluster."""
        found = local_brain(self.settings.folder)
        if not job:
            return found
        token = job_token(found.token, namespace, job)
        return BrainAccess(found.address, token, Caller(namespace, job), found.ca)

    def _run(self) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._server = BrainServer(self.settings)
            await self._server.run()

        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  # for the thread that waits
            self.error = error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
