"""Values as JSON and back, by type: what comes from another process is a frozen dataclass within limits, or ``CorruptData``.

``plain`` makes JSON values of dataclasses, enums, tuples, mappings and numbers. ``decode`` is its inverse and believes nothing:
every value is of exactly the type that the dataclass declares, numbers are finite and of limited size, texts and collections of
limited length. Fields with a default may be missing and keys that are no fields are ignored, so two releases understand each
other. What values mean together is checked by whoever knows (``planning/history_json.py``, ``planning/proposal_check.py``).

Known types: dataclasses, enums of strings, ``bool``, ``int`` (0 to 2^63 - 1), ``float``, ``str``, one of these or None, tuples
and mappings with keys of text. ``files/typed_json.py`` reads flat records, in which no field may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from pliant.core.errors import CorruptData

MAX_INT = 2**63 - 1
MAX_TEXT = 16_384  # characters
MAX_ITEMS = 100_000  # of one tuple or mapping
_AS_THEY_ARE = frozenset({NoneType, bool, int, float, str})

T = TypeVar("T")
Decoder = Callable[[Any], Any]


class _Mismatch(Exception):
    """A value that is not of its type; the path to it grows on the way up, so that sound values pay nothing for it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path = ""

    def inside(self, step: str) -> _Mismatch:
        self.path = step + self.path
        return self


# --- values to JSON


def plain(value: object) -> Any:
    """Raises ``TypeError`` for what has no JSON form. Numbers of other kinds (numpy's) become Python's."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is tuple or kind is list:
        return [plain(inner) for inner in cast(Any, value)]
    if is_dataclass(kind):
        return {name: plain(getattr(value, name)) for name in _names(kind)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Mapping):
        return {_key(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    raise TypeError(f"{kind.__name__} has no JSON form")


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key is {type(key).__name__}, not str")
    return key


# --- JSON to values


def decode(kind: type[T], value: object, where: str) -> T:
    """A dataclass, of JSON values. ``where`` begins the path that errors name."""
    try:
        return cast(T, _decoder(cast(Any, kind))(value))
    except _Mismatch as error:
        raise CorruptData(f"{where}{error.path} {error}") from None


@cache
def _decoder(wanted: Any) -> Decoder:
    if wanted in _SIMPLE:
        return _SIMPLE[wanted]
    if isinstance(wanted, UnionType):
        inner, *others = [option for option in get_args(wanted) if option is not NoneType]
        assert not others, f"{wanted}: only one type, or None"
        of_inner = _decoder(inner)
        return lambda value: None if value is None else of_inner(value)
    if get_origin(wanted) is tuple:
        first, *rest = get_args(wanted)
        return (
            _of_array(_decoder(first)) if rest == [Ellipsis] else _of_items([_decoder(each) for each in (first, *rest)])
        )
    if get_origin(wanted) is Mapping:
        return _of_mapping(_decoder(get_args(wanted)[1]))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _of_enum(wanted)
    if isinstance(wanted, type) and is_dataclass(wanted):
        return _of_dataclass(wanted)
    raise TypeError(f"{wanted} is not supported")


def _of_dataclass(kind: Any) -> Decoder:
    hints = get_type_hints(kind)
    parts = [
        (field.name, _decoder(hints[field.name]), field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    ]

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Mismatch(f"is {_shown(value)}, expected an object")
        found: dict[str, Any] = {}
        for name, of_field, is_required in parts:
            if name in value:
                try:
                    found[name] = of_field(value[name])
                except _Mismatch as error:
                    raise error.inside(f".{name}") from None
            elif is_required:
                raise _Mismatch("is missing").inside(f".{name}")
        return kind(**found)

    return read


def _of_array(of_item: Decoder) -> Decoder:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) > MAX_ITEMS:
            raise _Mismatch(f"is {_shown(value)}, expected an array of at most {MAX_ITEMS} items")
        found: list[Any] = []
        try:
            for item in value:
                found.append(of_item(item))
        except _Mismatch as error:
            raise error.inside(f"[{len(found)}]") from None
        return tuple(found)

    return read


def _of_items(of_items: list[Decoder]) -> Decoder:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _Mismatch(f"is {_shown(value)}, expected an array of {len(of_items)} items")
        if len(value) != len(of_items):
            raise _Mismatch(f"has {len(value)} items, expected {len(of_items)}")
        found: list[Any] = []
        try:
            for of_item, item in zip(of_items, value, strict=True):
                found.append(of_item(item))
        except _Mismatch as error:
            raise error.inside(f"[{len(found)}]") from None
        return tuple(found)

    return read


def _of_mapping(of_item: Decoder) -> Decoder:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or len(value) > MAX_ITEMS:
            raise _Mismatch(f"is {_shown(value)}, expected an object of at most {MAX_ITEMS} keys")
        found: dict[str, Any] = {}
        for key, item in value.items():
            try:
                found[_text(key)] = of_item(item)
            except _Mismatch as error:
                raise error.inside(f"[{_shown(key)}]") from None
        return found

    return read


def _of_enum(kind: type[Enum]) -> Decoder:
    options = {option.value: option for option in kind}

    def read(value: Any) -> Enum:
        if type(value) is not str or value not in options:
            raise _Mismatch(f"is {_shown(value)}, expected one of {', '.join(options)}")
        return options[value]

    return read


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise _Mismatch(f"is {_shown(value)}, expected bool")


def _int(value: Any) -> int:
    if type(value) is int and 0 <= value <= MAX_INT:
        return value
    raise _Mismatch(f"is {_shown(value)}, expected int")


def _float(value: Any) -> float:
    if (type(value) is float or type(value) is int) and -MAX_INT <= value <= MAX_INT:  # NaN is not
        return float(value)
    raise _Mismatch(f"is {_shown(value)}, expected float")


def _text(value: Any) -> str:
    if type(value) is str and len(value) <= MAX_TEXT:
        return value
    raise _Mismatch(f"is {_shown(value)}, expected str")


_SIMPLE: Mapping[Any, Decoder] = {bool: _bool, int: _int, float: _float, str: _text}


def _shown(value: object) -> str:
    """Cut, and cheap whatever it is."""
    if isinstance(value, str):
        return f"{value[:60]!r}"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a huge number"
    return f"{value!r:.60}" if isinstance(value, int | float | NoneType) else f"of type {type(value).__name__}"
