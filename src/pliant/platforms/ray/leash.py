"""``leash.py PIPE NICE COUNT [SWEEP...] COMMAND...``: runs a command that must not outlive an actor, nor leave anything behind.

Ray ends an actor by SIGKILL, and what the actor started lives on in sessions of its own. So an actor starts this small
program, which needs nothing but the standard library. It reads a pipe whose other end only the actor has: its end is the
end of the actor, however that came. Whatever the command started and left is handed to this process by the kernel (it is a
*subreaper*), so all of it is found by descent and killed. The command gets SIGKILL if this process itself is killed.

Ray's workers also kill their own children when they end in an orderly way, as when their raylet is gone. So it forks: the
child of the actor only passes signals and the exit code on, and the grandchild does the work, also when its parent is killed.

SWEEP is another command, of COUNT words, which is run where the command was killed or failed. SIGTERM is passed on to the
command. The exit code is the command's; for a signal 128 plus its number, as shells say it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_S = 10.0  # at most, for all that is left to be gone
ROUND_S = 0.01
SWEEP_S = 60.0
PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    pipe, nice, count, words = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    sweep, command = words[:count], words[count:]
    os.set_inheritable(pipe, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # one that comes now waits until somebody can pass it on
    if worker := os.fork():
        os.close(pipe)
        return _relay(worker)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if nice:
        with contextlib.suppress(OSError):  # only root, or with a limit for it: Ray's workers start at 15
            os.setpriority(os.PRIO_PROCESS, 0, int(nice))
    hear, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)

    child = subprocess.Popen(command, start_new_session=True, preexec_fn=in_child)
    for number in PASSED_ON:
        signal.signal(number, lambda received, _: _send(child.pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = None
    while code is None:
        ready, _, _ = select.select([pipe, hear], [], [])
        if pipe in ready and not os.read(pipe, 1):
            break
        if hear in ready:
            os.read(hear, 4096)
        code = _reap(child.pid)
    deadline = time.monotonic() + KILL_S
    while (left := _descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            _send(pid, signal.SIGKILL)
        time.sleep(ROUND_S)
    while code is None and time.monotonic() < deadline:  # it can be a zombie while threads of it are still ending
        code = _reap(child.pid)
        time.sleep(0 if code is not None else ROUND_S)
    if sweep and code != 0:  # a command that ended well has swept
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(sweep, timeout=SWEEP_S, check=False)
    child.returncode = code = -signal.SIGKILL if code is None else code
    return code if code >= 0 else 128 - code


def _relay(worker: int) -> int:
    for number in PASSED_ON:
        signal.signal(number, lambda received, _: _send(worker, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    return code if code >= 0 else 128 - code


def _reap(wanted: int) -> int | None:
    """Of all that ended: of the command, and of those that were handed to this process. The exit code of the command, if it did."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == wanted:
                code = os.waitstatus_to_exitcode(found[1])
    return code


def _descendants(pid: int) -> list[int]:
    """Those that live: what a dead one left is this process's own."""
    found = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for thread in threads:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
            for child in map(int, file.read().split()):
                found += _descendants(child)
                if not _is_zombie(child):
                    found.append(child)
    return found


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        return True


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main())
