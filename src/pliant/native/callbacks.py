"""What a model file's ``callbacks()`` may return: objects with any of these methods.

Callbacks run on every worker. They see evaluations in the order of rounds, each once per worker, also those from before this
worker was there; so a callback that counts them comes to the same decision everywhere, and after any death. To end training
early, raise ``StopTraining`` or return it: all workers end after the same step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.plurals import counted

CALLBACKS = {  # what each is called with
    "on_train_begin": ("model",),
    "on_step_end": ("step", "loss"),
    "on_epoch_end": ("epoch",),
    "on_evaluation": ("version", "metrics"),
    "on_train_end": ("directory",),
}


class StopTraining(Exception):
    """Raised or returned by a callback; the text is the reason shown to the user."""


class Callback:
    """Subclass it, or use any object that has some of these methods."""

    def on_train_begin(self, model: Any) -> StopTraining | None:
        """Before the first step of this worker."""

    def on_step_end(self, step: int, loss: float) -> StopTraining | None:
        """A step is committed; ``step`` counts from 1."""

    def on_epoch_end(self, epoch: int) -> StopTraining | None:
        """``epoch`` counts from 0."""

    def on_evaluation(self, version: int, metrics: Mapping[str, float]) -> StopTraining | None:
        """A round of evaluation is closed."""

    def on_train_end(self, directory: str) -> None:
        """The model was exported there; called by the worker that did it."""


class EarlyStopping(Callback):
    """End training when ``monitor`` has not become better by more than ``min_delta`` for ``patience`` rounds."""

    def __init__(self, monitor: str = "loss", *, patience: int = 3, mode: str = "", min_delta: float = 0.0) -> None:
        if patience < 1:
            raise InvalidRequest(f"EarlyStopping: patience is {patience}; the minimum is 1")
        if mode not in ("", "max", "min"):
            raise InvalidRequest(f"EarlyStopping: mode is {mode!r}; allowed: 'max', 'min'")
        self.monitor = monitor
        self.patience = patience
        self.min_delta = abs(min_delta)
        self._sign = 1.0 if (mode or better(monitor)) == "max" else -1.0
        self._best = -math.inf
        self._bad = 0

    def on_evaluation(self, version: int, metrics: Mapping[str, float]) -> StopTraining | None:
        if self.monitor not in metrics:
            raise InvalidRequest(
                f"EarlyStopping monitors {self.monitor!r}, but the evaluation has {', '.join(metrics)}"
            )
        value = self._sign * metrics[self.monitor]
        if value > self._best + self.min_delta:
            self._best, self._bad = value, 0
            return None
        self._bad += 1
        if self._bad < self.patience:
            return None
        return StopTraining(
            f"{self.monitor} did not improve on {self._sign * self._best:.6g} for {counted(self._bad, 'evaluation')}"
        )


def better(metric: str) -> str:
    """Whether the largest or the smallest value of a metric is the best, by its name."""
    small = ("loss", "error", "mse", "mae", "rmse", "perplexity")
    return "min" if any(word in metric.lower() for word in small) else "max"
