"""The life of one cluster on this machine: its folder, its lock, its keeper, and the removal of everything.

A run is a folder directly under the temporary folder. It gets its name only when its lock is held, and the lock goes to
the keeper, so at any instant a run without a holder of its lock is one whose keeper is dead: ``sweep`` removes it. The
keeper (``python cluster.py keep``) starts the holder of the namespaces, and removes the run when it is told to
(SIGTERM), when the holder dies, or when the owner does. If the keeper itself is killed, the kernel ends the holder, and with it
every process of the cluster; files and cgroups wait for the next sweep.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from tools.kubernetes.testbed import network
from tools.kubernetes.testbed.ready import search_path

from pliant.files.atomic import read_json, write_json
from pliant.files.locks import FileLock

PREFIX = "pliant-kubernetes-"
LOCK = "lock"
UNNAMED = ".pliant-kubernetes-new-"  # until its lock is held
CGROUPS = Path("/sys/fs/cgroup")
MAX_START = 60.0  # seconds; a holder is there at once, unless the machine is very busy
MAX_END = 60.0  # seconds
# A /run of its own keeps sockets and network names of containers from the machine's, and etcd's data in memory.
HOLD = "mount -t tmpfs -o mode=755 tmpfs /run && exec sleep infinity"


@dataclass(frozen=True)
class Run:
    """One cluster's place on this machine."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name.removeprefix(PREFIX)

    @property
    def cgroup(self) -> str:
        """Below every controller; the nodes' cgroups are in it."""
        return self.folder.name

    @property
    def _lock(self) -> FileLock:
        return FileLock(self.folder / LOCK)

    @property
    def facts(self) -> dict[str, Any]:
        """What the keeper wrote down: pids, link, addresses. Empty if it is not there (any more)."""
        return read_json(self.folder / "run.json") or {}

    @property
    def address(self) -> str:
        """Of the cluster, as the machine and the cluster itself see it."""
        return str(self.facts["address"])

    def inside(self, *command: str) -> list[str]:
        """The command that runs a command in the cluster's namespaces, as the child of an ``nsenter`` that stays outside."""
        return ["nsenter", "--target", str(self.facts["holder"]), "--net", "--mount", "--pid", "--", *command]

    def end(self) -> None:
        """Tell the keeper to remove everything, and wait until it has."""
        keeper = self.facts.get("keeper")
        if keeper is not None and self._lock.is_held():
            with contextlib.suppress(ProcessLookupError):
                process = os.pidfd_open(keeper)
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGTERM)
                if not select.select([process], [], [], MAX_END)[0]:
                    raise TimeoutError(f"the keeper of {self.folder} (process {keeper}) did not end")
                os.close(process)
        if self.folder.exists():
            sweep()


def runs() -> list[Run]:
    """All that are there, kept or not."""
    found = sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    return [Run(folder) for folder in found if (facts := _facts_of(folder)) and facts.st_uid == os.geteuid()]


