"""Gradients travel in buckets: flat buffers of some megabytes, each with whole parameters of one type.

The order is that in which a backward pass finishes them (the last parameters first), and the same on every worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Bucket:
    places: tuple[int, ...]  # of its parameters in the list of all
    offsets: tuple[int, ...]
    numel: int
    dtype: torch.dtype


def make_buckets(params: Sequence[torch.nn.Parameter], most_bytes: int) -> list[Bucket]:
    buckets: list[Bucket] = []
    open_places: dict[torch.dtype, list[int]] = {}

    def close(dtype: torch.dtype) -> None:
        places = open_places.pop(dtype, [])
        if places:
            sizes = [params[i].numel() for i in places]
            offsets = [sum(sizes[:n]) for n in range(len(sizes))]
            buckets.append(Bucket(tuple(places), tuple(offsets), sum(sizes), dtype))

    filled: dict[torch.dtype, int] = {}
    for place in reversed(range(len(params))):
        param = params[place]
        size = param.numel() * param.element_size()
        if filled.get(param.dtype, 0) + size > most_bytes and open_places.get(param.dtype):
            close(param.dtype)
            filled[param.dtype] = 0
        open_places.setdefault(param.dtype, []).append(place)
        filled[param.dtype] = filled.get(param.dtype, 0) + size
    for dtype in list(open_places):
        close(dtype)
    return buckets


def slices(bucket: Bucket, flat: torch.Tensor, params: Sequence[torch.nn.Parameter]) -> list[torch.Tensor]:
    """The bucket's buffer as one view per parameter, in its shape."""
    return [
        flat[offset : offset + params[place].numel()].view(params[place].shape)
        for place, offset in zip(bucket.places, bucket.offsets, strict=True)
    ]
