"""How the gradients of all units become one: the contract of ``FloatSum`` (fast) and ``ExactSum`` (exact to the last bit)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from pliant.torch.worlds.world import World

FITS, MISFIT, NOT_FINITE = 0, 1, 1 << 40  # what units report; the sum is the same for all workers


class GradientSum(Protocol):
    """Gradients gather locally, unit by unit; what travels is a copy, so a world that breaks costs no gradient."""

    def begin_step(self, params: Mapping[int, torch.nn.Parameter]) -> None:
        """``params``: those that are trained in this step, by their numbers among all."""

    def begin_unit(self, world: World, *, last: bool) -> None:
        """``last``: the last micro-batch of this worker in this step; its gradients may travel as they appear."""

    def end_unit(self) -> None:
        """Add this micro-batch's gradients."""

    def used(self) -> list[int]:
        """Per parameter, how many of this worker's units used it."""

    def flags(self) -> int:
        """The sum of ``FITS``, ``MISFIT`` and ``NOT_FINITE`` over this worker's units."""

    def start(self, world: World) -> list[Any]:
        """Start the collectives that have not started yet; returns all that are in flight."""

    def calibrate(self, world: World) -> None:
        """After a ``MISFIT``: agree on exponents that fit this step's gradients."""

    def store(self, used: Sequence[int], *, finite: bool = True) -> None:
        """The sums become ``param.grad``; a parameter that no unit used has none."""

    def abandon(self) -> None:
        """The world broke: buffers that were given to it are never used again."""

    def discard(self) -> None:
        """Forget this step's gradients; they are computed again."""

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: dict[str, Any]) -> None: ...

    def close(self) -> None: ...
