"""Metrics over all records of an evaluation, not averages of averages.

A metric is fed labels and predictions, shard by shard, on any worker. Each shard yields a *state*, arrays by name; states
are merged and the value is computed once from the whole. ``Accuracy``, ``AUC``, ``Mean``, ``MSE`` and the like have small
states. Any other metric is right too: for a plain function, or an object with ``update`` and ``compute``, the state is the labels
and predictions themselves, and it is called on all of them at the end.

A function may return one number for all records, or one per record, of which the mean is taken.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pliant.core.errors import CorruptData, InvalidRequest

State = dict[str, Any]  # arrays and numbers of NumPy
Array = Any  # np.ndarray, or a dict or tuple of them
MAX_SCORES = 1 << 20  # distinct scores that AUC keeps exactly


class Metric(ABC):
    """Of one kind of value; instances hold options only, so one serves any number of shards."""

    @abstractmethod
    def state(self, labels: Array, predictions: Array) -> State:
        """Of some records."""

    @abstractmethod
    def merge(self, one: State, other: State) -> State:
        """Of both together; must not depend on the order."""

    @abstractmethod
    def value(self, state: State) -> float:
        """Of all records."""


class _Fraction(Metric):
    """A sum over records, divided by a count."""

    def merge(self, one: State, other: State) -> State:
        return {name: one[name] + other[name] for name in one}

    def value(self, state: State) -> float:
        count = float(state["count"])
        return float(state["sum"]) / count if count else float("nan")


class Mean(_Fraction):
    """The mean of ``function(labels, predictions)``, which returns one value per record; by default of the predictions."""

    def __init__(self, function: Callable[[Array, Array], Any] | None = None) -> None:
        self._function = function

    def state(self, labels: Array, predictions: Array) -> State:
        values = np.asarray(predictions if self._function is None else self._function(labels, predictions), np.float64)
        return {"sum": values.sum(), "count": np.float64(values.size)}


class Accuracy(_Fraction):
    """The share of records whose class is right: the largest of several outputs, or one output against ``threshold``."""

    def __init__(self, threshold: float = 0.5) -> None:
        self._threshold = threshold

    def state(self, labels: Array, predictions: Array) -> State:
        labels, predictions = np.asarray(labels), np.asarray(predictions)
        if predictions.ndim > 1 and predictions.shape[-1] > 1:
            chosen = predictions.argmax(-1)
            if labels.ndim == predictions.ndim and labels.shape[-1] > 1:  # one-hot
                labels = labels.argmax(-1)
        else:
            chosen = predictions > self._threshold
        right = chosen.reshape(-1) == labels.reshape(-1)
        return {"sum": np.float64(right.sum()), "count": np.float64(right.size)}


class MSE(_Fraction):
    """The mean squared error."""

    def state(self, labels: Array, predictions: Array) -> State:
        difference = np.asarray(labels, np.float64).reshape(-1) - np.asarray(predictions, np.float64).reshape(-1)
        return {"sum": np.square(difference).sum(), "count": np.float64(difference.size)}


class MAE(_Fraction):
    """The mean absolute error."""

    def state(self, labels: Array, predictions: Array) -> State:
        difference = np.asarray(labels, np.float64).reshape(-1) - np.asarray(predictions, np.float64).reshape(-1)
        return {"sum": np.abs(difference).sum(), "count": np.float64(difference.size)}


class AUC(Metric):
    """The area under the ROC curve, ties counted half. Of two outputs the second is the score.

    Exact while there are at most ``MAX_SCORES`` distinct scores: the state is each score with how many positives and negatives
    have it. Beyond that, scores are rounded to the nearest of about as many float32 numbers; neighbours differ by less than
    one part in 16,000.
    """

    def state(self, labels: Array, predictions: Array) -> State:
        scores = np.asarray(predictions, np.float32)
        if scores.ndim > 1 and scores.shape[-1] == 2:
            scores = scores[..., 1]
        positive = np.asarray(labels).reshape(-1) > 0.5
        keys = _ordered(scores.reshape(-1))
        return self._counted({"keys": keys, "positive": positive.astype(np.int64), "negative": (~positive).astype(int)})

    def merge(self, one: State, other: State) -> State:
        return self._counted({name: np.concatenate([one[name], other[name]]) for name in one})

    def value(self, state: State) -> float:
        positive, negative = state["positive"].astype(np.float64), state["negative"].astype(np.float64)
        pairs = positive.sum() * negative.sum()
        below = np.cumsum(negative) - negative
        return float((positive * (below + negative / 2)).sum() / pairs) if pairs else float("nan")

    def _counted(self, state: State) -> State:
        keys, where = np.unique(state["keys"], return_inverse=True)
        if len(keys) > MAX_SCORES:
            coarse = (state["keys"] >> 10) << 10
            keys, where = np.unique(coarse, return_inverse=True)
        counts = {n: np.bincount(where, state[n], len(keys)).astype(np.int64) for n in ("positive", "negative")}
        return {"keys": keys, **counts}


class Collected(Metric):
    """Any metric: labels and predictions are collected, and it is computed on all of them."""

    def __init__(self, compute: Callable[[Array, Array], float]) -> None:
        self._compute = compute

    def state(self, labels: Array, predictions: Array) -> State:
        return {**_flat("labels", labels), **_flat("predictions", predictions)}

    def merge(self, one: State, other: State) -> State:
        return {name: np.concatenate([one[name], other[name]]) for name in one}

    def value(self, state: State) -> float:
        return self._compute(_nested("labels", state), _nested("predictions", state))


def _plain_function(function: Callable[[Array, Array], Any]) -> Metric:
    def compute(labels: Array, predictions: Array) -> float:
        made = np.asarray(_call_with_arrays(function, labels, predictions))
        if made.dtype.kind not in "biuf":
            raise InvalidRequest(f"it must return a number, or one per record; it returned {made!r:.60}")
        values = made.astype(np.float64)
        return float(values.mean()) if values.size else float("nan")

    return Collected(compute)


def _call_with_arrays(function: Callable[..., Any], labels: Array, predictions: Array) -> Any:
    """Many functions are written for torch: they are given tensors. Where that fails they are given arrays: for one, ``np.mean``
    does not take tensors."""
    import torch

    def tensors(value: Array) -> Any:
        if isinstance(value, dict):
            return {name: tensors(one) for name, one in value.items()}
        return tuple(map(tensors, value)) if isinstance(value, tuple) else torch.from_numpy(value)

    try:
        made = function(tensors(labels), tensors(predictions))
    except (AttributeError, TypeError):
        try:
            made = function(labels, predictions)
        except (AttributeError, TypeError):
            made = None
        if made is None:
            raise
    return made.detach().cpu().numpy() if isinstance(made, torch.Tensor) else made


def _object(factory: Any) -> Metric:
    """An object with ``update(labels, predictions)`` and ``compute()``, or Keras' ``update_state`` and ``result``."""

    def compute(labels: Array, predictions: Array) -> float:
        metric = factory() if isinstance(factory, type) else factory
        reset = getattr(metric, "reset", None) or getattr(metric, "reset_state", None)
        if callable(reset):
            reset()
        update = getattr(metric, "update", None) or metric.update_state
        _call_with_arrays(update, labels, predictions)
        made = metric.compute() if hasattr(metric, "compute") else metric.result()
        return float(made.detach().cpu()) if hasattr(made, "detach") else float(made)

    return Collected(compute)


