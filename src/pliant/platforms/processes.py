"""Processes of this machine: waiting for their end without polling, finding those that a job left behind.

Used by the agent for its program and by the local platform for agents that another process may have started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping

import psutil

MAX_EXEC_S = 1.0  # for a process that is just being executed to have its environment; a starved one took 13 ms


def when_gone(pid: int) -> asyncio.Future[None]:
    """Done once the process ended, reaped or not. By a pidfd; where the kernel has none, a thread waits."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not future.done():
            future.set_result(None)

    def wait_in_thread() -> None:
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).wait()
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle)

    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        settle()
        return future
    except (AttributeError, OSError):
        threading.Thread(target=wait_in_thread, name=f"wait-{pid}", daemon=True).start()
        return future

    def close(_: asyncio.Future[None]) -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)

    loop.add_reader(descriptor, settle)
    future.add_done_callback(close)
    return future


async def all_gone(processes: Iterable[psutil.Process], timeout: float) -> None:
    """Wait until all ended, at most ``timeout`` seconds."""
    futures = [when_gone(process.pid) for process in processes]
    if futures:
        _, pending = await asyncio.wait(futures, timeout=timeout)
        for future in pending:
            future.cancel()


def find_marked(marks: Mapping[str, str]) -> list[psutil.Process]:
    """Live processes, other than this one, that were started with all these variables in their environment."""
    found = []
    for pid in psutil.pids():
        if pid != os.getpid() and has_mark(pid, marks):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
    return [process for process in found if is_alive(process)]


def kill_marked(marks: Mapping[str, str]) -> list[psutil.Process]:
    """Kill all that ``find_marked`` finds, also what one of them started before its own end came; returns them."""
    killed: set[psutil.Process] = set()
    while found := set(find_marked(marks)) - killed:
        kill_all(found)
        killed |= found
    return list(killed)


def kill_all(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        send(process, signal.SIGKILL)


def send(process: psutil.Process, signum: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.send_signal(signum)  # refuses if the number belongs to another process by now


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def has_mark(pid: int, marks: Mapping[str, str]) -> bool:
    """Asked of every process of the machine, so the kernel's file is searched as it is, where there is one."""
    try:
        if sys.platform == "linux":
            environment = b"\0" + _environment(pid)
            return all(b"\0%s=%s\0" % (os.fsencode(k), os.fsencode(v)) in environment for k, v in marks.items())
        return marks.items() <= psutil.Process(pid).environ().items()
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False


def _environment(pid: int) -> bytes:
    """Of a Linux process, as it was started; one that is just being executed is waited for."""
    deadline = time.monotonic() + MAX_EXEC_S
    while not (found := _read(pid, "environ")) and _is_being_executed(pid) and time.monotonic() < deadline:
        time.sleep(0.001)
    return found or _read(pid, "environ")


def _is_being_executed(pid: int) -> bool:
    """The new program has taken the place of the old one, which is when whoever started it learns that it runs. Its arguments
    and its environment come a little later. (What is of the kernel, or has ended, has no program.)"""
    try:
        os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    return not _read(pid, "cmdline")


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
