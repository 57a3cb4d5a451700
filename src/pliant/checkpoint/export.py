"""A checkpoint, or the model in it, as one plain file: a safetensors file or what ``torch.save`` writes of a state dict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from pliant.checkpoint import layout
from pliant.checkpoint.catalog import Found
from pliant.checkpoint.restore import load
from pliant.checkpoint.snapshot import DTYPES
from pliant.checkpoint.storage import LocalStorage
from pliant.core.errors import InvalidRequest
from pliant.files.atomic import AtomicFile


def export(found: Found, to: Path, prefix: str = "model") -> int:
    """Gives the number of tensors. ``prefix``: the keys to the part that is wanted, joined by dots; empty: everything."""
    if to.suffix not in (".safetensors", ".pt", ".pth"):
        raise InvalidRequest(f"{to} must end in .safetensors or .pt", hint="the suffix selects the format")
    state = load(found, below=prefix)
    tensors = dict(_named(state, ""))
    if not tensors:
        raise InvalidRequest(f"no tensors under {prefix!r}", hint="list the names with `pliant checkpoint inspect`")
    if to.suffix == ".safetensors":
        _write_safetensors(tensors, to)
    else:
        with AtomicFile(to) as file:
            torch.save(state, file)
    return len(tensors)


def _named(state: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors only; a safetensors file holds nothing else."""
    if isinstance(state, torch.Tensor):
        yield name or "tensor", state
    elif isinstance(state, dict | list | tuple):
        for key, item in state.items() if isinstance(state, dict) else enumerate(state):
            yield from _named(item, f"{name}.{key}" if name else str(key))


def _write_safetensors(tensors: dict[str, torch.Tensor], to: Path) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise InvalidRequest(
                f"{name} has type {tensor.dtype}, which safetensors does not support", hint="export to .pt"
            )
    placed = layout.arrange(layout.Entry(n, DTYPES[t.dtype], tuple(t.shape)) for n, t in tensors.items())
    header = layout.encode(placed, {"format": "pt"})
    data = (_bytes(tensors[entry.name]) for entry in placed if entry.nbytes)
    LocalStorage(to.parent).put(to.name, (header, *data), len(header) + sum(entry.nbytes for entry in placed))


def _bytes(tensor: torch.Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data