BY_NAME: dict[str, Callable[[], Metric]] = {"accuracy": Accuracy, "auc": AUC, "mean": Mean, "mse": MSE, "mae": MAE}


def as_metrics(given: Any, where: str) -> dict[str, Metric]:
    """What ``eval_metrics_fn()`` returned, as metrics by name."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidRequest(
            f"{where}: eval_metrics_fn() must return a dict of metrics by name; it returned {type(given).__name__}"
        )
    return {name: as_metric(value, f"{where}: metric {name!r}") for name, value in given.items()}


def as_metric(value: Any, where: str = "a metric") -> Metric:
    if isinstance(value, Metric):
        return value
    if isinstance(value, type) and issubclass(value, Metric):
        return value()
    if isinstance(value, str) and value.lower() in BY_NAME:
        return BY_NAME[value.lower()]()
    updates = hasattr(value, "update") or hasattr(value, "update_state")
    if updates and (hasattr(value, "compute") or hasattr(value, "result")):
        return _object(value)
    if callable(value):
        return _plain_function(value)
    raise InvalidRequest(
        f"{where} is {value!r:.60}",
        hint=f"use a pliant.native.Metric, a function of (labels, predictions), an object with update() and "
        f"compute(), or one of {', '.join(BY_NAME)}",
    )


def merge_states(metrics: Mapping[str, Metric], one: dict[str, State], other: dict[str, State]) -> dict[str, State]:
    if not one or not other:
        return one or other
    return {name: metric.merge(one[name], other[name]) for name, metric in metrics.items()}


def pack_states(states: dict[str, State]) -> bytes:
    """As an .npz file without pickles."""
    file = io.BytesIO()
    for name, state in states.items():
        if not isinstance(state, Mapping) or not state or not all(isinstance(part, str) for part in state):
            raise _refused(name, state)
    flat = {f"{name}\0{part}": _array(name, value) for name, state in states.items() for part, value in state.items()}
    arrays: dict[str, Any] = {"names": np.array(list(flat)), **{f"a{i}": v for i, v in enumerate(flat.values())}}
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _array(metric: str, value: Any) -> Any:
    try:
        made = np.asarray(value)
    except (TypeError, ValueError):  # rows of different lengths, say, or a tensor on a GPU
        raise _refused(metric, value) from None
    if made.dtype.kind not in "biufcSU":
        raise _refused(metric, value)
    return made


def _refused(metric: str, state: Any) -> InvalidRequest:
    return InvalidRequest(
        f"metric {metric!r} has a state that cannot be sent: {state!r:.60}",
        hint="state() must return a dict of NumPy arrays and numbers, and merge() must combine two of them",
    )


def unpack_states(data: bytes) -> dict[str, State]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            states: dict[str, State] = {}
            for i, name in enumerate(arrays["names"].tolist()):
                metric, _, part = name.partition("\0")
                states.setdefault(metric, {})[part] = arrays[f"a{i}"]
            return states
    except (ValueError, KeyError, OSError) as error:
        raise CorruptData(f"the state of a metric cannot be read: {error}") from error


def _ordered(scores: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of the floats, so that rounding keeps it."""
    bits = (scores + np.float32(0)).view(np.int32).astype(np.int64)  # adding 0 makes one zero of both
    return np.where(bits < 0, -(1 << 31) - bits, bits)


def _flat(name: str, value: Array) -> State:
    if isinstance(value, dict):
        return {k: v for key, one in value.items() for k, v in _flat(f"{name}.{key}", one).items()}
    if isinstance(value, tuple):
        return {k: v for key, one in enumerate(value) for k, v in _flat(f"{name}#{key}", one).items()}
    return {name: np.asarray(value)}


def _nested(name: str, state: State) -> Array:
    if name in state:
        return state[name]
    keys = [key for key in state if key.startswith((f"{name}.", f"{name}#"))]
    inner = list(dict.fromkeys(_first(key[len(name) + 1 :]) for key in keys))
    if keys and keys[0][len(name)] == "#":
        return tuple(_nested(f"{name}#{key}", state) for key in inner)
    return {key: _nested(f"{name}.{key}", state) for key in inner}


def _first(rest: str) -> str:
    return rest.replace("#", ".").partition(".")[0]
