"""Metrics of a model file, as an evaluation round calls them: a failure names the metric and its line.

A metric that fails will fail on the same records again, so it ends the job (``failures``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pliant.core.errors import InvalidRequest
from pliant.native.failures import PermanentFailure
from pliant.native.metrics import Array, Metric, State, as_metrics
from pliant.native.model_file.contract import ModelFile
from pliant.native.model_file.module_files import described, location_of

T = TypeVar("T")


def user_metrics(file: ModelFile) -> dict[str, Metric]:
    """By name; none if the file has no ``eval_metrics_fn``."""
    function = file.get("eval_metrics_fn")
    made = as_metrics(file.call(function), file.where("eval_metrics_fn")) if function is not None else {}
    return {name: UserMetric(name, metric, file) for name, metric in made.items()}


class UserMetric(Metric):
    def __init__(self, name: str, metric: Metric, file: ModelFile) -> None:
        self._name = name
        self._metric = metric
        self._file = file

    def state(self, labels: Array, predictions: Array) -> State:
        return self._ask(self._metric.state, labels, predictions)

    def merge(self, one: State, other: State) -> State:
        return self._ask(self._metric.merge, one, other)

    def value(self, state: State) -> float:
        return self._ask(lambda: float(self._metric.value(state)))

    def _ask(self, function: Callable[..., T], *args: Any) -> T:
        try:
            return function(*args)
        except MemoryError:
            raise  # another node may have enough
        except InvalidRequest as error:
            raise PermanentFailure(f"{self._where}: metric {self._name!r}: {error.message}", hint=error.hint) from error
        except Exception as error:  # the user's metric
            location = location_of(error, self._file.path, self._where)
            raise PermanentFailure(f"{location}: metric {self._name!r} failed: {described(error)}") from error

    @property
    def _where(self) -> str:
        return self._file.where("eval_metrics_fn")
