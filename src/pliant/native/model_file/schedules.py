"""The learning rate over time, as the model file defines it.

``learning_rate_schedule(optimizer)`` returns a scheduler of torch, which is stepped once per update. With a parameter of any other
name it is a function of the number of updates so far, from 0, that returns the rate itself.

Parameter servers know the rate that an optimizer began with; ``ServerRates`` computes the factor of each update.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pliant.core.errors import InvalidRequest
from pliant.native.model_file.contract import ModelFile


def rate_function(file: ModelFile) -> Callable[[int], float] | None:
    """The schedule as a function of the step; None if there is none, or if it is a scheduler of torch."""
    function = file.get("learning_rate_schedule")
    if function is None or "optimizer" in inspect.signature(function).parameters:
        return None

    def rate(update: int) -> float:
        made = file.call(function, update)
        where = file.where("learning_rate_schedule")
        try:
            value = float(made)
        except (TypeError, ValueError):
            raise InvalidRequest(f"{where}: it must return the rate as a number; it returned {made!r:.40}") from None
        if not 0 <= value < float("inf"):
            raise InvalidRequest(f"{where}: the learning rate of update {update} is {value}")
        return value

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
            f"{file.where('learning_rate_schedule')}: it must return a torch.optim.lr_scheduler; it returned {type(made).__name__}"
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
            group["lr"] = self._function(self._steps)


class ServerRates:
    """The factors of an update's learning rates: one for each group of the optimizers, in their order.

    A scheduler of torch can only be stepped, so the updates before are gone through first; asked for an earlier one, it restarts.
    It has an optimizer of its own, which never steps.
    """

    def __init__(self, file: ModelFile, model: Any, bases: Sequence[float]) -> None:
        """``bases``: the rate of each group as the servers know it."""
        self._file = file
        self._model = model
        self._bases = list(bases)
        self._function = rate_function(file)
        self._begin()
        for update in range(2):
            self(update)  # what is unsupported raises before training starts

    def __call__(self, update: int) -> list[float]:
        if self._function is not None:
            rates = [self._function(update)] * len(self._bases)
        else:
            if update < self._at:
                self._begin()
            while self._at < update:
                self._step()
            rates = [_number(group["lr"]) for group in self._groups]
        for rate in rates:
            if not 0 <= rate < float("inf"):
                raise InvalidRequest(f"{self._where}: the learning rate of update {update} is {rate}")
        return [rate / base for rate, base in zip(rates, self._bases, strict=True)]

    @property
    def _where(self) -> str:
        return self._file.where("learning_rate_schedule")

    def _begin(self) -> None:
        self._at = 0
        if self._function is not None:
            return
        made = self._file.make_optimizer(self._model)
        optimizers = list(made) if isinstance(made, list | tuple) else [made]
        self._groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        self._others = [_others(group) for group in self._groups]
        self._schedulers = make_scheduler(self._file, made)
        for scheduler in self._schedulers:
            if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                raise InvalidRequest(
                    f"{self._where}: ReduceLROnPlateau depends on a metric; parameter servers need a rate that "
                    f"depends only on the update number"
                )
        self._check()

    def _step(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*lr_scheduler.step.*")  # its optimizer never steps
            for scheduler in self._schedulers:
                self._file.call(scheduler.step)
        self._at += 1
        self._check()

    def _check(self) -> None:
        for group, had in zip(self._groups, self._others, strict=True):
            changed = [name for name, value in had.items() if group[name] != value]
            if changed:
                raise InvalidRequest(
                    f"{self._where}: it changes {', '.join(changed)}; parameter servers only follow the learning rate",
                    hint="for example, pass cycle_momentum=False",
                )


def _others(group: dict[str, Any]) -> dict[str, Any]:
    """What a schedule must leave alone."""
    return {name: value for name, value in group.items() if name not in ("params", "lr", "initial_lr")}


def _number(value: Any) -> float:
    return float(value.item()) if isinstance(value, torch.Tensor) else float(value)
