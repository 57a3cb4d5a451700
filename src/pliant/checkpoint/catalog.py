"""What checkpoints there are, in this machine's memory and on storage, and which is the newest one that is whole.

Sizes are compared here and every byte when it is read. A step counts when all parts of one cut are there, each from memory
or from storage.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pliant.checkpoint import manifest
from pliant.checkpoint.manifest import Cut, PartNote
from pliant.checkpoint.slots import SlotFolder, SlotSnapshot, siblings
from pliant.checkpoint.storage import Storage, open_storage
from pliant.core.errors import CorruptData
from pliant.core.nodes.environment import NodeEnvironment

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InMemory:
    """A part in a slot."""

    folder: Path
    snapshot: SlotSnapshot

    @property
    def part(self) -> int:
        return self.snapshot.part


@dataclass(frozen=True)
class Found:
    """A checkpoint that is whole, judging by sizes."""

    step: int
    source: str  # memory, storage or both
    path: str  # its folder on storage, where it is or will be
    directory: str
    world: int  # workers that took it
    parts: tuple[PartNote | InMemory, ...]


@dataclass
class StoredStep:
    """One step on storage, with what is wrong with it."""

    step: int
    cuts: list[list[PartNote]] = field(default_factory=list)  # complete ones of the right sizes, best first
    partial: list[PartNote] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    has_manifest: bool = False

    @property
    def status(self) -> str:
        if self.cuts:
            return "complete"
        return "broken" if self.problems else "incomplete"


def list_steps(storage: Storage) -> list[StoredStep]:
    """Every step on storage, oldest first."""
    steps = [(step, item.name) for item in storage.list() if (step := manifest.step_of(item.name)) is not None]
    return [inspect_step(storage, step) for step, _ in sorted(steps)]


def inspect_step(storage: Storage, step: int) -> StoredStep:
    stored = StoredStep(step)
    folder = manifest.step_folder(step)
    try:
        sizes = {item.name: item.size for item in storage.list(folder)}
    except CorruptData as error:
        stored.problems.append(error.message)
        return stored
    stored.has_manifest = manifest.MANIFEST in sizes
    if stored.has_manifest:
        try:
            notes = manifest.read_manifest(storage, step)
        except (CorruptData, IsADirectoryError) as error:
            stored.problems.append(_problem(storage, f"{folder}/{manifest.MANIFEST}", error))
        else:
            _judge(stored, notes or [], sizes, storage)
            stored.partial = stored.cuts[0] if stored.cuts else []
    if stored.cuts:
        return stored
    by_cut: dict[Cut, list[PartNote]] = defaultdict(list)
    for name in filter(manifest.is_note, sizes):
        try:
            note = manifest.read_note(storage, f"{folder}/{name}")
        except (CorruptData, FileNotFoundError, IsADirectoryError) as error:
            stored.problems.append(_problem(storage, f"{folder}/{name}", error))
            continue
        if note.step == step and f"{note.file}.json" == name:
            by_cut[note.cut].append(note)
    for notes in sorted(by_cut.values(), key=lambda notes: -max(note.time for note in notes)):
        if manifest.is_complete(notes):
            _judge(stored, notes, sizes, storage)
        stored.partial += notes
    return stored


def _problem(storage: Storage, path: str, error: CorruptData | OSError) -> str:
    """With the whole path, once: some errors name it already, or name it below the storage's root."""
    text = error.message if isinstance(error, CorruptData) else error.strerror or str(error)
    if text.startswith(storage.url):
        return text
    return f"{storage.url}/{text if text.startswith(path) else f'{path}: {text}'}"


def _judge(stored: StoredStep, notes: list[PartNote], sizes: dict[str, int], storage: Storage) -> None:
    problems = [problem for note in notes if (problem := _size_problem(note, sizes, storage))]
    if problems:
        stored.problems += [problem for problem in problems if problem not in stored.problems]
    elif notes:
        stored.cuts.append(sorted(notes, key=lambda note: note.part))


def _size_problem(note: PartNote, sizes: dict[str, int], storage: Storage) -> str:
    if note.file not in sizes:
        return f"{storage.url}/{note.path} is missing"
    if sizes[note.file] != note.bytes:
        return f"{storage.url}/{note.path} has {sizes[note.file]} bytes instead of {note.bytes}: it is truncated"
    return ""


def candidates(directory: str | os.PathLike[str], memory: bool | Path = True) -> list[Found]:
    """All that could be restored, best first: newest step, memory before storage."""
    storage = open_storage(directory)
    held = _in_memory(storage.url, memory)
    stored = list_steps(storage)
    for step in stored:
        for problem in step.problems:
            log.warning("checkpoint of step %d: %s", step.step, problem)
    found: list[Found] = []
    for cut, parts in held.items():
        on_storage = {n.part: n for s in stored if s.step == cut.step for n in s.partial if n.cut == cut}
        both: dict[int, PartNote | InMemory] = {**on_storage, **parts}
        if len(both) == cut.of and all(part in both for part in range(cut.of)):
            found.append(_found(storage, cut.step, [both[i] for i in range(cut.of)]))
    found += [_found(storage, step.step, notes) for step in stored for notes in step.cuts]
    order = {"memory": 0, "both": 1, "storage": 2}
    return sorted(found, key=lambda f: (-f.step, order[f.source]))


def find_latest(directory: str | os.PathLike[str], memory: bool | Path = True) -> Found | None:
    """The newest checkpoint that is whole.

    ``memory``: look into the slots of this node and its siblings; or a node's folder of slots.
    """
    found = candidates(directory, memory)
    return found[0] if found else None


def _found(storage: Storage, step: int, parts: Iterable[PartNote | InMemory]) -> Found:
    listed = tuple(parts)
    in_memory = sum(isinstance(part, InMemory) for part in listed)
    source = "memory" if in_memory == len(listed) else "both" if in_memory else "storage"
    first = listed[0]
    world = first.snapshot.world if isinstance(first, InMemory) else first.world
    return Found(step, source, f"{storage.url}/{manifest.step_folder(step)}", storage.url, world, listed)


def _in_memory(directory: str, memory: bool | Path) -> dict[Cut, dict[int, InMemory]]:
    given = NodeEnvironment.from_env(os.environ).snapshot_dir
    folder = memory if isinstance(memory, Path) else given if memory else None
    held: dict[Cut, dict[int, InMemory]] = defaultdict(dict)
    for node in siblings(folder) if folder is not None else []:
        for snapshot in node.snapshots():
            if snapshot.directory == directory and _is_whole(node, snapshot):
                held[snapshot.cut][snapshot.part] = InMemory(node.path, snapshot)
    return held


def _is_whole(node: SlotFolder, snapshot: SlotSnapshot) -> bool:
    try:
        return os.stat(snapshot.file).st_size == snapshot.bytes
    except OSError:
        log.warning("the snapshot of step %d in %s lost its data: %s", snapshot.step, node.path, snapshot.file)
        return False
