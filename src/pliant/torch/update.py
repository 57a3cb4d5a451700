"""What a committed step does to the model: optimizers, clipping, mixed precision, learning-rate schedules.

It sees only the summed gradients in ``param.grad``, which are the same on every worker, so every worker comes to the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pliant.core.errors import InvalidRequest


class Update:
    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        scheduler: Any = None,
        scheduler_every: str = "step",
        scaler: Any = None,
        clip_grad_norm: float | None = None,
        clip_grad_value: float | None = None,
        on_gradients: Callable[[], None] | None = None,
    ) -> None:
        if scheduler_every not in ("step", "epoch"):
            raise InvalidRequest(f"scheduler_every is {scheduler_every!r}; allowed: 'step', 'epoch'")
        self.optimizers = list(optimizer) if isinstance(optimizer, Sequence) else [optimizer]
        self.schedulers = _as_list(scheduler)
        self.scaler = scaler
        self._every = scheduler_every
        self._clip_norm, self._clip_value = clip_grad_norm, clip_grad_value
        self._on_gradients = on_gradients
        self._check(model)

    def params(self) -> list[torch.nn.Parameter]:
        """All that the optimizers know, each once, in an order that is the same on every worker."""
        groups = (group for optimizer in self.optimizers for group in optimizer.param_groups)
        return list({id(p): p for group in groups for p in group["params"]}.values())

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        if self.scaler is None:
            return loss
        made: torch.Tensor = self.scaler.scale(loss)
        return made

    def apply(self, *, ends_epoch: bool) -> None:
        if self.scaler is not None:
            # A scaler makes its state when it first scales a loss; this worker may have had no micro-batch so far.
            device = next((param.device for param in self.params()), None)
            self.scaler.scale(torch.zeros((), device=device))
        for optimizer in self.optimizers:
            if self.scaler is not None:
                self.scaler.unscale_(optimizer)
        params = [param for param in self.params() if param.grad is not None]
        if self._on_gradients is not None:
            self._on_gradients()
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(params, self._clip_norm)
        if self._clip_value is not None:
            torch.nn.utils.clip_grad_value_(params, self._clip_value)
        for optimizer in self.optimizers:
            if self.scaler is not None:
                self.scaler.step(optimizer)
            else:
                optimizer.step()
        if self.scaler is not None:
            self.scaler.update()
        if self._every == "step" or ends_epoch:
            for scheduler in self.schedulers:
                scheduler.step()

    def state(self) -> dict[str, Any]:
        return {
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedulers": [_scheduler_state(scheduler) for scheduler in self.schedulers],
            "scaler": self.scaler.state_dict() if self.scaler is not None else None,
            "trained": [param.requires_grad for param in self.params()],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for scheduler, saved in zip(self.schedulers, state["schedulers"], strict=True):
            scheduler.load_state_dict(saved)
        if self.scaler is not None and state["scaler"] is not None:
            self.scaler.load_state_dict(state["scaler"])
        for param, trained in zip(self.params(), state["trained"], strict=True):
            param.requires_grad_(trained)

    def _check(self, model: torch.nn.Module) -> None:
        inside = set(map(id, model.parameters()))
        if any(id(param) not in inside for param in self.params()):
            raise InvalidRequest(
                "an optimizer has parameters that are not in the model; workers that join later would not receive them",
                hint="put all modules into one, such as torch.nn.ModuleDict",
            )
        if any(isinstance(s, torch.optim.lr_scheduler.ReduceLROnPlateau) for s in self.schedulers):
            raise InvalidRequest("ReduceLROnPlateau needs a metric at each of its steps, which a Trainer does not have")


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, Sequence) else [value]


def _scheduler_state(scheduler: Any) -> dict[str, Any]:
    return {key: value for key, value in scheduler.state_dict().items() if not callable(value)}
