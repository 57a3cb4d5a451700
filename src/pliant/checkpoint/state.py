"""A nested state as JSON and named tensors, without pickle, and back.

Containers and numbers go into the *structure*, where ``{"!tensor": name}`` stands for a tensor. JSON has no tuples, bytes,
infinities or int keys: those are objects with one key that begins with ``!``. A tensor that occurs twice (tied weights) is
stored once and is one tensor again afterwards. What is not known is refused with the path to it: better now than at restore.
"""

from __future__ import annotations

import base64
import math
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import numpy as np
import torch

from pliant.core.errors import CorruptData, InvalidRequest

Tensors = dict[str, torch.Tensor]
MAX_BYTES = 1 << 20
_MAPPINGS: dict[type, str] = {dict: "!dict", defaultdict: "!dict", OrderedDict: "!ordered", Counter: "!counter"}
_MAKE_MAPPING: dict[str, Any] = {"!dict": dict, "!ordered": OrderedDict, "!counter": Counter}
_PLAIN_INT = 1 << 63


def flatten(state: Any) -> tuple[Any, Tensors]:
    """The structure (JSON), and the tensors by name: the path to them, joined by dots."""
    flattening = _Flattening()
    return flattening.encode(state, ()), flattening.tensors


def unflatten(structure: Any, tensors: Tensors) -> Any:
    try:
        return _decode(structure, tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise CorruptData(f"the structure of the state is corrupt: {error!r:.500}") from None


def tensor_names(structure: Any) -> list[str]:
    """Of all tensors that the structure needs."""
    if isinstance(structure, list):
        return [name for item in structure for name in tensor_names(item)]
    if not isinstance(structure, dict):
        return []
    for tag in ("!tensor", "!ndarray", "!scalar"):
        if tag in structure:
            return [str(structure[tag])]
    return [name for item in structure.values() for name in tensor_names(item)]


def descend(structure: Any, path: str) -> Any:
    """The structure below keys joined by dots; raises KeyError with the keys that there are."""
    for key in path.split(".") if path else ():
        inner = structure
        for tag in ("!ordered", "!dict"):
            if isinstance(inner, dict) and tag in inner:
                inner = {str(name): value for name, value in inner[tag]}
        if not isinstance(inner, dict) or key not in inner:
            raise KeyError(", ".join(map(str, inner)) if isinstance(inner, dict) else type(inner).__name__)
        structure = inner[key]
    return structure


class _Flattening:
    def __init__(self) -> None:
        self.tensors: Tensors = {}
        self._seen: dict[tuple[Any, ...], str] = {}
        self._keep: list[Any] = []  # so that no address is used twice

    def encode(self, value: Any, path: tuple[str, ...]) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if -_PLAIN_INT <= value < _PLAIN_INT else {"!int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"!float": repr(value)}
        if kind is list:
            return [self.encode(item, (*path, str(i))) for i, item in enumerate(value)]
        if kind is tuple or kind is torch.Size:
            return {"!tuple": [self.encode(item, (*path, str(i))) for i, item in enumerate(value)]}
        if kind in _MAPPINGS:
            return self._mapping(value, path)
        if isinstance(value, torch.Tensor):
            return {"!tensor": self._tensor(value.detach(), path)}
        if isinstance(value, np.ndarray | np.generic):
            return self._numpy(value, path)
        if kind is bytes:
            if len(value) > MAX_BYTES:
                raise InvalidRequest(
                    f"{_name(path)} has {len(value):,} bytes, more than {MAX_BYTES:,}",
                    hint="convert it to a uint8 tensor",
                )
            return {"!bytes": base64.b64encode(value).decode()}
        if kind is torch.dtype or kind is torch.device:
            return {f"!{kind.__name__}": str(value).removeprefix("torch.")}
        raise InvalidRequest(
            f"{_name(path)} is a {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot hold",
            hint="use only dicts, lists, tuples, numbers, strings, bytes, tensors and arrays",
        )

    def _mapping(self, value: dict[Any, Any], path: tuple[str, ...]) -> Any:
        for key in value:
            if type(key) is not str and type(key) is not int:
                raise InvalidRequest(f"{_name(path)} has the key {key!r}", hint="keys must be strings or integers")
        tag = _MAPPINGS[type(value)]
        items = [(key, self.encode(item, (*path, str(key)))) for key, item in value.items()]
        if tag == "!dict" and all(type(key) is str and not key.startswith("!") for key in value):
            return dict(items)
        return {tag: [[self.encode(key, path), item] for key, item in items]}

    def _tensor(self, value: torch.Tensor, path: tuple[str, ...]) -> str:
        if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
            kind = "meta" if value.device.type == "meta" else "quantized" if value.is_quantized else str(value.layout)
            raise InvalidRequest(
                f"{_name(path)} is a {kind} tensor, which a checkpoint cannot hold", hint="convert it to a dense tensor"
            )
        plain = value.resolve_conj().resolve_neg()
        self._keep.append(plain)
        same = (plain.device, plain.data_ptr(), plain.dtype, plain.shape, plain.stride())
        if plain.numel() and same in self._seen:
            return self._seen[same]
        name = _name(path)
        while name in self.tensors or name == "__metadata__":
            name += "~"
        self.tensors[name] = plain
        self._seen[same] = name
        return name

    def _numpy(self, value: Any, path: tuple[str, ...]) -> Any:
        array = np.asarray(value)
        if not array.dtype.isnative or not array.flags.writeable or any(s < 0 for s in array.strides):
            array = array.astype(array.dtype.newbyteorder("="), copy=True)
        try:
            tensor = torch.from_numpy(array)
        except TypeError:
            raise InvalidRequest(f"{_name(path)} is an array of {array.dtype}", hint="use numeric arrays") from None
        return {"!ndarray" if isinstance(value, np.ndarray) else "!scalar": self._tensor(tensor, path)}


def _decode(value: Any, tensors: Tensors) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or not (tag := next(iter(value))).startswith("!"):
        return {key: _decode(item, tensors) for key, item in value.items()}
    content = value[tag]
    if tag in _MAKE_MAPPING:
        return _MAKE_MAPPING[tag]({_decode(key, tensors): _decode(item, tensors) for key, item in content})
    match tag:
        case "!tensor":
            return tensors[content]
        case "!ndarray":
            return tensors[content].numpy()
        case "!scalar":
            return tensors[content].numpy()[()]
        case "!tuple":
            return tuple(_decode(item, tensors) for item in content)
        case "!bytes":
            return base64.b64decode(content, validate=True)
        case "!float":
            return float(content)
        case "!int":
            return int(content, 16)
        case "!dtype":
            return dtype_named(content)
        case "!device":
            return torch.device(content)
    raise ValueError(f"unknown mark {tag}")


def dtype_named(name: str) -> torch.dtype:
    found = vars(torch).get(name)  # not getattr: that imports submodules
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name} is not a tensor type")
    return found


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path) or "state"
