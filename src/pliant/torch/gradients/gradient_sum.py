"""How the gradients of all units become one: the contract of ``TreeSum`` (exact) and ``FloatSum`` (within rounding)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from pliant.torch.worlds.world import World


class GradientSum(Protocol):
    """Gradients gather locally, unit by unit, and survive a world that breaks."""

    def begin_step(self, params: Mapping[int, torch.nn.Parameter]) -> None:
        """``params``: those that are trained in this step, by their numbers among all."""

    def begin_round(self, world: World, held: Sequence[frozenset[int]]) -> None:
        """``held``: the units that each rank of this world brings to the step. Called once per step, and again after each break."""

    def begin_unit(self, unit: int, *, last: bool) -> None:
        """``last``: the last micro-batch of this worker in this step; its gradients may travel as they appear."""

    def begin_backward(self) -> None:
        """The backward pass of the unit begins."""

    def end_backward(self) -> None:
        """Its gradients are there."""

    def skip_unit(self, unit: int) -> None:
        """A unit without records has no gradients."""

    def used(self) -> list[int]:
        """Per parameter, how many of this worker's units used it."""

    def start(self) -> list[Any]:
        """Start the collectives that have not started yet; returns all that are in flight."""

    def reduce(self) -> None:
        """All workers' parts have arrived: add them up. May need further collectives."""

    def store(self, used: Sequence[int]) -> None:
        """The sums become ``param.grad``; a parameter that no unit used has none."""

    def abandon(self) -> None:
        """The world broke: buffers that were given to it are never written again."""

    def discard(self) -> None:
        """Forget this step's gradients: the state was replaced."""

    def close(self) -> None: ...
