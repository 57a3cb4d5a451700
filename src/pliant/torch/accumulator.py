"""What this worker has computed of the step in progress: the gradients, losses and buffers of the units that are done.

It survives a broken world: the members of the next one tell each other which units they have, and compute only the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from pliant.torch.gradients.tree_sum import TreeSum
from pliant.torch.module_buffers import ModuleBuffers

LOSS_BITS = 32  # losses are added up in fixed point, so that every worker computes the same mean
MAX_LOSS = 1 << 24  # of one unit; larger ones are counted as lost


class StepAccumulator:
    def __init__(self, gradients: TreeSum, buffers: ModuleBuffers) -> None:
        self.gradients, self.buffers = gradients, buffers
        self.units: set[int] = set()  # those that are done
        self.loss = 0  # fixed point
        self.lost_losses = 0  # not finite, or too large

    def begin_step(self, params: Sequence[torch.nn.Parameter]) -> None:
        for param in params:
            param.grad = None  # also where it is no longer trained: optimizers would use its last gradient again
        self.buffers.begin_step()
        self.gradients.begin_step({number: param for number, param in enumerate(params) if param.requires_grad})
        self._clear()

    def begin_unit(self, unit: int, *, last: bool) -> None:
        self.gradients.begin_unit(unit, last=last)

    def add_loss(self, loss: float) -> None:
        if math.isfinite(loss) and abs(loss) < MAX_LOSS:
            self.loss += round(loss * (1 << LOSS_BITS))
        else:
            self.lost_losses += 1

    def end_unit(self, unit: int) -> None:
        self.buffers.end_unit(unit)
        self.units.add(unit)

    def skip_unit(self, unit: int) -> None:
        """A unit without records, at the end of an epoch."""
        self.gradients.skip_unit(unit)
        self.units.add(unit)

    def end_step(self) -> None:
        self.units.clear()

    def discard(self) -> None:
        """The state was replaced: nothing of this step counts."""
        self._clear()
        self.gradients.discard()
        self.buffers.discard()

    def _clear(self) -> None:
        self.units.clear()
        self.loss = self.lost_losses = 0


def mean_loss(fixed_point: int, lost: int) -> float:
    """The loss of a step from the sums over all workers."""
    return math.nan if lost else fixed_point / (1 << LOSS_BITS)
