"""The user's program as a process: started so that it cannot outlive its agent, ended with all its offspring.

How it starts. The kernel kills the program when the agent's main thread ends (``PR_SET_PDEATHSIG``), which a
process can only ask for itself, between fork and exec. ``preexec_fn`` would do that in a forked copy of an agent that
runs gRPC threads, where any lock may be held for ever. So a small interpreter is *spawned* (vfork and exec, nothing
of ours runs in between) and becomes the program: it asks for the signal, ends if the agent died before that, joins
the cgroup, and execs. That costs 12 ms instead of 1 ms, and closes the race that ``setpriv --pdeathsig`` (2 ms)
leaves open. A pipe that exec closes reports that the program runs, or why not.

How it writes. Its output goes to the log file by a descriptor of its own, no pipe through the agent.

How it ends. It leads a session; everything it starts is found by the session, by descent, or by the variable
``PLIANT_RUN_ID`` in the environment, which also marks those who left both.

Neighbours: ``exits`` judges the return code, ``usage`` measures, the agent decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from pliant.core.errors import PermanentError, PliantError
from pliant.platforms.process_stat import STOPPED, read_stat
from pliant.platforms.processes import all_gone, has_mark, is_alive, send, when_gone

RUN_ID = "PLIANT_RUN_ID"
KILL_ROUNDS = 20  # of half a second each, for processes that start others while they are killed

# What follows runs in the spawned interpreter (-I -S). Interpreters leave traces that exec would hand down: SIGPIPE and
# SIGXFSZ ignored, LC_CTYPE set in a C locale; they are undone. Arguments: pid of the agent, descriptor of the pipe,
# whether LC_CTYPE was there, the file to run, the number of files to join, these files, and the program's argv.
_BECOME = """
import ctypes, os, signal, sys
agent, pipe, locale, file, count, *rest = sys.argv[1:]
pipe, count = int(pipe), int(count)
try:
    os.set_inheritable(pipe, False)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(agent):
        os._exit(1)
    for procs in rest[:count]:
        with open(procs, "w") as group:
            group.write(str(os.getpid()))
    if locale == "unset":
        os.environ.pop("LC_CTYPE", None)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execve(file, rest[count:], os.environ)
except OSError as failure:
    os.write(pipe, str(failure).encode("utf-8", "replace"))
    os._exit(126)
