"""Sending the state of training from the leader of a new world to those who lack it.

Only they take part, in a group of their own: survivors that have the newest state exchange nothing. A small header (JSON:
names, types, shapes, numbers) goes first, then the tensors' bytes in blocks. Nothing is pickled.
"""

from __future__ import annotations

from typing import Any

import torch

from pliant.checkpoint.packing import pack, views
from pliant.torch.worlds.world import World

BLOCK = 64 << 20  # bytes


def send_state(group: World, state: dict[str, Any]) -> None:
    """From rank 0 of the group to all others."""
    packed = pack(state)
    header = torch.frombuffer(bytearray(packed.header), dtype=torch.uint8)
    data = torch.empty(packed.nbytes, dtype=torch.uint8)
    packed.copy_into(data)
    lengths = torch.tensor([header.numel(), data.numel()], dtype=torch.int64)
    group.finish([group.broadcast(part) for part in (lengths, header, *_blocks(data))])


def receive_state(group: World) -> dict[str, Any]:
    lengths = torch.zeros(2, dtype=torch.int64)
    group.finish([group.broadcast(lengths)])
    header_size, data_size = (int(n) for n in lengths)
    header = torch.empty(header_size, dtype=torch.uint8)
    data = torch.empty(data_size, dtype=torch.uint8)
    group.finish([group.broadcast(part) for part in (header, *_blocks(data))])
    state: dict[str, Any] = views(header.numpy().tobytes(), data)
    return state


def _blocks(data: torch.Tensor) -> list[torch.Tensor]:
    return [data[at : at + BLOCK] for at in range(0, data.numel(), BLOCK)]
