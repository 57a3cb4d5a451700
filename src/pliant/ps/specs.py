"""What a parameter server keeps, as data: embedding tables, dense variables, how they begin and how they learn.

A spec is a frozen value that travels as JSON (in orders, dumps and requests) and is checked with ``check()`` before
anything is made from it. The optimizers mean what ``torch.optim`` means by the same names, where torch has them; rows of a
table are updated lazily, that is only when they have a gradient, weight decay included (``torch.optim.SparseAdam``).
Bias corrections of Adam and the decay of Adagrad count the iterations of the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from pliant.core.errors import InvalidRequest

MAX_NAME = 200  # characters
MAX_DIM = 65_536  # floats in a row
MAX_ELEMENTS = 1 << 40
MAX_FLOAT = 1e300

OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "sgd": (),
    "momentum": ("momentum",),
    "nesterov": ("momentum",),
    "adagrad": ("sum",),
    "adam": ("exp_avg", "exp_avg_sq"),
    "amsgrad": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    "ftrl": ("accumulator", "linear"),
}
"""Each optimizer's state per parameter, in the order in which a row holds it."""

INITIALIZERS = ("zeros", "constant", "uniform", "normal", "xavier")


class _Json:
    """To and from JSON by field names; a name that is not a field is a mistake, not a wish."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        if not isinstance(value, dict):
            raise InvalidRequest(f"{cls.__name__}: expected an object, got {type(value).__name__}")
        known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
        if unknown := sorted(set(map(str, value)) - known):
            raise InvalidRequest(f"{cls.__name__} has no {unknown[0]!r}", hint=f"it has {', '.join(sorted(known))}")
        try:
            spec = cls(**cls._nested(value))
            spec.check()
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidRequest(f"{cls.__name__}: {error}") from None
        return spec

    @classmethod
    def _nested(cls, value: dict[str, Any]) -> dict[str, Any]:
        return value

    def check(self) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class OptimizerSpec(_Json):
    """How parameters learn. A field that an optimizer does not have is left at its default."""

    kind: str = "sgd"
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    decoupled: bool = False  # weight decay as AdamW has it; adam and amsgrad only
    momentum: float = 0.9  # momentum, nesterov
    beta1: float = 0.9  # adam, amsgrad
    beta2: float = 0.999
    epsilon: float = 1e-8  # adam, amsgrad, adagrad (torch's default there is 1e-10)
    learning_rate_decay: float = 0.0  # adagrad
    initial_accumulator: float = 0.0  # adagrad, ftrl
    l1: float = 0.0  # ftrl
    l2: float = 0.0
    beta: float = 0.0
    learning_rate_power: float = -0.5

    @property
    def states(self) -> tuple[str, ...]:
        return OPTIMIZERS[self.kind]

    def check(self) -> None:
        if self.kind not in OPTIMIZERS:
            raise InvalidRequest(f"unknown optimizer {self.kind!r}", hint=f"one of {', '.join(OPTIMIZERS)}")
        for f in fields(self):
            if f.type == "float":
                _finite("optimizer", f.name, getattr(self, f.name))
        not_negative = ("learning_rate", "weight_decay", "epsilon", "learning_rate_decay", "initial_accumulator")
        for name in (*not_negative, "l1", "l2", "beta"):
            if getattr(self, name) < 0:
                raise InvalidRequest(f"optimizer: {name} must not be negative, got {getattr(self, name)}")
        for name in ("momentum", "beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidRequest(f"optimizer: {name} must be in [0, 1), got {getattr(self, name)}")
        if self.kind == "ftrl" and (self.learning_rate_power > 0 or self.learning_rate <= 0):
            raise InvalidRequest("optimizer: ftrl needs learning_rate > 0 and learning_rate_power <= 0")
        if self.decoupled and self.kind not in ("adam", "amsgrad"):
            raise InvalidRequest(f"optimizer: decoupled weight decay is for adam and amsgrad, not {self.kind}")


@dataclass(frozen=True)
class InitializerSpec(_Json):
    """The value of a parameter before its first update: a function of seed, name and place only."""

    kind: str = "zeros"
    low: float = -0.05  # uniform
    high: float = 0.05
    mean: float = 0.0  # normal
    std: float = 0.05
    value: float = 0.0  # constant
    scale: float = 1.0  # xavier: uniform within scale * sqrt(3 / fan), fan = a row's length, or a variable's last axis

    def check(self) -> None:
        if self.kind not in INITIALIZERS:
            raise InvalidRequest(f"unknown initializer {self.kind!r}", hint=f"one of {', '.join(INITIALIZERS)}")
        for f in fields(self):
            if f.type == "float":
                _finite("initializer", f.name, getattr(self, f.name))
        if self.low > self.high or self.std < 0 or self.scale < 0:
            raise InvalidRequest("initializer: low must not exceed high; std and scale must not be negative")


@dataclass(frozen=True)
class EvictionSpec(_Json):
    """When rows are forgotten. Each row is looked at once in ``every`` iterations (0: never) and goes if it had no update
    for at least ``unused_for`` iterations and, where ``less_than`` is given, had fewer updates than that."""

    every: int = 0
    unused_for: int = 0
    less_than: int = 0

    def check(self) -> None:
        for f in fields(self):
            _whole("eviction", f.name, getattr(self, f.name), 0, 2**31 - 1)
        if self.every and not (self.unused_for or self.less_than):
            raise InvalidRequest("eviction: set unused_for or less_than; otherwise every row would be evicted")


class _Scheduled(_Json):
    """Learns by the job's schedule of the learning rate, if it has one: by the factor of its group."""

    rate_group: int

    def scaled(self, scale: float, factors: Sequence[float]) -> float:
        return scale * factors[self.rate_group] if 0 <= self.rate_group < len(factors) else scale


