"""Everything that the next step depends on: the model, the optimizers, exponents, buffers, and the position.

It is what a checkpoint holds and what a joiner receives. A state fits only a training of the same shape (virtual workers, units,
seed) and, within a loop, of the same step plan.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from pliant.core.errors import InvalidRequest
from pliant.torch.accumulator import StepAccumulator
from pliant.torch.plan import StepPlan
from pliant.torch.position import Position
from pliant.torch.update import Update


class TrainingState:
    def __init__(
        self,
        model: torch.nn.Module,
        update: Update,
        accumulator: StepAccumulator,
        *,
        virtual_workers: int,
        accumulate: int,
        seed: int,
    ) -> None:
        self.model, self.update, self.accumulator = model, update, accumulator
        self.virtual_workers = virtual_workers
        self.accumulate = accumulate
        self.seed = seed
        self.position = Position()
        self.plan: StepPlan | None = None
        self._plan_loop = -1  # the loop that the plan is of
        # Whether this is the state that the world's members share, or one of a checkpoint; else it is only how this
        # process initialized its model, and is replaced by any that is shared.
        self.is_shared = False

    @property
    def units(self) -> int:
        return self.virtual_workers * self.accumulate

    def begin_loop(self, plan: StepPlan, loop: int) -> None:
        self.plan, self._plan_loop = plan, loop

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            **self.update.state(),
            "sum": self.accumulator.gradients.state(),
            "buffers": self.accumulator.buffers.state(),
            "position": self.position.state(),
            "plan": asdict(self.plan) if self.plan is not None else None,
            "shape": self._shape(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["shape"] != self._shape():
            raise InvalidRequest(f"this state is of a training with {state['shape']}; here it is {self._shape()}")
        plan = asdict(self.plan) if self.plan is not None else None
        if plan is not None and state["position"]["loop"] == self._plan_loop and state["plan"] != plan:
            raise InvalidRequest(f"this state is of a training on {state['plan']}; here it is {plan}")
        self.model.load_state_dict(state["model"])
        self.update.load_state(state)
        self.accumulator.gradients.load_state(state["sum"])
        self.accumulator.buffers.load_state(state["buffers"])
        self.position.load_state(state["position"])
        self.is_shared = True
        self.accumulator.discard()

    def _shape(self) -> dict[str, int]:
        return {"virtual_workers": self.virtual_workers, "units": self.units, "seed": self.seed}
