"""Values as JSON and back, by type: what comes from another process is a frozen dataclass within limits, or ``CorruptData``.

``plain`` makes JSON values of dataclasses, enums, tuples, mappings and numbers. ``decode`` is its inverse and believes nothing:
every value is of exactly the type that the dataclass declares, numbers are finite and of limited size, texts and collections of
limited length. Fields with a default may be missing and keys that are no fields are ignored, so two releases understand each
other. What values mean together is checked by whoever knows (``planning/history_json.py``, ``planning/proposal_check.py``).

Known types: dataclasses, enums of strings, ``bool``, ``int`` (0 to 2^63 - 1), ``float``, ``str``, one of these or None, tuples
and mappings with keys of text. ``files/typed_json.py`` reads flat records, in which no field may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from math import isfinite
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from pliant.core.errors import CorruptData

MAX_INT = 2**63 - 1
MAX_TEXT = 16_384  # characters
MAX_ITEMS = 100_000  # of one tuple or mapping

T = TypeVar("T")


def plain(value: object) -> Any:
    """Raises ``TypeError`` for what has no JSON form. Numbers of other kinds (numpy's) become Python's."""
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def decode(kind: type[T], value: object, where: str) -> T:
    """A dataclass, of JSON values. ``where`` begins the path that errors name."""
    if not isinstance(value, Mapping):
        raise CorruptData(f"{where} is {_shown(value)}, expected an object")
    found: dict[str, Any] = {}
    for name, (wanted, is_required) in _fields(cast(Any, kind)).items():
        if name in value:
            found[name] = _decode(wanted, value[name], f"{where}.{name}")
        elif is_required:
            raise CorruptData(f"{where}.{name} is missing")
    return kind(**found)


@lru_cache(maxsize=256)
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    """Of a dataclass: the type of each field, and whether it must be there."""
    hints = get_type_hints(kind)
    return {
        field.name: (hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(cast(Any, kind))
    }


def _decode(wanted: Any, value: object, where: str) -> Any:
    if isinstance(wanted, type) and wanted in _SIMPLE:
        if not _SIMPLE[wanted](value):
            raise CorruptData(f"{where} is {_shown(value)}, expected {wanted.__name__}")
        return float(cast(float, value)) if wanted is float else value
    if isinstance(wanted, UnionType):
        inner, *others = [option for option in get_args(wanted) if option is not NoneType]
        assert not others, f"{wanted}: only one type, or None"
        return None if value is None else _decode(inner, value, where)
    if get_origin(wanted) is tuple:
        return _decode_tuple(get_args(wanted), value, where)
    if get_origin(wanted) is Mapping:
        return _decode_mapping(get_args(wanted)[1], value, where)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        if type(value) is not str or value not in {option.value for option in wanted}:
            raise CorruptData(f"{where} is {_shown(value)}, expected one of {', '.join(o.value for o in wanted)}")
        return wanted(value)
    if is_dataclass(wanted) and isinstance(wanted, type):
        return decode(wanted, value, where)
    raise TypeError(f"{wanted} is not supported")


def _decode_tuple(items: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_ITEMS:
        raise CorruptData(f"{where} is {_shown(value)}, expected an array of at most {MAX_ITEMS} items")
    wanted = [items[0]] * len(value) if items[-1] is Ellipsis else items
    if len(wanted) != len(value):
        raise CorruptData(f"{where} has {len(value)} items, expected {len(wanted)}")
    return tuple(_decode(each, item, f"{where}[{i}]") for i, (each, item) in enumerate(zip(wanted, value, strict=True)))


def _decode_mapping(item: Any, value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping) or len(value) > MAX_ITEMS or not all(_is_text(key) for key in value):
        raise CorruptData(f"{where} is {_shown(value)}, expected an object of at most {MAX_ITEMS} keys")
    return {key: _decode(item, inner, f"{where}[{_shown(key)}]") for key, inner in value.items()}


def _is_text(value: object) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT


def _is_float(value: object) -> bool:
    return type(value) in (int, float) and abs(cast(float, value)) <= MAX_INT and isfinite(cast(float, value))


_SIMPLE = {
    bool: lambda value: type(value) is bool,
    int: lambda value: type(value) is int and 0 <= value <= MAX_INT,
    float: _is_float,
    str: _is_text,
}


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key is {type(key).__name__}, not str")
    return key


def _shown(value: object) -> str:
    """Cut, and cheap whatever it is."""
    if isinstance(value, str):
        return f"{value[:60]!r}"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a huge number"
    return f"{value!r:.60}" if isinstance(value, int | float | NoneType) else f"of type {type(value).__name__}"
