"""The client of the ``bridge``: starts it with the first call, and again when it ended; then the nodes are listed anew.

It checks the address before Ray's client does, which waits for more than a minute where nobody listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.core.errors import Conflict, NotAvailable, RetryableError
from pliant.core.nodes.environment import without_node_variables
from pliant.platforms.ray.addresses import check_listening

log = logging.getLogger(__name__)

CONNECT_S = 120.0  # of Ray's client on a busy machine
CALL_S = 120.0
MAX_LINE = 1 << 26


class RayUnavailable(RetryableError):
    """The cluster cannot be reached now."""


class BridgeLink:
    """All calls from one event loop."""

    def __init__(self, address: str, job: str, job_dir: Path, runtime_env: Mapping[str, Any]) -> None:
        self._given = {"address": address, "job": job, "job_dir": str(job_dir), "runtime_env": dict(runtime_env)}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._ready: asyncio.Future[str] | None = None
        self._last = 0
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.gcs_address = ""
        self.runtime_env: dict[
            str, Any
        ] = {}  # as Ray has it once connected: local folders are uploaded, and have an address

    async def connect(self) -> None:
        """Raises ``RayUnavailable``. Each call does it, too."""
        await self._started()

    async def call(self, name: str, *arguments: Any) -> Any:
        """Raises ``RayUnavailable``; ``Conflict`` if a job's name is taken."""
        await self._started()
        assert self._process is not None
        assert self._process.stdin is not None
        self._last = number = self._last + 1
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        request = {"id": number, "call": name, "arguments": arguments}
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()
            async with asyncio.timeout(CALL_S):
                return await answer
        except (ConnectionError, TimeoutError) as error:
            raise RayUnavailable(f"the Ray cluster does not answer: {error or 'time-out'}") from error
        finally:
            self._answers.pop(number, None)

    async def watch(self) -> dict[str, Any]:
        """The next event. Starts the bridge if it is gone."""
        while True:
            if not self.events.empty():
                return self.events.get_nowait()
            getting = asyncio.ensure_future(self.events.get())
            try:
                if self._reading is None or self._reading.done():
                    await self._restarted()
                assert self._reading is not None
                await asyncio.wait([getting, self._reading], return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    return getting.result()
            finally:
                getting.cancel()

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            try:
                async with asyncio.timeout(5.0):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    # --- inside

    async def _restarted(self) -> None:
        """What ended meanwhile is in the list."""
        try:
            for event in await self.call("nodes"):
                self.events.put_nowait(event)
        except RayUnavailable as error:
            log.warning("%s", error.message)
            await asyncio.sleep(1.0)

    async def _started(self) -> None:
        async with self._starting:
            if self._process is not None and self._process.returncode is None and self._ready is not None:
                return
            address = str(self._given["address"])
            try:
                await asyncio.to_thread(check_listening, address)
            except NotAvailable as error:  # for a master that is no end: the cluster's store may come back
                raise RayUnavailable(error.message, hint=error.hint) from error
            self._ready = asyncio.get_running_loop().create_future()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "pliant.platforms.ray.bridge",
                json.dumps(self._given),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=without_node_variables({**os.environ, "RAY_DISABLE_IMPORT_WARNING": "1"}),
                limit=MAX_LINE,
                start_new_session=True,
            )
            self._reading = asyncio.get_running_loop().create_task(self._read(self._process, self._ready))
            try:
                async with asyncio.timeout(CONNECT_S):
                    self.gcs_address = await asyncio.shield(self._ready)
            except TimeoutError:
                self._process.kill()
                raise RayUnavailable(f"Ray's client did not connect to {address} within {CONNECT_S:.0f} s") from None

    async def _read(self, process: asyncio.subprocess.Process, ready: asyncio.Future[str]) -> None:
        assert process.stdout is not None
        problem = "Ray's client has ended"
        try:
            while line := await process.stdout.readline():
                value = json.loads(line)
                if "event" in value:
                    self.events.put_nowait(value["event"])
                elif "ready" in value:
                    self.runtime_env = value["runtime_env"]
                    ready.set_result(value["ready"])
                elif "fatal" in value:
                    problem = value["fatal"]
                elif (answer := self._answers.get(value["id"])) is not None and not answer.done():
                    if "conflict" in value:
                        answer.set_exception(Conflict(value["conflict"], hint="choose another --name"))
                    elif "error" in value:
                        answer.set_exception(RayUnavailable(value["error"]))
                    else:
                        answer.set_result(value["answer"])
            await process.wait()
        finally:
            for answer in [*self._answers.values(), ready]:
                if not answer.done():
                    answer.set_exception(RayUnavailable(problem))
            with contextlib.suppress(asyncio.InvalidStateError):
                ready.exception()  # it may be that nobody waits for it