@dataclass(frozen=True)
class TableSpec(_Scheduled):
    """An embedding table: rows of ``dim`` floats by id (0 to 2^63 - 1), made on first use."""

    name: str
    dim: int
    optimizer: OptimizerSpec = field(default_factory=OptimizerSpec)
    initializer: InitializerSpec = field(default_factory=InitializerSpec)
    eviction: EvictionSpec = field(default_factory=EvictionSpec)
    seed: int = 0
    rate_group: int = 0  # of the job's schedule of the learning rate; -1: it does not follow the schedule

    def check(self) -> None:
        _name(self.name)
        _whole(f"table {self.name!r}", "dim", self.dim, 1, MAX_DIM)
        _whole(f"table {self.name!r}", "seed", self.seed, 0, 2**63 - 1)
        _whole(f"table {self.name!r}", "rate_group", self.rate_group, -1, 999)
        self.optimizer.check()
        self.initializer.check()
        self.eviction.check()

    @classmethod
    def _nested(cls, value: dict[str, Any]) -> dict[str, Any]:
        return _parse(value, optimizer=OptimizerSpec, initializer=InitializerSpec, eviction=EvictionSpec)


@dataclass(frozen=True)
class DenseSpec(_Scheduled):
    """A dense float32 variable. Its first value comes from the initializer, or from an assigning push."""

    name: str
    shape: tuple[int, ...]
    optimizer: OptimizerSpec = field(default_factory=OptimizerSpec)
    initializer: InitializerSpec = field(default_factory=InitializerSpec)
    seed: int = 0
    rate_group: int = 0  # as a table's

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def check(self) -> None:
        _name(self.name)
        if not isinstance(self.shape, tuple) or len(self.shape) > 32:
            raise InvalidRequest(f"variable {self.name!r}: shape must be a tuple of integers")
        for length in self.shape:
            _whole(f"variable {self.name!r}", "shape", length, 1, MAX_ELEMENTS)
        if self.size > MAX_ELEMENTS:
            raise InvalidRequest(f"variable {self.name!r}: {self.size} elements are too many")
        _whole(f"variable {self.name!r}", "seed", self.seed, 0, 2**63 - 1)
        _whole(f"variable {self.name!r}", "rate_group", self.rate_group, -1, 999)
        self.optimizer.check()
        self.initializer.check()

    @classmethod
    def _nested(cls, value: dict[str, Any]) -> dict[str, Any]:
        value = _parse(value, optimizer=OptimizerSpec, initializer=InitializerSpec)
        return {**value, "shape": tuple(value["shape"])} if "shape" in value else value


Spec = TableSpec | DenseSpec


def spec_from_json(value: Any) -> Spec:
    """A table if it has a ``dim``, a variable if it has a ``shape``."""
    if isinstance(value, dict) and "shape" in value:
        return DenseSpec.from_json(value)
    return TableSpec.from_json(value)


def _parse(value: dict[str, Any], **kinds: type[_Json]) -> dict[str, Any]:
    return {key: kinds[key].from_json(inner) if key in kinds else inner for key, inner in value.items()}


def _name(name: Any) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidRequest(f"{name!r:.80} is not a valid name: use 1 to {MAX_NAME} printable characters")


def _finite(what: str, name: str, value: Any) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= MAX_FLOAT:  # not so for NaN either
        raise InvalidRequest(f"{what}: {name} must be a finite number, got {value!r:.80}")


def _whole(what: str, name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidRequest(f"{what}: {name} must be an integer from {low} to {high}, got {value!r:.80}")
