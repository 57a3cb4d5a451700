"""One part of a state, copied into a slot: what goes where, and the copy itself."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pliant.checkpoint import layout
from pliant.checkpoint.copying import copy_tensors
from pliant.checkpoint.layout import Entry
from pliant.checkpoint.manifest import FORMAT, METADATA
from pliant.checkpoint.slicing import TensorSize, TensorSlice, divide
from pliant.checkpoint.state import flatten
from pliant.checkpoint.storage import reserve

DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.float32: "F32",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float64: "F64",
}
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14


@dataclass(frozen=True)
class PartPlan:
    """What one worker writes of a state."""

    entries: list[Entry]  # placed
    sources: list[torch.Tensor]  # of the entries
    metadata: dict[str, Any]
    digest: str  # of names, types and shapes of all tensors

    @property
    def nbytes(self) -> int:
        return self.entries[-1].end if self.entries else 0

    def header(self, room: int, **more: Any) -> bytes:
        metadata = json.dumps({"format": FORMAT, **more, **self.metadata}, separators=(",", ":"))
        return layout.encode(self.entries, {"format": "pt", METADATA: metadata}, room)


def plan_part(state: Any, part: int, of: int) -> PartPlan:
    structure, tensors = flatten(state)
    index = {name: [str(t.dtype).removeprefix("torch."), list(t.shape)] for name, t in tensors.items()}
    digest = hashlib.sha256(json.dumps([of, index]).encode()).hexdigest()[:16]
    extents = [TensorSize(name, t.itemsize, t.numel()) for name, t in tensors.items()]
    entries: dict[str, tuple[Entry, torch.Tensor]] = {}
    slices: dict[str, list[Any]] = {}
    for part_slice in divide(extents, of)[part]:
        tensor = tensors[part_slice.name]
        name = part_slice.name
        if not part_slice.whole:
            name = f"{part_slice.name}[{part_slice.begin}:{part_slice.end}]"
            while name in index:
                name += "~"
            slices[name] = [part_slice.name, part_slice.begin, part_slice.end]
        entries[name] = _entry(name, tensor, part_slice)
    placed = layout.arrange(entry for entry, _ in entries.values())
    metadata: dict[str, Any] = {"slices": slices}
    if part == 0:
        metadata |= {"tensors": index, "structure": structure}
    return PartPlan(placed, [entries[entry.name][1] for entry in placed], metadata, digest)


def _entry(name: str, tensor: torch.Tensor, part_slice: TensorSlice) -> tuple[Entry, torch.Tensor]:
    source = tensor if part_slice.whole else tensor.reshape(-1)[part_slice.begin : part_slice.end]
    if tensor.dtype not in DTYPES:  # complex and the rarest: as bytes, their type is in the structure
        source = source.contiguous().reshape(-1).view(torch.uint8)
    return Entry(name, DTYPES[source.dtype], tuple(source.shape)), source


class SlotBuffer:
    """The memory of one slot, mapped once and kept, so that a later copy meets no page fault."""

    def __init__(self) -> None:
        self.file: Path | None = None
        self._bytes: torch.Tensor = torch.empty(0, dtype=torch.uint8)
        self._room = 0  # of the header; kept while it suffices, so that the data stays where it is

    def header(self, plan: PartPlan, **more: Any) -> bytes:
        header = plan.header(self._room, **more)
        self._room = len(header)
        return header

    def ensure(self, file: Path, size: int) -> None:
        """Memory for ``size`` bytes; raises OSError if there is none."""
        if file == self.file and size == self._bytes.numel() and file.exists():
            return
        self.file, self._bytes = None, torch.empty(0, dtype=torch.uint8)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, size)
            reserve(descriptor, size)  # without it a full /dev/shm would kill the process at the copy
            mapped = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self.file, self._bytes = file, torch.frombuffer(mapped, dtype=torch.uint8)
        try:
            mapped.madvise(_POPULATE_WRITE)
        except OSError:
            return  # an older kernel: the first copy pays

    def fill(self, header: bytes, plan: PartPlan) -> None:
        """The stall of a snapshot. ``ensure`` came before."""
        copy_tensors(self._bytes, [(0, torch.frombuffer(bytearray(header), dtype=torch.uint8))])
        sources = zip((entry.begin for entry in plan.entries), plan.sources, strict=True)
        copy_tensors(self._bytes[len(header) :], sources)
