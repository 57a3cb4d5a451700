"""GPUs of this machine: which there are, which of them this process may use, and who has which.

``find_gpus`` asks the NVIDIA driver's files, and ``nvidia-smi`` where they do not suffice (MIG, WSL). ``visible_gpus`` narrows them
down to what ``CUDA_VISIBLE_DEVICES`` of this process allows, as CUDA does. ``GpuPool`` gives them out: a node gets GPUs that no
other has, by their names in its own ``CUDA_VISIBLE_DEVICES``.

Who has what is not stored here. The local platform reads it from the records of the nodes that live, and between jobs a lock on a
file per GPU decides, which the agent of the node holds for as long as it lives: a GPU is free again when its node has ended,
however it did, and a restarted master finds everything as it is.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pliant.core.errors import Conflict
from pliant.core.plurals import counted
from pliant.files.locks import FileLock
from pliant.files.private import make_private_folder

log = logging.getLogger(__name__)

VISIBLE = "CUDA_VISIBLE_DEVICES"
SMI_TIMEOUT_S = 20.0
SYSTEM = Path("/")

_LISTED = re.compile(r"^\s*(?P<kind>GPU|MIG) .*?\(UUID: (?P<uuid>[\w/-]+)\)")
_UUID = re.compile(r"^GPU UUID:\s*(?P<uuid>GPU-[\w-]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str  # for CUDA_VISIBLE_DEVICES: its number, or its UUID
    uuid: str = ""  # empty: not known

    @property
    def key(self) -> str:
        """The same for every process of the machine, as far as is known."""
        return self.uuid or f"GPU-number-{self.name}"


@dataclass(frozen=True, slots=True)
class GpuGrant:
    """GPUs of one node that is about to be started. Whoever inherits the locks' descriptors has them."""

    gpus: tuple[Gpu, ...] = ()
    locks: tuple[FileLock, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(gpu.name for gpu in self.gpus)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(lock.fd for lock in self.locks)

    def release(self) -> None:
        """The copies of this process."""
        for lock in self.locks:
            lock.release()


class GpuPool:
    """The GPUs that nodes can be given."""

    def __init__(self, gpus: Sequence[Gpu], locks: Path | None = None) -> None:
        """``locks``: folder of a lock per GPU, which all jobs of the machine share; None: there is none."""
        self._gpus = tuple(gpus)
        self._locks = locks

    def __len__(self) -> int:
        return len(self._gpus)

    def take(self, count: int, in_use: Collection[str]) -> GpuGrant | str:
        """``count`` GPUs that nobody has, else why not. ``in_use``: names of those that nodes of this job have."""
        if count > len(self._gpus):
            return f"{counted(count, 'GPU')} requested; the machine has {len(self._gpus) or 'none'}"
        taken: list[Gpu] = []
        locks: list[FileLock] = []
        for gpu in self._gpus:
            if len(taken) < count and gpu.name not in in_use and self._acquire(gpu, locks):
                taken.append(gpu)
        grant = GpuGrant(tuple(taken), tuple(locks))
        if len(taken) == count:
            return grant
        grant.release()
        return f"{counted(count, 'GPU')} requested; {len(taken)} of {len(self._gpus)} available"

    def _acquire(self, gpu: Gpu, locks: list[FileLock]) -> bool:
        """False: a node of another job has it."""
        if self._locks is None:
            return True
        lock = FileLock(self._locks / f"{re.sub(r'[^A-Za-z0-9_-]', '_', gpu.key)}.lock")
        if not lock.try_acquire():
            return False
        locks.append(lock)
        return True


def visible_gpus(env: Mapping[str, str], found: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Those that a process with this environment may use. As for CUDA, what comes after an unknown number does not count."""
    given = env.get(VISIBLE)
    if given is None or not found:
        return tuple(found)
    chosen: list[Gpu] = []
    for name in (part.strip() for part in given.split(",")):
        if name.isdecimal():
            known = found[int(name)] if int(name) < len(found) else None
        else:
            known = next((gpu for gpu in found if name and gpu.uuid.startswith(name)), None)
            if known is None and name.startswith(("GPU-", "MIG-")):
                known = Gpu(name, name)
        if known is None:
            break
        if all(gpu.key != known.key for gpu in chosen):
            chosen.append(Gpu(name, known.uuid))
    return tuple(chosen)


def _list_by_nvidia_smi() -> str:
    """Its listing; empty: there is no such tool, or it does not work."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    try:
        done = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("nvidia-smi does not list the GPUs: %s", error)
        return ""
    return done.stdout if done.returncode == 0 else ""


def find_gpus(root: Path = SYSTEM, listing: Callable[[], str] = _list_by_nvidia_smi) -> tuple[Gpu, ...]:
    """All of this machine, or container, that CUDA can see, in the order of ``nvidia-smi``."""
    driver = root / "proc/driver/nvidia"
    is_divided = any(driver.glob("capabilities/gpu*/mig/gi*"))  # into MIG devices, which only the tool can name
    boards = sorted((driver / "gpus").glob("*")) if not is_divided else []
    if boards:
        return tuple(Gpu(str(number), _uuid_of(board)) for number, board in enumerate(boards))
    devices = [path for path in (root / "dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    if (is_divided or not devices) and (listed := parse_listing(listing())):
        return listed
    return tuple(Gpu(str(number)) for number in range(len(devices)))


def parse_listing(text: str) -> tuple[Gpu, ...]:
    """Of ``nvidia-smi -L``. A GPU that is divided is not listed itself, but by its MIG devices."""
    found: list[Gpu] = []
    number, is_divided = -1, False
    for line in text.splitlines():
        if not (listed := _LISTED.match(line)):
            continue
        if listed["kind"] == "GPU":
            number, is_divided = number + 1, False
            found.append(Gpu(str(number), listed["uuid"]))
            continue
        if not is_divided and found:
            found.pop()
        is_divided = True
        found.append(Gpu(listed["uuid"], listed["uuid"]))
    return tuple(found)


def usable_gpus() -> tuple[Gpu, ...]:
    """Those of this machine that this process may use."""
    return visible_gpus(os.environ, find_gpus())


def shared_locks() -> Path | None:
    """The folder of the locks that all jobs of this user share; None: it cannot be used, and jobs do not know of each other."""
    folder = Path(tempfile.gettempdir()) / f"pliant-gpus-{os.getuid()}"
    with contextlib.suppress(OSError, Conflict):
        make_private_folder(folder)
        return folder
    log.warning("%s cannot be used: another job may use the same GPUs", folder)
    return None


def _uuid_of(board: Path) -> str:
    try:
        found = _UUID.search((board / "information").read_text(errors="replace"))
    except OSError:
        return ""
    return found["uuid"] if found else ""
