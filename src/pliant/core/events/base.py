"""An event as facts: the base class, its facts as JSON values, and its sentence for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from pliant.core.errors import CorruptData
from pliant.core.events.kinds import EventKind

MAX_TEXT = 4000  # characters of one fact
MAX_NAMES = 5  # in a sentence

_TYPES: dict[EventKind, type[Event]] = {}


@dataclass(frozen=True, kw_only=True)
class Event:
    """The base of all. A subclass names its kind; what concerns one node has a field ``node``."""

    kind: ClassVar[EventKind]

    def __init_subclass__(cls, *, kind: EventKind, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.kind = kind
        _TYPES[kind] = cls

    def _sentence(self) -> str:
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {field.name: _to_json(getattr(self, field.name)) for field in fields(self)}

    def cleaned(self) -> Event:
        """The same with texts that every store takes: not too long, and no half of a surrogate pair."""
        return replace(self, **{field.name: _clean(getattr(self, field.name)) for field in fields(self)})


def describe(event: Event) -> str:
    """The sentence for people."""
    return event._sentence()[:MAX_TEXT]


def event_from_facts(kind: str, facts: Mapping[str, Any]) -> Event:
    """The opposite of ``kind`` and ``facts()``; numbers may have become floats on their way."""
    try:
        known = EventKind(kind)
        hints = _hints(known)
        return _TYPES[known](**{name: _from_json(hints[name], value) for name, value in facts.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptData(f"an event of kind {kind!r} with the facts {facts!r} cannot be parsed: {error!r}") from error


def event_type(kind: EventKind) -> type[Event]:
    return _TYPES[kind]


def some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")


# --- facts as JSON


@cache
def _hints(kind: EventKind) -> dict[str, Any]:
    return get_type_hints(_TYPES[kind])


def _clean(value: Any) -> Any:
    if type(value) is str:
        return value[:MAX_TEXT].encode("utf-8", "replace").decode()
    match value:
        case tuple():
            return tuple(_clean(item) for item in value)
        case Mapping():
            return {_clean(key): item for key, item in value.items()}
    return value


def _to_json(value: Any) -> Any:
    if type(value) is str:
        return value  # the most frequent by far, in lists of nodes
    match value:
        case StrEnum():
            return value.value
        case float() if not math.isfinite(value):
            return str(value)  # JSON has no number for it
        case tuple():
            return [_to_json(item) for item in value]
        case Mapping():
            return {key: _to_json(item) for key, item in value.items()}
    return value


def _from_json(hint: Any, value: Any) -> Any:
    if get_origin(hint) is tuple:
        return tuple(_from_json(get_args(hint)[0], item) for item in value)
    if get_origin(hint) is Mapping:
        return {key: _from_json(get_args(hint)[1], item) for key, item in value.items()}
    return hint(value)
