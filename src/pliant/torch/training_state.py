"""Everything that the next step depends on: the model, the optimizers, buffers, and the position.

It is what a checkpoint holds and what a joiner receives. A state fits only a training of the same shape (virtual workers, units,
seed) and, within a loop, on the same terms (``loop_terms``). A checkpoint of a loop that ended can be *extended*: the loop is
continued if it is longer now.
"""

from __future__ import annotations

from typing import Any

import torch

from pliant.torch.accumulator import StepAccumulator
from pliant.torch.loop_terms import (
    LENGTH,
    Terms,
    checkpoint_mismatch,
    differing,
    disagreement,
    saved_terms,
    steps_of,
    terms_of,
)
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
        self.max_steps: int | None = None
        self._plan_loop = -1  # the loop that the plan is of
        self._loaded_terms: Terms | None = None  # of the loop in which the loaded checkpoint was taken
        self._loaded_loop = -1  # that loop; -1: the checkpoint does not say
        # Whether this is the state that the world's members share, or one of a checkpoint; else it is only how this
        # process initialized its model, and is replaced by any that is shared.
        self.is_shared = False

    @property
    def units(self) -> int:
        return self.virtual_workers * self.accumulate

    @property
    def limit(self) -> int:
        """Steps of the current loop."""
        assert self.plan is not None
        return steps_of(self.terms, self.units)

    @property
    def terms(self) -> dict[str, int]:
        assert self.plan is not None
        return terms_of(self.plan, self.max_steps)

    def begin_loop(self, plan: StepPlan, loop: int, max_steps: int | None) -> None:
        self.plan, self._plan_loop, self.max_steps = plan, loop, max_steps
        if self._loaded_terms is not None and loop == self._loaded_loop == self.position.loop:
            self._check_terms(self._loaded_terms)

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            **self.update.state(),
            "buffers": self.accumulator.buffers.state(),
            "position": self.position.state(),
            "terms": self.terms if self.plan is not None else None,
            "terms_loop": self._plan_loop,
            "shape": self._shape(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Of a checkpoint: the current loop may be longer or shorter than it was to be then."""
        if state["shape"] != self._shape():
            raise checkpoint_mismatch(state["shape"], self._shape())
        terms = saved_terms(state)
        if self.plan is not None and terms is not None and state["position"]["loop"] == self._plan_loop:
            self._check_terms(terms)
        self._load(state)
        self._loaded_terms, self._loaded_loop = terms, state.get("terms_loop", -1)

    def extend(self) -> bool:
        """Continue the loop that had ended when the checkpoint was taken, if it is longer now; True if it is.

        A checkpoint of a later loop has that loop's terms, which say nothing about this one.
        """
        loaded = self._loaded_terms
        if loaded is None or self._loaded_loop != self._plan_loop or self.position.loop != self._plan_loop + 1:
            return False
        if differing(loaded, self.terms, LENGTH):
            return False
        if self.limit <= steps_of(loaded, self.units):
            return False
        self.position.reopen_loop()
        return True

    def receive(self, state: dict[str, Any], sender: str, receiver: str) -> None:
        """Of another member of the world, which trains on the same terms."""
        if state["shape"] != self._shape():
            raise disagreement({sender: state["shape"], receiver: self._shape()})
        if (
            self.plan is not None
            and state["position"]["loop"] == self._plan_loop
            and differing(state["terms"], self.terms)
        ):
            raise disagreement({sender: state["terms"], receiver: self.terms})
        self._load(state)

    def _check_terms(self, saved: Terms) -> None:
        """The current loop gives the positions of a checkpoint the same meaning."""
        if differing(saved, self.terms, LENGTH):
            fixed = {name: value for name, value in saved.items() if name not in LENGTH}
            raise checkpoint_mismatch(fixed, self.terms)

    def _load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.update.load_state(state)
        self.accumulator.buffers.load_state(state["buffers"])
        self.position.load_state(state["position"])
        self.is_shared = True
        self.accumulator.discard()

    def _shape(self) -> dict[str, int]:
        return {"virtual_workers": self.virtual_workers, "units": self.units, "seed": self.seed}
