"""A node's snapshots in memory: two slots, filled alternately by the training process, written out by the agent.

    /dev/shm/pliant-<job>-<hash>/<node>/slot-0.safetensors   the data; a valid safetensors file
                                        slot-0.json          what it holds; there only while the slot is whole
                                        slot-0.written.json  up to which snapshot it has been written out, and the result
                                        slot-0.lock          shared by readers, exclusive while it is filled
                                        watched.lock         held by the process that writes the slots out

A slot is filled only when its last snapshot has been written out (or that failed), so the agent is never raced and never waited
for. The files outlive the training process: its successor restores from them. Where memory is too small, the data (not the
JSON) is in the temporary folder.
"""

from __future__ import annotations

import fnmatch
import hashlib
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pliant.checkpoint.manifest import MAX_PARTS, Cut
from pliant.core.errors import CorruptData
from pliant.files.atomic import read_json, write_json
from pliant.files.locks import FileLock
from pliant.files.private import make_private_folder
from pliant.files.typed_json import MAX_TEXT, record_of

log = logging.getLogger(__name__)

SLOTS = (0, 1)
_MEMORY = Path("/dev/shm")
_JOB_FOLDERS = "pliant-*-????????"
_ABANDONED_AFTER_S = 3600.0  # without a change, and without an agent


@dataclass(frozen=True, slots=True)
class SlotSnapshot:
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
class WriteResult:
    """The outcome of writing a snapshot out; ``problem`` is empty if it went well."""

    sequence: int
    problem: str
    seconds: float
    step: int = 0
    directory: str = ""
    hint: str = ""  # what to do about the problem
    complete: bool = False  # all parts are there: the checkpoint can be restored


class SlotFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._watch = FileLock(path / "watched.lock")

    def create(self) -> None:
        """Readable by this user only: weights are private. Raises ``Conflict`` if anybody else prepared it."""
        _make_private(self.path)

    def snapshot(self, slot: int) -> SlotSnapshot | None:
        value = read_json(self.path / f"slot-{slot}.json")
        try:
            found = record_of(SlotSnapshot, value, "")
        except CorruptData:
            return None
        fits = found.slot == slot and found.part < found.of <= MAX_PARTS and found.world > 0
        return found if fits else None

    def snapshots(self) -> list[SlotSnapshot]:
        """Oldest first."""
        found = [snapshot for slot in SLOTS if (snapshot := self.snapshot(slot)) is not None]
        return sorted(found, key=lambda snapshot: snapshot.sequence)

    def written(self, slot: int) -> WriteResult | None:
        try:
            return record_of(WriteResult, read_json(self.path / f"slot-{slot}.written.json"), "")
        except CorruptData:
            return None

    def pending(self) -> list[SlotSnapshot]:
        """To be written out, oldest first."""
        return [f for f in self.snapshots() if (w := self.written(f.slot)) is None or w.sequence < f.sequence]

    def retract(self, slot: int) -> None:
        (self.path / f"slot-{slot}.json").unlink(missing_ok=True)

    def publish(self, snapshot: SlotSnapshot) -> None:
        write_json(self.path / f"slot-{snapshot.slot}.json", asdict(snapshot), durable=False)  # it is in memory

    def mark_written(self, slot: int, written: WriteResult) -> None:
        short = replace(written, problem=written.problem[:MAX_TEXT])
        write_json(self.path / f"slot-{slot}.written.json", asdict(short), durable=False)

    @contextmanager
    def reading(self, slot: int) -> Iterator[None]:
        with FileLock(self._lock_file(slot), shared=True):
            yield

    @contextmanager
    def writing(self, slot: int) -> Iterator[bool]:
        """Yields False if someone reads the slot."""
        lock = FileLock(self._lock_file(slot))
        try:
            yield lock.try_acquire()
        finally:
            lock.release()

    def _lock_file(self, slot: int) -> Path:
        return self.path / f"slot-{slot}.lock"

    # --- who writes it out

    def watch(self) -> bool:
        """Take on the writing out; False if someone else has it."""
        return self._watch.try_acquire()

    def unwatch(self) -> None:
        self._watch.release()

    def is_watched(self) -> bool:
        return self._watch.is_held()

    # --- room

    def data_file(self, slot: int, size: int, memory_limit: int = 0) -> tuple[Path, str]:
        """Where the data of a slot of ``size`` bytes goes, and why not into memory if so."""
        held = {s: f.stat().st_size if (f := self.path / f"slot-{s}.safetensors").exists() else 0 for s in SLOTS}
        room = shutil.disk_usage(self.path).free + sum(held.values())
        reason = ""
        if 2 * size > room * 0.9:
            reason = f"two snapshots of {size:,} bytes do not fit into {room:,} bytes of {self.path.parent.parent}"
        elif memory_limit and 4 * size > memory_limit:
            reason = f"two snapshots of {size:,} bytes would use more than half of the node's {memory_limit:,} bytes of memory"
        if not reason:
            return self.path / f"slot-{slot}.safetensors", ""
        folder = self._overflow()
        _make_private(folder)
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


def _make_private(node: Path) -> None:
    """The folders of a node and of its job, in a folder where everyone can create some: their names can be guessed."""
    for folder in (node.parent, node):
        make_private_folder(folder)


def node_folder(job: str, node: str, identity: str) -> SlotFolder:
    """``identity`` distinguishes jobs of the same name, also one that was started again; the job's secret token does.

    Else the new job would resume from the memory of the old one.
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
    if not _is_own_folder(folder.parent):
        return []
    try:
        return [SlotFolder(path) for path in sorted(folder.parent.iterdir()) if _is_own_folder(path)]
    except OSError:  # removed meanwhile
        return []


def sweep(base: Path = _MEMORY, now: float | None = None, older_than: float = _ABANDONED_AFTER_S) -> list[Path]:
    """Remove the snapshots of this user's jobs that were killed with all their agents, some time ago.

    ``base`` is shared with other users, who may name their things as they like: nothing of theirs is opened, and an error here
    ends nobody.
    """
    now = time.time() if now is None else now
    try:
        found = [base / name for name in os.listdir(base) if fnmatch.fnmatch(name, _JOB_FOLDERS)]
    except OSError as error:
        log.debug("%s is not swept: %s", base, error)
        return []
    removed = []
    for root in found:
        try:
            if _is_own_folder(root) and _is_abandoned(root, now - older_than):
                for node in siblings(root / "any"):
                    node.remove()
                removed.append(root)
        except OSError as error:
            log.debug("%s is not swept: %s", root, error)
    return removed


def _is_abandoned(root: Path, before: float) -> bool:
    """Nothing in it has changed since, and no agent holds it."""
    if max((path.lstat().st_mtime for path in root.rglob("*")), default=root.lstat().st_mtime) >= before:
        return False
    return not any(node.is_watched() for node in siblings(root / "any"))


def _is_own_folder(path: Path) -> bool:
    """A folder of this user's own; not a link to one."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "_"
