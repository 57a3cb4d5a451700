"""Buffers such as batch-norm statistics: those of virtual worker 0 count, as with N static workers.

Every micro-batch starts from the buffers of the last committed step; only the result of unit 0 is kept. It travels as
raw bits in the step's control lane (others add zeros), so all workers hold the same buffers, bit for bit.

A module may change a buffer in place or replace it by another tensor; both are handled.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pliant.core.errors import InvalidRequest


class ModuleBuffers:
    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._slots: list[tuple[torch.nn.Module, str]] = []
        self._own: list[torch.Tensor] = []  # the tensors that were there when the step began
        self._before: list[torch.Tensor] = []  # and what they held
        self._of_unit_0: list[torch.Tensor] | None = None
        self._find()

    def begin_step(self) -> None:
        self._find()
        self._before = [b.detach().clone() for b in self._own]
        self._of_unit_0 = None

    @property
    def words(self) -> int:
        """int64 words in the lane."""
        return -(-self._bytes // 8)

    @torch.no_grad()
    def end_unit(self, unit: int) -> None:
        if unit == 0:
            self._of_unit_0 = [self._changed(at) for at in range(len(self._slots))]
        self._roll_back()

    def discard(self) -> None:
        """The state was replaced: nothing of this step's buffers counts."""
        self._of_unit_0 = None

    def put(self, lane: torch.Tensor) -> None:
        """Write the bits of unit 0's buffers, or nothing if another worker had that unit."""
        if self._of_unit_0 is None or not self._bytes:
            return
        raw = torch.cat([b.cpu().contiguous().reshape(-1).view(torch.uint8) for b in self._of_unit_0])
        lane.view(torch.uint8)[: self._bytes] = raw

    @torch.no_grad()
    def take(self, lane: torch.Tensor) -> None:
        at = 0
        raw = lane.view(torch.uint8)
        for buffer in self._own:
            size = buffer.numel() * buffer.element_size()
            # a copy, since a view of another type must start at a multiple of its size
            buffer.copy_(raw[at : at + size].clone().view(buffer.dtype).reshape(buffer.shape))
            at += size

    def state(self) -> dict[str, torch.Tensor]:
        """Those that the model's own state leaves out (``persistent=False``); the next step depends on them too."""
        saved = self._model.state_dict().keys()
        return {name: buffer for name, buffer in self._model.named_buffers() if name not in saved}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        for name, buffer in self._model.named_buffers():
            if name in state:
                buffer.copy_(state[name])

    # --- inside

    def _find(self) -> None:
        self._slots, self._own = [], []
        seen: set[int] = set()
        for module in self._model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None and id(buffer) not in seen:
                    seen.add(id(buffer))
                    self._slots.append((module, name))
                    self._own.append(buffer)
        self._bytes = sum(b.numel() * b.element_size() for b in self._own)

    def _changed(self, at: int) -> torch.Tensor:
        module, name = self._slots[at]
        now, own = module._buffers[name], self._own[at]
        if now is None or now.shape != own.shape or now.dtype != own.dtype:
            raise InvalidRequest(
                f"the buffer {name} of a {type(module).__name__} changed its shape or type during a step",
                hint="allocate buffers in their final shape before training",
            )
        return now.detach().clone()

    def _roll_back(self) -> None:
        for (module, name), own, before in zip(self._slots, self._own, self._before, strict=True):
            own.copy_(before)
            module._buffers[name] = own
