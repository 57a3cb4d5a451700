"""Native training: a model file and one command. What a model file may import from here: metrics, callbacks, ``Mode``.

from pliant.native import AUC, Accuracy, EarlyStopping, Mode
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.native.callbacks import Callback, EarlyStopping, StopTraining
    from pliant.native.metrics import AUC, MAE, MSE, Accuracy, Mean, Metric
    from pliant.native.model_file.feed import Mode

_WHERE = {
    "callbacks": ("Callback", "EarlyStopping", "StopTraining"),
    "model_file.feed": ("Mode",),
    "metrics": ("AUC", "MAE", "MSE", "Accuracy", "Mean", "Metric"),
}

__all__ = ["AUC", "MAE", "MSE", "Accuracy", "Callback", "EarlyStopping", "Mean", "Metric", "Mode", "StopTraining"]


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(f"pliant.native.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