def _facts_of(folder: Path) -> os.stat_result | None:
    """None: it is not there (any more), since others make and remove folders at any moment."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return None
    return found if stat.S_ISDIR(found.st_mode) else None


def find(name: str) -> Run | None:
    run = Run(Path(tempfile.gettempdir()) / f"{PREFIX}{name}")
    return run if run.facts else None


def begin(name: str | None, owner: int | None) -> Run:
    """A new run with its keeper and its namespaces; ``owner`` is the process that it must not outlive."""
    sweep()
    unnamed = Path(tempfile.mkdtemp(prefix=UNNAMED))
    lock = FileLock(unnamed / LOCK)
    assert lock.try_acquire()
    folder = unnamed.with_name(f"{PREFIX}{name or unnamed.name.rsplit('-', 1)[1]}")
    try:
        unnamed.rename(folder)
    except OSError:
        shutil.rmtree(unnamed)
        raise FileExistsError(f"a cluster called {name} is there already, in {folder}") from None
    program = Path(__file__).parents[1] / "cluster.py"
    command = [sys.executable, str(program), "keep", str(folder), "--lock", str(lock.fd)]
    if owner is not None:
        command += ["--owner", str(owner)]
    with (folder / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock.fd], start_new_session=True
        )
    lock.release()
    run = Run(folder)
    deadline = time.monotonic() + MAX_START
    while not run.facts:
        if keeper.poll() is not None or time.monotonic() > deadline:
            said = (folder / "keeper.log").read_text() if folder.exists() else "it said nothing that is left"
            keeper.terminate()
            raise RuntimeError(f"the keeper of {folder} ended: {said}")
        time.sleep(0.01)
    return run


def keep(folder: Path, owner: int | None) -> None:
    """The keeper: hold the namespaces until it is time to go, then remove everything."""
    try:
        watched = [os.pidfd_open(owner)] if owner is not None else []
    except ProcessLookupError:
        remove(Run(folder))
        return
    told, tell = os.pipe()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.write(tell, b"."))
    # If this process is killed, the kernel kills unshare, and then the first process of the namespace and so all others.
    unshare = [
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--propagation=private",
    ]
    command = ["setpriv", "--pdeathsig", "KILL", *unshare, "sh", "-c", HOLD]
    holding = subprocess.Popen(command, env={**os.environ, "PATH": search_path()}, start_new_session=True)
    try:
        holder = child_of(holding, "sleep")  # it is, once /run is mounted
        link, address = network.connect(folder.name, holder)
        facts = {"keeper": os.getpid(), "holding": holding.pid, "holder": holder, "link": link, "address": address}
        write_json(folder / "run.json", facts)
        select.select([told, os.pidfd_open(holding.pid), *watched], [], [])
    finally:
        holding.kill()
        holding.wait()
        remove(Run(folder))


def child_of(process: subprocess.Popen[bytes], name: str) -> int:
    """The child of a process, as soon as it runs the program ``name``."""
    deadline = time.monotonic() + MAX_START
    while time.monotonic() < deadline and process.poll() is None:
        for child in psutil.Process(process.pid).children():
            with contextlib.suppress(psutil.Error):
                if child.name() == name:
                    return child.pid
        time.sleep(0.01)
    raise RuntimeError(f"{process.args!r} did not start {name}")


def remove(run: Run) -> None:
    """What is left of a run whose processes are dead, or dying: its link, its cgroups, its files; the lock, which keeps others
    from doing the same, last."""
    if link := run.facts.get("link"):
        network.disconnect(link)
    remove_cgroup(run.cgroup)
    # Processes that are dying may still write for a moment.
    deadline = time.monotonic() + MAX_END
    while run.folder.exists() and time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):  # somebody else has removed the folder
            for path in run.folder.glob("*"):
                if path.name != LOCK:
                    with contextlib.suppress(OSError):
                        path.unlink()  # of a folder this fails
                    shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(run.folder, ignore_errors=True)


def remove_cgroup(path: str) -> None:
    """With all below it, in every hierarchy; processes that are in it must be dead or dying."""
    deadline = time.monotonic() + MAX_END
    while time.monotonic() < deadline:
        found = [top for top in CGROUPS.glob(f"*/{path}") if not top.parent.is_symlink()]
        if not found:
            return
        for top in found:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        time.sleep(0.02)


def _is_there(lock: FileLock, path: Path) -> bool:
    """Whether the lock that was got is the one that lies there: a run may have gone meanwhile, and another have its name."""
    try:
        return os.path.samestat(os.fstat(lock.fd), path.stat())
    except FileNotFoundError:
        return False


def sweep() -> list[str]:
    """Remove the runs whose keepers are dead; gives their names. Those that somebody else removes now are left to them."""
    swept = []
    for run in runs():
        lock = FileLock(run.folder / LOCK)
        try:
            free = lock.try_acquire()
        except OSError:  # somebody else removes it at this moment
            continue
        if free and _is_there(lock, run.folder / LOCK):
            remove(run)
            swept.append(run.name)
        lock.release()
    for folder in Path(tempfile.gettempdir()).glob(f"{UNNAMED}*"):
        facts = _facts_of(folder)  # None: its maker has given it its name
        if facts is not None and time.time() - facts.st_mtime > MAX_START:  # its maker died between two lines
            shutil.rmtree(folder, ignore_errors=True)
    return swept
