"""A warm standby: a process beside a node's program that has its libraries imported, and becomes its successor.

A program that is killed is started again on its node, and most of the time until it trains goes into imports, for which it
competes with the workers that still train. The standby (``fault.warm_standby``) has done them, at the lowest priority
(``standby_program``). It is no run of the program: it knows no master, joins nothing, and runs no line of the user's file before
it is asked to.

It is started once the program trains, if the machine has memory for it. It is used once; another one is prepared afterwards. What
cannot be prepared (another command than ``python file`` or ``python -m module``, no memory, still importing) is started as ever.

It cannot outlive its agent: like the program it is killed by the kernel with the agent's main thread, and it ends when its
socket is closed. The program's cgroup is joined when it becomes the program.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from pliant.agent.process import Program
from pliant.core.errors import PliantError

log = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("standby_program.py")
MIN_FREE_MB = 1536  # of the node or the machine; torch alone takes about 350
MIN_RUN_S = 30.0  # of a program that does not tell when it trains, before a standby is prepared
RETRY_S = 60.0  # after one that ended before it was used
_FLAGS = frozenset({"-u", "-O", "-OO", "-B", "-P", "-s", "-E"})
_PYTHON = re.compile(r"python(3(\.[0-9]+)?)?")


@dataclass(frozen=True, slots=True)
class PythonCommand:
    interpreter: str
    flags: tuple[str, ...]
    arguments: tuple[str, ...]  # the file, or -m and the module, and what follows

    @classmethod
    def of(cls, command: Sequence[str]) -> PythonCommand | None:
        """None: not one that a standby can become."""
        if not command or not _PYTHON.fullmatch(Path(command[0]).name):
            return None
        at = 1
        while at < len(command) and command[at] in _FLAGS:
            at += 1
        rest = tuple(command[at:])
        is_module = len(rest) > 1 and rest[0] == "-m"
        if not rest or (rest[0].startswith("-") and not is_module):
            return None
        return cls(command[0], tuple(command[1:at]), rest)


class WarmStandby:
    def __init__(self, command: Sequence[str], log_file: Path) -> None:
        self._command = PythonCommand.of(command)
        self._log_file = log_file
        self._program: Program | None = None
        self._socket: socket.socket | None = None
        self._ready = False
        self._not_before = 0.0  # monotonic
        if self._command is None:
            log.info("no warm standby: the command is not python with a file or -m and a module")

    def check_ready(self) -> bool:
        """Whether it has imported everything, and lives."""
        if self._program is None or self._socket is None or self._program.returncode is not None:
            return False
        if not self._ready:
            try:
                self._ready = self._socket.recv(1, socket.MSG_DONTWAIT) == b"R"
            except OSError:  # nothing yet, or it has just ended
                return False
            if self._ready:
                log.info("the warm standby is ready: process %d", self._program.pid)
        return self._ready

    async def prepare(self, env: Mapping[str, str], *, free_mb: float) -> None:
        """Start one, if there is none; ``free_mb``: what the node's limit leaves."""
        if self._command is None or time.monotonic() < self._not_before:
            return
        if self._program is not None and self._program.returncode is None:
            self.check_ready()
            return
        if self._program is not None:
            log.info("the warm standby ended with code %s before it was used", self._program.returncode)
            await self.end()
            self._not_before = time.monotonic() + RETRY_S
            return
        if min(free_mb, psutil.virtual_memory().available >> 20) < MIN_FREE_MB:
            self._not_before = time.monotonic() + RETRY_S
            log.info("no warm standby: less than %d MB of memory are free", MIN_FREE_MB)
            return
        ours, theirs = socket.socketpair()
        words = [self._command.interpreter, *self._command.flags, str(PROGRAM), str(theirs.fileno())]
        try:
            self._program = await Program.start(
                [*words, *self._command.arguments], env=env, log=self._log_file, keep_open=(theirs.fileno(),)
            )
        except PliantError as error:
            ours.close()
            self._not_before = time.monotonic() + RETRY_S
            log.info("no warm standby: %s", error)
            return
        except BaseException:  # cancelled: the node ends, or its program did
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours

    def become(self, env: Mapping[str, str], attach_to: Sequence[Path]) -> Program | None:
        """The standby as the program's next run; None: there is none that could be."""
        if self._command is None or not self.check_ready() or self._socket is None or self._program is None:
            return None
        program, self._program = self._program, None
        message = {"environment": dict(env), "arguments": self._command.arguments, "directory": os.getcwd()}
        try:
            for procs in attach_to:
                procs.write_text(str(program.pid))
            offset = self._log_file.stat().st_size
            self._socket.sendall(json.dumps(message).encode())
        except OSError as error:
            log.info("the warm standby is not used: %s", error)
            self._program = program
            return None
        finally:
            self._socket.close()
            self._socket, self._ready = None, False
        program.begin_run(offset)
        return program

    async def end(self) -> None:
        program, self._program = self._program, None
        if self._socket is not None:
            self._socket.close()
            self._socket, self._ready = None, False
        if program is not None:
            await program.kill()
