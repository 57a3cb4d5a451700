"""A checkpoint read back, by any number of workers, whatever number wrote it.

Every worker can read everything: it needs the whole state. Parts in this machine's memory are taken from there. What comes
from storage is compared with its checksums; a damaged checkpoint is named in the log and the one before it is used.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from pliant.checkpoint import manifest
from pliant.checkpoint.catalog import Found, InMemory, candidates
from pliant.checkpoint.layout import Layout
from pliant.checkpoint.manifest import PartNote
from pliant.checkpoint.part_bytes import PartBytes, Wanted, advise_huge_pages
from pliant.checkpoint.slots import SlotFolder
from pliant.checkpoint.state import Tensors, descend, dtype_named, tensor_names, unflatten
from pliant.checkpoint.storage import map_open_file, open_storage
from pliant.core.errors import CorruptData, NotFound, PliantError
from pliant.files.regular import open_regular

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restored:
    found: Found
    state: Any


def load(found: Found, *, below: str = "", verify: bool = True) -> Any:
    """The state, or what is below keys joined by dots, such as ``model``; then only those tensors are copied."""
    target: _Target | None = None
    for part in found.parts:
        with _opened(part, found) as source:
            note = part if verify and isinstance(part, PartNote) else None
            if note is not None:
                manifest.check_size(source.data, note, source.name)
            try:
                layout = manifest.parse(source.data, source.name)
                about = manifest.own_metadata(layout)
                if target is None:
                    target = _Target(about, below, source.name, sum(_size(part) for part in found.parts))
                wanted = target.take(layout, about, source.name)
            except PliantError:
                if note is not None:
                    manifest.check(source.data, note, source.name)  # if that is why, say where
                raise
            if note is None:
                source.copy(wanted)
            elif (damage := source.copy_checked(wanted, note.checksums, note.chunk)) is not None:
                raise manifest.damaged(source.data, source.name, damage)
    assert target is not None
    return unflatten(target.structure, target.finish(found))


def load_latest(directory: str | os.PathLike[str], memory: bool | Path = True) -> Restored | None:
    """The newest checkpoint that can be read; those that cannot are named in the log. None if there is none at all."""
    for found in candidates(directory, memory):
        try:
            return Restored(found, load(found))
        except (CorruptData, FileNotFoundError) as error:
            log.error("the checkpoint of step %d (%s) cannot be used: %s", found.step, found.source, error)
    return None


class _Target:
    """The tensors in the making. ``size``: bytes of all parts; tensors that would need more are not allocated."""

    def __init__(self, about: dict[str, Any], below: str, file: str, size: int) -> None:
        try:
            self.structure = descend(about["structure"], below)
            described = manifest.tensor_index(about, file)
            index = {name: (dtype_named(dtype), torch.Size(shape)) for name, (dtype, shape) in described.items()}
            wanted = set(tensor_names(self.structure))
            needed = sum(index[name][0].itemsize * prod(index[name][1]) for name in wanted)
            if needed > size:
                raise ValueError(f"tensors of {needed} bytes in parts of {size}")
            self.tensors: Tensors = {name: torch.empty(index[name][1], dtype=index[name][0]) for name in wanted}
            for tensor in self.tensors.values():
                advise_huge_pages(tensor.data_ptr(), tensor.nbytes)
        except KeyError as error:
            if below and "structure" in about:
                raise NotFound(f"the checkpoint has no entry {below!r}", hint=f"it has: {error.args[0]}") from None
            raise CorruptData(f"{file}: the structure of the state is corrupt: {error!r}") from None
        except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise CorruptData(f"{file}: the structure of the state is corrupt: {error!r:.500}") from None
        self._received: dict[str, list[tuple[int, int]]] = {name: [] for name in self.tensors}  # elements, from and to

    def take(self, layout: Layout, about: dict[str, Any], file: str) -> list[Wanted]:
        """Which bytes of this part go where."""
        found: list[Wanted] = []
        for entry in layout.entries:
            name, begin, end = manifest.slice_of(entry.name, about, file)
            if (tensor := self.tensors.get(name)) is None:
                continue
            end = tensor.numel() if end is None else end
            size = (end - begin) * tensor.itemsize
            if size != entry.end - entry.begin or not 0 <= begin <= end <= tensor.numel():
                raise CorruptData(f"{file}: tensor {entry.name} does not fit into {name} {tuple(tensor.shape)}")
            if size:
                found.append(Wanted(layout.data_begin + entry.begin, size, tensor.data_ptr() + begin * tensor.itemsize))
                self._received[name].append((begin, end))
        return found

    def finish(self, found: Found) -> Tensors:
        """Refuses tensors of which an element never came: it would be whatever was in that memory before."""
        for name, ranges in self._received.items():
            at = 0
            for begin, end in [*sorted(ranges), (self.tensors[name].numel(), 0)]:
                if begin > at:
                    raise CorruptData(f"the checkpoint {found.path} lacks elements {at} to {begin} of tensor {name}")
                at = max(at, end)
        return self.tensors


def _size(part: PartNote | InMemory) -> int:
    return part.snapshot.bytes if isinstance(part, InMemory) else part.bytes


@contextmanager
def _opened(part: PartNote | InMemory, found: Found) -> Iterator[PartBytes]:
    if isinstance(part, InMemory):
        folder, snapshot = SlotFolder(part.folder), part.snapshot
        with folder.reading(snapshot.slot):
            if folder.snapshot(snapshot.slot) != snapshot:
                raise CorruptData(f"the snapshot of step {snapshot.step} in {folder.path} has been overwritten")
            with _local(Path(snapshot.file), snapshot.file) as source:
                yield source
        return
    storage = open_storage(found.directory)
    name = f"{storage.url}/{part.path}"
    if (path := storage.local_path(part.path)) is None:
        yield PartBytes(memoryview(storage.open(part.path)), None, name)
        return
    with _local(path, name) as source:
        yield source


@contextmanager
def _local(path: Path, name: str) -> Iterator[PartBytes]:
    with open_regular(path) as file:
        yield PartBytes(memoryview(map_open_file(file)), file.fileno(), name)
