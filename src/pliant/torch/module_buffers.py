"""Buffers such as batch-norm statistics: those of virtual worker 0 count, as with N static workers.

Every micro-batch starts from the buffers of the last committed step; only what unit 0 made of them is kept. It travels as
raw bits in the step's control lane (others add zeros), so all workers hold the same buffers, bit for bit.
"""

from __future__ import annotations

import torch


class ModuleBuffers:
    def __init__(self, model: torch.nn.Module) -> None:
        seen: set[int] = set()
        self._buffers = [b for b in model.buffers() if not (id(b) in seen or seen.add(id(b)))]  # type: ignore[func-returns-value]
        self._bytes = sum(b.numel() * b.element_size() for b in self._buffers)
        self.words = -(-self._bytes // 8)  # int64 words in the lane
        self._before: list[torch.Tensor] = []
        self._of_unit_0: list[torch.Tensor] | None = None

    def begin_step(self) -> None:
        self._before = [b.detach().clone() for b in self._buffers]
        self._of_unit_0 = None

    @torch.no_grad()
    def end_unit(self, unit: int) -> None:
        if unit == 0:
            self._of_unit_0 = [b.detach().clone() for b in self._buffers]
        self._roll_back()

    def forget(self) -> None:
        """The state was replaced, or the step is computed again: nothing of this step's buffers counts."""
        self._of_unit_0 = None

    @torch.no_grad()
    def _roll_back(self) -> None:
        for buffer, before in zip(self._buffers, self._before, strict=True):
            buffer.copy_(before)

    def put(self, lane: torch.Tensor) -> None:
        """Write the bits of unit 0's buffers, or nothing if another worker had that unit."""
        if self._of_unit_0 is None or not self.words:
            return
        raw = torch.cat([b.cpu().contiguous().reshape(-1).view(torch.uint8) for b in self._of_unit_0])
        lane.view(torch.uint8)[: self._bytes] = raw

    @torch.no_grad()
    def take(self, lane: torch.Tensor) -> None:
        at = 0
        raw = lane.view(torch.uint8)
        for buffer in self._buffers:
            size = buffer.numel() * buffer.element_size()
            # a copy, since a view of another type must start at a multiple of its size
            buffer.copy_(raw[at : at + size].clone().view(buffer.dtype).reshape(buffer.shape))
            at += size
