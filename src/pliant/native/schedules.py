"""The learning rate over time, as the model file says it.

``learning_rate_schedule(optimizer)`` gives a scheduler of torch, which is stepped once per update. With a parameter of any other
name it is a function of the number of updates so far, from 0, that gives the rate itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.native.contract import ModelFile


def rate_function(file: ModelFile) -> Callable[[int], float] | None:
    """The schedule as a function of the step; None if there is none, or if it is a scheduler of torch."""
    function = file.get("learning_rate_schedule")
    if function is None or "optimizer" in inspect.signature(function).parameters:
        return None
    rate: Callable[[int], float] = function
    return rate


def make_scheduler(file: ModelFile, optimizer: Any) -> Any:
    """What a Trainer takes as its scheduler, or None."""
    function = file.get("learning_rate_schedule")
    if function is None:
        return None
    optimizers = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
    if (rate := rate_function(file)) is not None:
        return [Rate(one, rate) for one in optimizers]
    made = file.call(function, optimizer)
    several = list(made) if isinstance(made, list | tuple) else [made]
    if not all(hasattr(one, "step") and hasattr(one, "state_dict") for one in several):
        raise InvalidRequest(
            f"{file.where('learning_rate_schedule')}: it must give a torch.optim.lr_scheduler; it gives {type(made).__name__}"
        )
    return several


class Rate:
    """A scheduler that sets the rate to ``function(updates so far)``."""

    def __init__(self, optimizer: Any, function: Callable[[int], float]) -> None:
        self._optimizer = optimizer
        self._function = function
        self._steps = 0
        self._set()

    def step(self) -> None:
        self._steps += 1
        self._set()

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps = state["steps"]
        self._set()

    def _set(self) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = float(self._function(self._steps))
