"""Python values as JSON and tensors, exactly: what is read back has the same types and the same values.

JSON knows neither tuples nor NaN nor keys that are no text. Such a value is an object with one key that begins with ``$``:
``{"$tuple": [1, 2]}``, ``{"$float": "nan"}``, ``{"$dict": [[1, "a"]]}``. Tensors and arrays are not part of the JSON: they are
named there (``{"$torch": "weights"}``) and stored beside it. What has no such form raises ``NotPlain``, naming the part.
"""

from __future__ import annotations

import base64
import binascii
import math
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pliant.core.errors import CorruptData

MAX_DEPTH = 100
MAX_ITEMS = 5_000_000  # of all containers together
MAX_SAFE_INT = 2**53  # other readers of JSON have doubles
TORCH, NUMPY, SCALAR = "$torch", "$numpy", "$scalar"
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class NotPlain(Exception):
    """A value that JSON and tensors cannot express; the message says which part of it, and why."""


@dataclass(frozen=True)
class PlainValue:
    structure: Any  # JSON
    tensors: Mapping[str, Any] = field(
        default_factory=dict
    )  # of torch or of NumPy, by the name that it has in the structure

    @property
    def has_torch(self) -> bool:
        return any(not _is_array(tensor) for tensor in self.tensors.values())


def encode(value: object, name: str) -> PlainValue:
    """``name``: what the value is called in errors. Raises ``NotPlain``."""
    encoder = _Encoder()
    return PlainValue(encoder.encode(value, name, 0), encoder.tensors)


def decode(structure: object, tensors: Mapping[str, Any], where: str) -> Any:
    """Raises ``CorruptData`` for what ``encode`` does not write."""
    try:
        return _decode(structure, tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, binascii.Error) as error:
        raise CorruptData(f"{where} is corrupt: {type(error).__name__}: {error}") from None


def kinds_of_tensors(structure: object) -> frozenset[str]:
    """Which of ``TORCH``, ``NUMPY`` and ``SCALAR`` it names."""
    return frozenset(_kinds(structure))


class _Encoder:
    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self._items = 0

    def encode(self, value: object, path: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise NotPlain(f"{path[:200]} is nested deeper than {MAX_DEPTH} levels")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            assert isinstance(value, int)
            return value if abs(value) <= MAX_SAFE_INT else {"$int": hex(value)}
        if kind is float:
            assert isinstance(value, float)
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is bytes:
            assert isinstance(value, bytes)
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, list | tuple) and kind in (list, tuple):
            self._count(len(value), path)
            items = [self.encode(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)]
            return items if kind is list else {"$tuple": items}
        if isinstance(value, dict) and kind in (dict, OrderedDict):
            return self._mapping(value, path, depth)
        return self._tensor(value, path)

    def _count(self, items: int, path: str) -> None:
        self._items += items
        if self._items > MAX_ITEMS:
            raise NotPlain(f"{path[:200]} has more than {MAX_ITEMS:,} items; return a tensor or an array")

    def _mapping(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        self._count(len(value), path)
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(item, f"{path}[{key!r}]", depth + 1) for key, item in value.items()}
        return {
            "$dict": [
                [self.encode(key, f"a key of {path}", depth + 1), self.encode(item, f"{path}[{key!r}]", depth + 1)]
                for key, item in value.items()
            ]
        }

    def _tensor(self, value: Any, path: str) -> Any:
        if is_torch_tensor(value):
            if str(value.layout) != "torch.strided" or value.is_quantized or value.is_meta:
                raise NotPlain(f"{path} is a {value.layout} tensor on {value.device}; only dense ones can be kept")
            return {TORCH: self._named(path, value.detach().cpu().contiguous().clone())}
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic | numpy.ndarray):
            is_array = type(value) is numpy.ndarray
            if value.dtype.kind not in "biuf" or not (is_array or isinstance(value, numpy.generic)):
                raise NotPlain(f"{path} is an array of {value.dtype}; only numbers and booleans can be kept")
            copy = numpy.array(value, dtype=value.dtype.newbyteorder("="), order="C", copy=True)
            return {NUMPY if is_array else SCALAR: self._named(path, copy)}
        raise NotPlain(f"{path} is a {type_name(value)}")

    def _named(self, path: str, tensor: Any) -> str:
        found = path.partition("[")[2]
        name = found.removesuffix("]").replace("'][", ".").replace("][", ".").replace("'", "") or "value"
        unique, number = name, 1
        while unique in self.tensors or unique == "__metadata__":
            number += 1
            unique = f"{name}#{number}"
        self.tensors[unique] = tensor
        return unique


def is_torch_tensor(value: object) -> bool:
    """Without importing torch: who has a tensor has imported it."""
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor)


def _is_array(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _decode(value: Any, tensors: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("$"):
        return {key: _decode(item, tensors) for key, item in value.items()}
    if len(value) != 1:
        raise ValueError(f"{tag} is not alone")
    inner = value[tag]
    match tag:
        case "$int":
            return int(inner, 16)
        case "$float":
            return _FLOATS[inner]
        case "$bytes":
            return base64.b64decode(inner, validate=True)
        case "$tuple":
            return tuple(_decode(item, tensors) for item in inner)
        case "$dict":
            return {_decode(key, tensors): _decode(item, tensors) for key, item in inner}
        case "$torch" | "$numpy":
            return tensors[inner]
        case "$scalar":
            return tensors[inner][()]
        case _:
            raise ValueError(f"{tag} is unknown")


def _kinds(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (key for key in value if key in (TORCH, NUMPY, SCALAR))
        for item in value.values():
            yield from _kinds(item)
    elif isinstance(value, list):
        for item in value:
            yield from _kinds(item)