"""


class Program:
    """One run of the user's command. Made by ``start``; every method runs in that event loop."""

    def __init__(self, popen: subprocess.Popen[bytes], run_id: str, log: Path, log_offset: int) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.run_id = run_id
        self.log = log
        self.log_offset = log_offset  # where this run's output begins
        self.started_at = time.time()  # seconds since the epoch
        self._gone = when_gone(popen.pid)

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path | None = None,
        attach_to: Sequence[Path] = (),
        keep_open: Sequence[int] = (),
    ) -> Program:
        """Start it; returns once the program itself runs.

        ``env`` is the whole environment. ``attach_to`` are ``cgroup.procs`` files that it joins before its first
        instruction. ``keep_open``: descriptors that it inherits.

        Only from the main thread: the kernel takes the end of the starting thread for that of the agent.
        """
        if threading.current_thread() is not threading.main_thread():
            raise PermanentError(
                "a program must be started from the main thread, because it exits with the thread that started it"
            )
        directory = (cwd or Path.cwd()).absolute()
        file = find_command(command, env, directory)
        run_id = uuid.uuid4().hex
        hear, tell = os.pipe()
        become = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), str(tell)]
        become += ["set" if "LC_CTYPE" in env else "unset", file, str(len(attach_to)), *map(str, attach_to)]
        try:
            with log.open("ab") as output:
                offset = output.seek(0, os.SEEK_END)
                popen = subprocess.Popen(
                    [*become, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**env, RUN_ID: run_id},
                    cwd=directory,
                    start_new_session=True,
                    pass_fds=(tell, *keep_open),
                )
        except OSError as failure:
            os.close(hear)
            raise PliantError(f"cannot start {command[0]!r} with its log in {log}: {failure}") from failure
        finally:
            os.close(tell)
        try:
            refusal = await _read_all(hear)
        except BaseException:
            popen.kill()
            popen.wait()
            raise
        if refusal:
            popen.wait()
            kind = PermanentError if _is_of_file(refusal, file) else PliantError
            raise kind(f"cannot run {file}: {refusal}", hint=_how_to_run(file))
        return cls(popen, run_id, log, offset)

    def begin_run(self, log_offset: int) -> None:
        """A process that was there before (``warm_standby``) is the program from now on."""
        self.log_offset, self.started_at = log_offset, time.time()

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._popen.poll()

    @property
    def is_stopped(self) -> bool:
        """Whether it is halted by SIGSTOP or a debugger (state T), alive but not running."""
        found = read_stat(self.pid)
        return found is not None and found.state in STOPPED

    async def wait(self) -> int:
        """The return code, once it ended. What it started may still run: see ``kill``."""
        await asyncio.shield(self._gone)
        return self._popen.wait()

    def signal_group(self, signum: int) -> None:
        """To the program and all that stayed in its process group, at once."""
        if self.returncode is None:  # until then nobody else can have this number
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signum)

    async def stop(self, grace: float) -> int:
        """Ask everything of this run to end (SIGTERM), and kill what is left after ``grace`` seconds."""
        members = self.members()
        self.signal_group(signal.SIGTERM)
        for process in members:
            if self.returncode is not None or _group_of(process.pid) != self.pid:  # not reached by the line above
                send(process, signal.SIGTERM)
            send(process, signal.SIGCONT)  # one that is halted must run to hear of it
        await all_gone(members, grace)
        return await self.kill(members)

    async def kill(self, known: Iterable[psutil.Process] = ()) -> int:
        """Kill everything of this run, also what outlived the program; returns the program's code."""
        for _ in range(KILL_ROUNDS):
            members = {process for process in {*known, *self.members()} if is_alive(process)}
            if not members:
                break
            self.signal_group(signal.SIGKILL)
            for process in members:
                send(process, signal.SIGKILL)
            await all_gone(members, 0.5)
        return await self.wait()

    def members(self) -> set[psutil.Process]:
        """Every live process of this run: the program, its descendants, its session, and those marked by its run."""
        found: set[psutil.Process] = set()
        with contextlib.suppress(psutil.NoSuchProcess):
            if self.returncode is None:
                program = psutil.Process(self.pid)
                found = {program, *program.children(recursive=True)}
        session_is_ours = self.returncode is None or not psutil.pid_exists(self.pid)  # else the number was reused
        for pid in psutil.pids():
            if (session_is_ours and _session_of(pid) == self.pid) or has_mark(pid, {RUN_ID: self.run_id}):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found.add(psutil.Process(pid))
        return {process for process in found if is_alive(process)}


def find_command(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> str:
    """The file that a command names, found as a shell in ``cwd`` would; refuses with where it looked."""
    if not command or not command[0]:
        raise PermanentError("the command is empty", hint="put the program after --: pliant run -- python train.py")
    if not cwd.is_dir():
        raise PermanentError(f"the working directory {cwd} does not exist")
    name = command[0]
    if os.sep in name:
        file = cwd / name
        if not file.exists():
            raise PermanentError(f"the command {name!r} does not exist; looked for {file}")
        if not file.is_file() or not os.access(file, os.X_OK):
            kind = "a directory" if file.is_dir() else "not executable"
            raise PermanentError(f"the command {name!r} is {kind}: {file}", hint=_how_to_run(str(file)))
        return str(file)
    path = env.get("PATH", os.defpath)
    folders = [str(cwd / folder) for folder in path.split(os.pathsep)]
    if found := shutil.which(name, path=os.pathsep.join(folders)):
        return found
    hint = _how_to_run(name) if (cwd / name).is_file() else "check the spelling and the PATH of the job"
    raise PermanentError(f"the command {name!r} was not found; looked in {', '.join(folders)}", hint=hint)


def _how_to_run(file: str) -> str:
    if file.endswith(".py"):
        return f"run it with Python: python {file}"
    return f"make it executable (chmod +x {file}); a script must start with #! and its interpreter"


def _is_of_file(refusal: str, file: str) -> bool:
    """Whether the file itself cannot be run, as opposed to a system that is short of something, or a cgroup that is gone."""
    lasting = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.EPERM, errno.ENOTDIR, errno.ELOOP)
    return repr(file) in refusal and refusal.startswith(tuple(f"[Errno {number}]" for number in lasting))


async def _read_all(descriptor: int) -> str:
    """All of a pipe until its other end is closed."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        return (await reader.read()).decode("utf-8", "replace")
    finally:
        transport.close()


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
