"""The program of an executor's process: it loads algorithms, asks them, and reports what they answer or how they fail.

The process cannot outlive its executor: the kernel kills it with the thread that started it (``PR_SET_PDEATHSIG``; if that
thread ended before the request, the parent is another one by then). The executor talks over a socket of its own, so whatever an
algorithm prints goes elsewhere. Memory is limited to so much beyond what is in use once the algorithm is loaded: address space of
libraries is not the algorithm's fault. If the machine runs out of memory, the kernel takes this process first.

A hanging algorithm is the executor's business; on ``SIGUSR1`` the process says where it hangs.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pliant.brain.executor.frames import HEADER, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, frame, length_of, message_of
from pliant.brain.executor.results import RunResult
from pliant.core.decoding import plain
from pliant.core.errors import CorruptData, NotAvailable
from pliant.core.planning.history import JobHistory
from pliant.core.planning.history_json import history_from_json
from pliant.core.planning.proposal import Algorithm, Proposal
from pliant.core.planning.registry import algorithm, chain

NICE = 5
LOAD_MEMORY_MB = 8192  # of address space, for libraries of an algorithm
MAX_MESSAGE = 500  # characters
MAX_TRACEBACK = 8000  # likewise: its end
_PR_SET_PDEATHSIG = 1


def main() -> None:
    descriptor, executor, memory_limit_mb = (int(argument) for argument in sys.argv[1:4])
    _prepare(executor)
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)  # processes that an algorithm starts do not keep it open
    with suppress(NotAvailable):
        chain()  # numpy and all built-in algorithms
    _limit_memory(LOAD_MEMORY_MB)
    server = _Server(memory_limit_mb)
    channel.sendall(frame({"ready": True}))
    while (message := _receive(channel)) is not None:
        if (answer := server.answer(message)) is not None:
            channel.sendall(answer)


class _Server:
    def __init__(self, memory_limit_mb: int) -> None:
        self._memory_limit_mb = memory_limit_mb
        self._algorithms: dict[str, Algorithm] = {}
        self._history: JobHistory | str = "no history was sent"  # or why it cannot be used
        self._pid = os.getpid()
        self._threads = _threads()

    def answer(self, message: dict[str, Any]) -> bytes | None:
        if "history" in message:
            try:
                self._history = history_from_json(message["history"])
            except CorruptData as error:
                self._history = str(error)
            return None
        found = self._load(message["load"]) if "load" in message else self._ask(message["ask"], message["now"])
        if os.getpid() != self._pid:
            os._exit(0)  # a copy that the algorithm forked: the original answers
        answer = frame({**found, "number": message["number"], "is_clean": self._is_clean()})
        if len(answer) > MAX_ANSWER_BYTES:
            text = f"the answer has {len(answer)} bytes, at most {MAX_ANSWER_BYTES} are allowed"
            answer = frame({**_found(RunResult.UNSOUND, text), "number": message["number"], "is_clean": False})
        return answer

    def _load(self, name: str) -> dict[str, Any]:
        def load() -> None:
            self._algorithms[name] = algorithm(name)

        found = _guarded(load)
        _limit_memory(self._memory_limit_mb)
        return found

    def _ask(self, name: str, now: float) -> dict[str, Any]:
        if isinstance(self._history, str):
            return {"bad_history": self._history}
        history, asked = self._history, self._algorithms[name]
        return _guarded(lambda: asked(history, now))

    def _is_clean(self) -> bool:
        """Nothing of the algorithm goes on: neither threads nor processes."""
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return _threads() <= self._threads
        return False


def _guarded(call: Callable[[], object]) -> dict[str, Any]:
    """What came of it. The border of the algorithm: whatever it raises ends here."""
    try:
        returned = call()
        if returned is None:
            return _found(RunResult.NOTHING)
        if not isinstance(returned, Proposal):
            return _found(RunResult.UNSOUND, f"returned {type(returned).__name__}, neither a Proposal nor None")
        return {**_found(RunResult.PROPOSED), "proposal": plain(returned)}
    except MemoryError:
        pass  # answered below, when what it held is free
    except BaseException as error:  # noqa: BLE001  # also SystemExit and KeyboardInterrupt: they are the algorithm's
        return {**_found(RunResult.RAISED, _described(error)), "traceback": _traceback(error)}
    return _found(RunResult.OUT_OF_MEMORY)


def _found(result: RunResult, message: str = "") -> dict[str, Any]:
    return {"result": result.value, "message": message[:MAX_MESSAGE]}


def _described(error: BaseException) -> str:
    """What was raised, and where."""
    text = type(error).__name__
    with suppress(Exception):  # its own methods may fail as well
        text = f"{text}: {' '.join(str(error)[:MAX_MESSAGE].split())}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else text


def _traceback(error: BaseException) -> str:
    """For who wrote it: from the algorithm's own code on, at most ``MAX_TRACEBACK`` characters."""
    with suppress(Exception):  # its own methods may fail as well
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        return "".join(traceback.format_exception(type(error), error, trace))[-MAX_TRACEBACK:]
    return ""


def _prepare(executor: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != executor:
        os._exit(1)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _limit_memory(megabytes: int) -> None:
    """Beyond what is in use now."""
    with suppress(OSError):  # not on this system
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (megabytes << 20)
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _receive(channel: socket.socket) -> dict[str, Any] | None:
    """None: the executor is gone."""
    header = _exactly(channel, HEADER.size)
    content = _exactly(channel, length_of(header, MAX_REQUEST_BYTES)) if header is not None else None
    return message_of(content) if content is not None else None


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


if __name__ == "__main__":
    main()
    os._exit(0)  # without what an algorithm has registered for the end
