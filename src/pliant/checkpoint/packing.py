"""A state as a header and one block of bytes, for sending it to a peer.

packed = pack(state)                         # nothing is copied yet
buffer = torch.empty(packed.nbytes, dtype=torch.uint8)
packed.copy_into(buffer)                     # send packed.header, then the buffer
...
buffer = torch.empty(data_bytes(header), dtype=torch.uint8)      # on the other side
state = views(header, buffer)                # tensors that lie in the buffer; unpack() for tensors of their own
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch

from pliant.checkpoint.copying import copy_tensors, view_at
from pliant.checkpoint.state import dtype_named, flatten, unflatten
from pliant.core.errors import CorruptData

_ALIGN = 64  # bytes


@dataclass(frozen=True)
class Packed:
    header: bytes
    tensors: list[torch.Tensor]  # the state's own; contiguous or not
    offsets: list[int]  # bytes
    nbytes: int

    def copy_into(self, buffer: torch.Tensor) -> None:
        """Into a contiguous uint8 tensor of ``nbytes`` in main memory."""
        if buffer.dtype is not torch.uint8 or buffer.numel() < self.nbytes or not buffer.is_contiguous():
            raise ValueError(f"a contiguous uint8 tensor of at least {self.nbytes} bytes is required")
        copy_tensors(buffer, zip(self.offsets, self.tensors, strict=True))


def pack(state: Any) -> Packed:
    structure, tensors = flatten(state)
    offsets, table, at = [], [], 0
    for name, tensor in tensors.items():
        offsets.append(at)
        table.append([name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), at])
        at += -(-tensor.nbytes // _ALIGN) * _ALIGN
    header = json.dumps({"structure": structure, "tensors": table, "bytes": at}, separators=(",", ":")).encode()
    return Packed(header, list(tensors.values()), offsets, at)


def data_bytes(header: bytes) -> int:
    """How large a buffer the other side needs."""
    return int(_parse(header)["bytes"])


def views(header: bytes, buffer: torch.Tensor) -> Any:
    """The state, its tensors lying in the buffer."""
    parsed = _parse(header)
    if buffer.numel() < parsed["bytes"]:
        raise CorruptData(f"a state of {parsed['bytes']} bytes does not fit into a buffer of {buffer.numel()}")
    try:
        tensors = {name: view_at(buffer, at, dtype_named(dtype), shape) for name, dtype, shape, at in parsed["tensors"]}
    except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise CorruptData(f"the header of a state is corrupt: {error}") from None
    return unflatten(parsed["structure"], tensors)


def unpack(header: bytes, buffer: torch.Tensor) -> Any:
    """The state with tensors of its own, which outlive the buffer."""
    size = data_bytes(header)
    own = torch.empty(size, dtype=torch.uint8)
    copy_tensors(own, [(0, buffer[:size].contiguous())])
    return views(header, own)


def _parse(header: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(header)
        known = {"structure", "tensors", "bytes"} <= parsed.keys() and isinstance(parsed["tensors"], list)
        if known and type(parsed["bytes"]) is int and parsed["bytes"] >= 0:
            return dict(parsed)
    except (ValueError, AttributeError, TypeError, RecursionError):
        pass
    raise CorruptData("the header of a state is corrupt")
