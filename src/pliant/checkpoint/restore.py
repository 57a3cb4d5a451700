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
from pliant.checkpoint.copying import Move, move
from pliant.checkpoint.layout import Layout
from pliant.checkpoint.manifest import PartNote
from pliant.checkpoint.slots import SlotFolder
from pliant.checkpoint.state import Tensors, descend, dtype_named, tensor_names, unflatten
from pliant.checkpoint.storage import map_file, open_storage
from pliant.core.errors import CorruptData, NotFound

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restored:
    found: Found
    state: Any


def load(found: Found, *, below: str = "", verify: bool = True) -> Any:
    """The state, or what is below keys joined by dots, such as ``model``; then only those tensors are copied."""
    target: _Target | None = None
    for part in found.parts:
        with _opened(part, found, verify) as (data, name):
            layout = manifest.parse(data, name)
            about = manifest.own_metadata(layout)
            if target is None:
                target = _Target(about, below, name, sum(_size(part) for part in found.parts))
            target.take(data, layout, about, name)
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
        except KeyError as error:
            if below and "structure" in about:
                raise NotFound(f"the checkpoint has no entry {below!r}", hint=f"it has: {error.args[0]}") from None
            raise CorruptData(f"{file}: the structure of the state is corrupt: {error!r}") from None
        except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise CorruptData(f"{file}: the structure of the state is corrupt: {error!r:.500}") from None
        self._received: dict[str, list[tuple[int, int]]] = {name: [] for name in self.tensors}  # elements, from and to

    def take(self, data: memoryview, layout: Layout, about: dict[str, Any], file: str) -> None:
        moves: list[Move] = []
        base = _address(data) + layout.data_begin
        for entry in layout.entries:
            name, begin, end = manifest.slice_of(entry.name, about, file)
            if (tensor := self.tensors.get(name)) is None:
                continue
            end = tensor.numel() if end is None else end
            size = (end - begin) * tensor.itemsize
            if size != entry.end - entry.begin or not 0 <= begin <= end <= tensor.numel():
                raise CorruptData(f"{file}: tensor {entry.name} does not fit into {name} {tuple(tensor.shape)}")
            if size:
                moves.append((tensor.data_ptr() + begin * tensor.itemsize, base + entry.begin, size))
                self._received[name].append((begin, end))
        move(moves)

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
def _opened(part: PartNote | InMemory, found: Found, verify: bool) -> Iterator[tuple[memoryview, str]]:
    if isinstance(part, InMemory):
        folder, snapshot = SlotFolder(part.folder), part.snapshot
        with folder.reading(snapshot.slot):
            if folder.snapshot(snapshot.slot) != snapshot:
                raise CorruptData(f"the snapshot of step {snapshot.step} in {folder.path} has been overwritten")
            yield memoryview(map_file(Path(snapshot.file))), snapshot.file
        return
    storage = open_storage(found.directory)
    data, name = memoryview(storage.open(part.path)), f"{storage.url}/{part.path}"
    if verify:
        manifest.check(data, part, name)
    yield data, name


def _address(data: memoryview) -> int:
    return torch.frombuffer(data, dtype=torch.uint8).data_ptr()
