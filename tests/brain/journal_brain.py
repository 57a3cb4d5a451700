"""A Brain that only takes journals, on a Unix socket: in a thread of the test, or as a process that can be killed."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio

from pliant.brain.callers import BrainBorder
from pliant.brain.journal_service import JournalsServicer
from pliant.brain.store import leases
from pliant.brain.store.database import Database
from pliant.brain.store.migrating import migrate
from pliant.files.atomic import write_bytes
from pliant.files.private import FILE_MODE, make_private_folder
from pliant.rpc import brain_pb2_grpc as services
from pliant.rpc.brain.access import TOKEN, BrainAccess
from pliant.rpc.brain.identity import LOCAL_NAMESPACE, Caller, job_token
from pliant.rpc.server import make_server
from pliant.rpc.unix_socket import ServedSocket
from pliant.testing.waiting import MAX_WAIT_S

CLUSTER_TOKEN = "0123456789abcdef" * 4
SOCKET_NAME = "brain.sock"
ROOT = Path(__file__).parents[2]


class JournalBrain:
    """In a thread. ``stop`` and ``start`` are a Brain that goes away and comes back."""

    def __init__(self, folder: Path, database: Database) -> None:
        make_private_folder(folder)
        self.folder = folder
        self.database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end: asyncio.Event | None = None

    def access(self, name: str = "job") -> BrainAccess:
        token = job_token(CLUSTER_TOKEN, LOCAL_NAMESPACE, name)
        return BrainAccess(f"unix:{self.folder / SOCKET_NAME}", token, Caller(LOCAL_NAMESPACE, name))

    def start(self) -> JournalBrain:
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        assert started.wait(MAX_WAIT_S)
        return self

    def stop(self) -> None:
        if self._thread is not None and self._loop is not None and self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(MAX_WAIT_S)
            assert not self._thread.is_alive()
        self._thread = None

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with serving(self.folder, self.database):
            started.set()
            await self._end.wait()


@contextlib.asynccontextmanager
async def serving(folder: Path, database: Database) -> AsyncIterator[grpc.aio.Server]:
    lease = await asyncio.to_thread(
        leases.acquire, database, leases.ACTIVE_BRAIN, f"test-{os.getpid()}-{time.monotonic_ns()}", 0.0
    )
    assert lease is not None
    server = make_server(CLUSTER_TOKEN, border=BrainBorder(CLUSTER_TOKEN))
    services.add_JournalsServicer_to_server(JournalsServicer(database, lambda: lease.term, time.time), server)
    served = ServedSocket(folder, SOCKET_NAME)
    served.bind(server)
    await server.start()
    served.publish()
    try:
        yield server
    finally:
        await server.stop(0)
        served.close()


class JournalBrainProcess:
    """The same as a process of its own, on a database that others can read."""

    def __init__(self, folder: Path, url: str) -> None:
        make_private_folder(folder)
        write_bytes(folder / TOKEN, CLUSTER_TOKEN.encode(), mode=FILE_MODE)  # where launchers look for it
        self.folder, self.url = folder, url
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"unix:{self.folder / SOCKET_NAME}"

    def start(self) -> JournalBrainProcess:
        command = [sys.executable, "-m", "tests.brain.journal_brain", str(self.folder), self.url]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"serving\n", (self.folder / "log").read_text()
        return self

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.wait()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def wait(self) -> None:
        if self._process is not None:
            self._process.wait(MAX_WAIT_S)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def __enter__(self) -> JournalBrainProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.thaw()
            self.kill()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)


async def _run(folder: Path, url: str) -> None:
    database = Database(url)
    migrate(database)
    async with serving(folder, database) as server:
        print("serving", flush=True)
        await server.wait_for_termination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    given = parser.parse_args()
    asyncio.run(_run(given.folder, given.url))
