"""From the distinct ids of a batch to the rows that a model computes with, and back: one pass each way, without a sort.

``Places`` says which distinct id each given id is. It depends on the ids only, so tables that share a feature, and the fetch of a
batch's rows before it, share it: the last one is remembered for as long as its tensor lives and is not changed.

Neighbours: ``embedding`` (the modules), ``pliant.ps.compiled.merging`` (the loops).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from pliant.ps.compiled.merging import add_rows, distinct, take_rows
from pliant.ps.payloads import Ids


@dataclass(frozen=True)
class Places:
    """``ids``: the distinct ones, in the order in which they came, without the padding. ``numbers``: for each given id its place
    among them, -1 for the padding."""

    ids: Ids
    numbers: npt.NDArray[np.int32]


@dataclass(frozen=True)
class _Remembered:
    tensor: weakref.ref[torch.Tensor]
    version: int
    padding: int | None
    places: Places


_last: _Remembered | None = None


def places_of(ids: torch.Tensor, padding: int | None) -> Places:
    """Of integer ids of any shape."""
    global _last
    if ids.is_inference():  # has no version
        return _find(ids, padding)
    last = _last
    if last is not None and last.tensor() is ids and last.version == ids._version and last.padding == padding:
        return last.places
    places = _find(ids, padding)
    _last = _Remembered(weakref.ref(ids), ids._version, padding, places)
    return places


def _find(ids: torch.Tensor, padding: int | None) -> Places:
    flat = ids.detach().to("cpu", torch.int64).contiguous().reshape(-1).numpy()
    return Places(*distinct(flat, padding))


def look_up(rows: torch.Tensor, numbers: npt.NDArray[np.int32]) -> torch.Tensor:
    """Row ``numbers[i]`` at i, zeros where it is -1."""
    if rows.device.type == "cpu" and rows.dtype is torch.float32 and not torch.compiler.is_compiling():
        out: torch.Tensor = _LookUp.apply(rows, numbers)  # type: ignore[no-untyped-call]
        return out
    places = torch.from_numpy(numbers.astype(np.int64)).to(rows.device)
    there = (places >= 0).unsqueeze(1)
    if not rows.shape[0]:
        return rows.new_zeros(numbers.size, rows.shape[1])
    return F.embedding(places.clamp_min(0), rows) * there


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, numbers: npt.NDArray[np.int32]) -> torch.Tensor:
        ctx.numbers, ctx.count = numbers, rows.shape[0]
        out = torch.empty(numbers.size, rows.shape[1])
        take_rows(numbers, rows.detach().contiguous().numpy(), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _AddUp.apply(gradients[0], ctx.numbers, ctx.count), None  # type: ignore[no-untyped-call]


class _AddUp(torch.autograd.Function):
    """The other way round: rows of the same number are added up."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, numbers: npt.NDArray[np.int32], count: int) -> torch.Tensor:
        ctx.numbers = numbers
        out = torch.zeros(count, rows.shape[1])
        add_rows(numbers, rows.detach().contiguous().numpy(), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _LookUp.apply(gradients[0], ctx.numbers), None, None  # type: ignore[no-untyped-call]
