"""One process in which algorithms run, as its executor sees it: started, asked, killed.

A process belongs to a *tenant*: all built-in algorithms share processes, an algorithm of a team shares its process with nobody,
so that what it leaves behind (memory, threads, changed modules) cannot make another one fail. It leads a session; everything that
it starts is found by that, or by a variable in the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.brain.executor.frames import HEADER, MAX_ANSWER_BYTES, frame, length_of, message_of
from pliant.brain.executor.results import RunResult
from pliant.core.decoding import decode
from pliant.core.errors import CorruptData, InvalidRequest, RetryableError
from pliant.core.planning.proposal import Proposal
from pliant.core.printable import escaped_line
from pliant.platforms.processes import all_gone, kill_marked, when_gone

MARK = "PLIANT_ALGORITHM_PROCESS"
MAX_TAIL_BYTES = 4096
MAX_MESSAGE = 600  # characters
MAX_TRACEBACK = 10_000  # likewise
_END_S = 10.0  # for a killed process to be gone
_STACK_S = 2.0  # at most, for a hanging process to say where it hangs
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT")
_FIXED = {  # one thread each, and little address space for those that an algorithm starts
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
}


@dataclass(frozen=True, slots=True)
class Answer:
    result: RunResult
    message: str = ""
    proposal: Proposal | None = None
    is_reusable: bool = False  # whether the process can go on
    traceback: str = ""  # of what it raised


class AlgorithmProcess:
    """Made by ``start``; every method runs in that event loop."""

    def __init__(self, tenant: str, popen: subprocess.Popen[bytes], mark: str) -> None:
        self.tenant = tenant
        self.pid = popen.pid
        self.asked = 0
        self._popen = popen
        self._mark = mark
        self._gone = when_gone(popen.pid)
        self._output = _Tail()
        self._closing: list[Any] = []  # transports
        self._loaded: set[str] = set()
        self._history = b""  # the frame that it has
        self._number = 0

    @classmethod
    def spawn(cls, tenant: str, memory_limit_mb: int) -> tuple[AlgorithmProcess, socket.socket, int]:
        """The process, and this end of its socket and of its output."""
        ours, theirs = socket.socketpair()
        hear, output = os.pipe()
        mark = uuid.uuid4().hex
        program = [sys.executable, "-P", "-u", "-m", "pliant.brain.executor.child"]
        try:
            popen = subprocess.Popen(
                [*program, str(theirs.fileno()), str(os.getpid()), str(memory_limit_mb)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_environment(mark),
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(hear)
            raise RetryableError(f"a process for algorithms could not be started: {error}") from error
        finally:
            theirs.close()
            os.close(output)
        return cls(tenant, popen, mark), ours, hear

    async def connect(self, ours: socket.socket, hear: int, timeout_s: float) -> None:
        """Wait until it is ready. Raises ``RetryableError`` if it does not get there; then ``end`` it."""
        output = os.fdopen(hear, "rb", buffering=0)
        self._closing = [ours, output]
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: self._output, output)
        self._closing = [ours, transport]
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self._closing = [self._writer, transport]
        try:
            async with asyncio.timeout(timeout_s):
                await self._receive()
        except TimeoutError as error:
            raise RetryableError(f"a process for algorithms was not ready within {timeout_s:g} s") from error
        except (EOFError, OSError, CorruptData) as error:
            raise RetryableError(f"a process for algorithms did not start: {await self._end_of_it()}") from error

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None

    async def ask(self, name: str, history: bytes, now: float, *, load_limit_s: float, time_limit_s: float) -> Answer:
        """``history``: its frame. Raises ``InvalidRequest`` if no algorithm could use it."""
        self.asked += 1
        if name not in self._loaded:
            loaded = await self._call({"load": name}, load_limit_s)
            if loaded.result is not RunResult.NOTHING:
                return loaded
            self._loaded.add(name)
        before = b"" if history is self._history else history
        self._history = history
        return await self._call({"ask": name, "now": now}, time_limit_s, before)

    def kill(self) -> None:
        """At once, with all that stayed in its process group."""
        if self.is_alive:  # until then nobody else can have this number
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill it and all that it started; returns when it is gone."""
        self.kill()
        await asyncio.shield(self._gone)
        self._popen.wait()
        for transport in self._closing:
            transport.close()
        started = await asyncio.to_thread(kill_marked, {MARK: self._mark})
        await all_gone(started, _END_S)

    async def _call(self, message: Mapping[str, Any], limit_s: float, before: bytes = b"") -> Answer:
        self._number += 1
        try:
            async with asyncio.timeout(limit_s):
                self._writer.write(before + frame({**message, "number": self._number}))
                await self._writer.drain()
                found = await self._receive()
        except TimeoutError:
            return Answer(RunResult.TIMED_OUT, f"no answer within {limit_s:g} s{await self._where_it_hangs()}")
        except (EOFError, OSError):
            is_memory = self._output.last_line.startswith("MemoryError")
            return Answer(RunResult.OUT_OF_MEMORY if is_memory else RunResult.DIED, await self._end_of_it())
        except CorruptData as error:
            return Answer(RunResult.DIED, f"the process sent {error}")
        return self._understood(found)

    def _understood(self, found: Mapping[str, Any]) -> Answer:
        if found.get("number") != self._number:
            return Answer(RunResult.DIED, "the process sent an answer to another question")
        if "bad_history" in found:
            raise InvalidRequest(f"the history cannot be used: {found['bad_history']!s:.300}")
        try:
            result = RunResult(found["result"])
            proposal = decode(Proposal, found["proposal"], "proposal") if result is RunResult.PROPOSED else None
        except (KeyError, ValueError):
            return Answer(RunResult.DIED, "the process sent an answer without a result")
        except CorruptData as error:
            result, proposal, found = RunResult.UNSOUND, None, {**found, "message": str(error)}
        text = escaped_line(str(found.get("message", "")))[:MAX_MESSAGE]
        is_reusable = found.get("is_clean") is True and result is not RunResult.OUT_OF_MEMORY
        trace = "\n".join(escaped_line(line) for line in str(found.get("traceback", "")).splitlines())
        return Answer(result, text, proposal, is_reusable, trace[:MAX_TRACEBACK])

    async def _receive(self) -> Mapping[str, Any]:
        """The next message. Raises ``EOFError`` if the process is gone, also if something that it started holds its socket."""
        reading = asyncio.ensure_future(self._read())
        try:
            await asyncio.wait((reading, self._gone), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait((reading,), timeout=1.0)  # what it had sent before
            if not reading.done():
                raise EOFError
            return reading.result()
        finally:
            reading.cancel()

    async def _read(self) -> Mapping[str, Any]:
        length = length_of(await self._reader.readexactly(HEADER.size), MAX_ANSWER_BYTES)
        return message_of(await self._reader.readexactly(length))

    async def _where_it_hangs(self) -> str:
        self._output.forget()
        if self.is_alive:
            self._popen.send_signal(signal.SIGUSR1)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STACK_S):
                await self._output.heard.wait()
        place = self._output.place
        return f", it was in {place}" if place else ""

    async def _end_of_it(self) -> str:
        await asyncio.wait((self._gone,), timeout=1.0)
        code = self._popen.poll()
        if code is None:
            return "the process closed its connection"
        ended = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        last = self._output.last_line
        return f"the process {ended}: {last}" if last else f"the process {ended}"


class _Tail(asyncio.Protocol):
    """The end of what a process printed. It is always read: a process that prints does not have to wait."""

    _PLACE = re.compile(rb'File "([^"\n]{1,1000})", line (\d+)')

    def __init__(self) -> None:
        self._tail = b""
        self.heard = asyncio.Event()  # of a place in a stack

    def data_received(self, data: bytes) -> None:
        self._tail = (self._tail + data[-MAX_TAIL_BYTES:])[-MAX_TAIL_BYTES:]
        if not self.heard.is_set() and self._PLACE.search(self._tail):
            self.heard.set()

    def forget(self) -> None:
        self._tail = b""
        self.heard.clear()

    @property
    def place(self) -> str:
        found = self._PLACE.search(self._tail)
        if found is None:
            return ""
        return escaped_line(f"{os.path.basename(found[1]).decode(errors='replace')}:{found[2].decode()}")

    @property
    def last_line(self) -> str:
        lines = [line for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        return escaped_line(lines[-1].strip())[:200] if lines else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _environment(mark: str) -> dict[str, str]:
    """What Python needs and no more: secrets of the Brain are not for algorithms. They find the modules that the Brain finds."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("PYTHON")}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return {**kept, **_FIXED, "PYTHONPATH": path, MARK: mark}
