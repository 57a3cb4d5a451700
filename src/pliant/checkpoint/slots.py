"""A node's snapshots in memory: two slots, filled in turn by the training process, written out by the agent.

    /dev/shm/pliant-<job>-<hash>/<node>/slot-0.safetensors   the data; a valid safetensors file
                                        slot-0.json          what it holds; there only while the slot is whole
                                        slot-0.written.json  up to which filling it has been written out, and how that went
                                        slot-0.lock          shared by readers, exclusive while it is filled
                                        watched.lock         held by who writes the slots out

A slot is filled only when its last filling has been written out (or that failed), so the agent is never raced and never waited
for. The files outlive the training process: its successor restores from them. Where memory is too small, the data (not the
JSON) is in the temporary folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pliant.checkpoint.files import Cut
from pliant.core.errors import Conflict

FOLDER_VARIABLE = "PLIANT_SNAPSHOT_DIR"  # set by the agent for the program
SLOTS = (0, 1)
_MEMORY = Path("/dev/shm")
_ABANDONED_AFTER = 3600.0  # seconds; snapshots of a job that nobody runs


@dataclass(frozen=True, slots=True)
class Filling:
    """What a slot holds, and what is to be done with it."""

    slot: int
    sequence: int
    step: int
    part: int
    of: int
    round: int
    run: str
    tensors: str
    world: int
    bytes: int
    time: float
    directory: str
    file: str
    keep_last: int
    keep_every: int

    @property
    def cut(self) -> Cut:
        return Cut(self.step, self.of, self.round, self.run, self.tensors)


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of writing a filling out; ``problem`` is empty if it went well."""

    sequence: int
    problem: str
    seconds: float


class SlotFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._watch: int | None = None

    def create(self) -> None:
        """Only for this user: weights are nobody else's business."""
        for folder in (self.path.parent, self.path):
            folder.mkdir(mode=0o700, exist_ok=True, parents=True)
            if folder.stat().st_uid != os.getuid():
                raise Conflict(f"{folder} belongs to someone else", hint="remove it, or give the job another name")

    def filling(self, slot: int) -> Filling | None:
        value = _read_json(self.path / f"slot-{slot}.json")
        try:
            return Filling(**value) if value else None
        except TypeError:
            return None

    def fillings(self) -> list[Filling]:
        """Oldest first."""
        found = [filling for slot in SLOTS if (filling := self.filling(slot)) is not None]
        return sorted(found, key=lambda filling: filling.sequence)

    def written(self, slot: int) -> Written | None:
        value = _read_json(self.path / f"slot-{slot}.written.json")
        try:
            return Written(**value) if value else None
        except TypeError:
            return None

    def pending(self) -> list[Filling]:
        """To be written out, oldest first."""
        return [f for f in self.fillings() if (w := self.written(f.slot)) is None or w.sequence < f.sequence]

    def retract(self, slot: int) -> None:
        (self.path / f"slot-{slot}.json").unlink(missing_ok=True)

    def publish(self, filling: Filling) -> None:
        _write_json(self.path / f"slot-{filling.slot}.json", asdict(filling))

    def mark_written(self, slot: int, written: Written) -> None:
        _write_json(self.path / f"slot-{slot}.written.json", asdict(written))

    @contextmanager
    def reading(self, slot: int) -> Iterator[None]:
        file = self._open_lock(slot)
        try:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield
        finally:
            os.close(file)

    @contextmanager
    def writing(self, slot: int) -> Iterator[bool]:
        """False if someone reads the slot."""
        file = self._open_lock(slot)
        try:
            free = True
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                free = False
            yield free
        finally:
            os.close(file)

    def _open_lock(self, slot: int) -> int:
        return os.open(self.path / f"slot-{slot}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    # --- who writes it out

    def watch(self) -> bool:
        """Take on the writing out; False if someone else has it."""
        file = os.open(self.path / "watched.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._watch = file
        return True

    def unwatch(self) -> None:
        if self._watch is not None:
            os.close(self._watch)
            self._watch = None

    def is_watched(self) -> bool:
        if self._watch is not None:
            return True
        try:
            file = os.open(self.path / "watched.lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    # --- room

    def data_file(self, slot: int, size: int, memory_limit: int = 0) -> tuple[Path, str]:
        """Where the data of a slot of ``size`` bytes goes, and why not into memory if so."""
        held = {s: f.stat().st_size if (f := self.path / f"slot-{s}.safetensors").exists() else 0 for s in SLOTS}
        room = shutil.disk_usage(self.path).free + sum(held.values())
        reason = ""
        if 2 * size > room * 0.9:
            reason = f"two snapshots of {size:,} bytes do not fit into {room:,} bytes of {self.path.parent.parent}"
        elif memory_limit and 4 * size > memory_limit:
            reason = (
                f"two snapshots of {size:,} bytes would take over half of the node's {memory_limit:,} bytes of memory"
            )
        if not reason:
            return self.path / f"slot-{slot}.safetensors", ""
        folder = self._overflow()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise Conflict(f"{folder} belongs to someone else", hint="remove it, or give the job another name")
        (self.path / f"slot-{slot}.safetensors").unlink(missing_ok=True)
        return folder / f"slot-{slot}.safetensors", reason

    def _overflow(self) -> Path:
        return Path(tempfile.gettempdir()) / self.path.parent.name / self.path.name

    def remove(self) -> None:
        self.unwatch()
        for folder in (self.path, self._overflow()):
            shutil.rmtree(folder, ignore_errors=True)
            try:
                folder.parent.rmdir()  # the last one out
            except OSError:
                continue


def node_folder(job: str, node: str, identity: str) -> SlotFolder:
    """``identity`` tells jobs of the same name apart, also one that was started anew; the job's secret token does.

    Else the new job would go on from the memory of the old one.
    """
    base = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    digest = hashlib.sha256(f"{os.getuid()} {identity}".encode()).hexdigest()[:8]
    return SlotFolder(base / f"pliant-{_safe(job)}-{digest}" / _safe(node))


def remove_job(job: str, identity: str) -> None:
    """All snapshots of a job that is over on this machine."""
    root = node_folder(job, "any", identity).path.parent
    for node in siblings(root / "any"):
        node.remove()
    with suppress(OSError):
        root.rmdir()


def siblings(folder: Path) -> list[SlotFolder]:
    """The nodes of the same job on this machine, and itself."""
    try:
        return [SlotFolder(path) for path in sorted(folder.parent.iterdir()) if path.is_dir()]
    except FileNotFoundError:
        return []


def sweep(base: Path = _MEMORY, now: float | None = None, older_than: float = _ABANDONED_AFTER) -> list[Path]:
    """Remove what jobs left behind that were killed with all their agents, some time ago."""
    removed = []
    now = time.time() if now is None else now
    for root in base.glob("pliant-*-????????") if base.is_dir() else ():
        nodes = siblings(root / "any")
        try:
            mine = root.stat().st_uid == os.getuid()
            newest = max((path.stat().st_mtime for path in root.rglob("*")), default=root.stat().st_mtime)
        except FileNotFoundError:
            continue
        if mine and now - newest > older_than and not any(node.is_watched() for node in nodes):
            for node in nodes:
                node.remove()
            removed.append(root)
    return removed


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "_"


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _write_json(path: Path, value: dict[str, Any]) -> None:
    """Whole or not at all, for other processes; nothing here outlives the machine, so no fsync."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)
