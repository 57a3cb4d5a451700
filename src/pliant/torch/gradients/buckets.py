"""Gradients travel in buckets: flat buffers of some megabytes, each with whole parameters of one type.

The order is that in which a backward pass finishes them (the last parameters first), and the same on every worker. Each
parameter begins where a vector instruction likes it, as a tensor of its own would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

ALIGNMENT = 16  # elements, 64 bytes of the smallest type that is added up


@dataclass(frozen=True)
class Bucket:
    params: tuple[int, ...]  # numbers of its parameters in the list of all
    offsets: tuple[int, ...]
    numel: int
    dtype: torch.dtype


def make_buckets(params: Sequence[torch.Tensor], max_bytes: int) -> list[Bucket]:
    buckets: list[Bucket] = []
    open_numbers: dict[torch.dtype, list[int]] = {}

    def close(dtype: torch.dtype) -> None:
        numbers = open_numbers.pop(dtype, [])
        if numbers:
            sizes = [_aligned(params[i].numel()) for i in numbers]
            offsets = [sum(sizes[:n]) for n in range(len(sizes))]
            buckets.append(Bucket(tuple(numbers), tuple(offsets), sum(sizes), dtype))

    filled: dict[torch.dtype, int] = {}
    for number in reversed(range(len(params))):
        param = params[number]
        size = _aligned(param.numel()) * param.element_size()
        if filled.get(param.dtype, 0) + size > max_bytes and open_numbers.get(param.dtype):
            close(param.dtype)
            filled[param.dtype] = 0
        open_numbers.setdefault(param.dtype, []).append(number)
        filled[param.dtype] = filled.get(param.dtype, 0) + size
    for dtype in list(open_numbers):
        close(dtype)
    return buckets


def layout_of(params: Sequence[torch.Tensor]) -> list[tuple[int, torch.Size, torch.dtype]]:
    """What decides their buckets: a program may replace a parameter, or its type and shape (``model.double()``)."""
    return [(id(param), param.shape, param.dtype) for param in params]


def holders(flat: torch.Tensor) -> int:
    """Tensors that use its memory, itself among them: more than before, if the program keeps a gradient that is a view of it."""
    return torch._C._storage_Use_Count(flat.untyped_storage()._cdata) - 1  # that of the argument


def slices(bucket: Bucket, flat: torch.Tensor, params: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The bucket's buffer as one view per parameter, in its shape."""
    return [
        flat[offset : offset + params[number].numel()].view(params[number].shape)
        for number, offset in zip(bucket.params, bucket.offsets, strict=True)
    ]


def _aligned(numel: int) -> int:
    return -(-numel // ALIGNMENT) * ALIGNMENT
