"""Allow-lists for parts of Kubernetes objects: which fields there may be, and of which type.

A ``Shape`` yields what is wrong with a value, each with the path of its field. What a shape does not name is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Violation:
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


Shape = Callable[[Any, str], Iterator[Violation]]


def anything(value: Any, path: str) -> Iterator[Violation]:
    """Passed to the API server as it is. Null would remove a field that Pliant sets."""
    if value is None:
        yield Violation(path, "is null; leave it out")


def of_type(*kinds: type) -> Shape:
    def check(value: Any, path: str) -> Iterator[Violation]:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            yield Violation(path, f"must be {_named(kinds)}, not {value!r}")

    return check


text, flag, number = of_type(str), of_type(bool), of_type(int)
amounts, mapping = of_type(int, str), of_type(dict)


def one_of(*allowed: Any) -> Shape:
    def check(value: Any, path: str) -> Iterator[Violation]:
        if value not in allowed or isinstance(value, bool) != isinstance(allowed[0], bool):
            yield Violation(path, f"may only be {' or '.join(_yaml(each) for each in allowed)}, not {_yaml(value)}")

    return check


def fields(**shapes: Shape) -> Shape:
    """A mapping with only these fields."""

    def check(value: Any, path: str) -> Iterator[Violation]:
        if not isinstance(value, Mapping):
            yield Violation(path, f"must be a mapping, not {value!r}")
            return
        for key, inner in value.items():
            where = f"{path}.{key}"
            yield from shapes[key](inner, where) if key in shapes else refused(inner, where)

    return check


def items(shape: Shape, *, named: bool = False) -> Shape:
    """A list. ``named``: each item needs a name, by which it is merged."""

    def check(value: Any, path: str) -> Iterator[Violation]:
        if not isinstance(value, list | tuple):
            yield Violation(path, f"must be a list, not {value!r}")
            return
        for position, item in enumerate(value):
            where = f"{path}[{position}]"
            if named and not (isinstance(item, Mapping) and isinstance(item.get("name"), str)):
                yield Violation(where, "has no name")
            yield from shape(item, where)

    return check


def values(shape: Shape) -> Shape:
    """A mapping with any keys."""

    def check(value: Any, path: str) -> Iterator[Violation]:
        if not isinstance(value, Mapping):
            yield Violation(path, f"must be a mapping, not {value!r}")
            return
        for key, inner in value.items():
            yield from shape(inner, f"{path}.{key}")

    return check


def refused(value: Any, path: str) -> Iterator[Violation]:
    yield Violation(path, "is not allowed in a template")


def refused_for(reason: str) -> Shape:
    def check(value: Any, path: str) -> Iterator[Violation]:
        yield Violation(path, reason)

    return check


def both(*shapes: Shape) -> Shape:
    def check(value: Any, path: str) -> Iterator[Violation]:
        for shape in shapes:
            yield from shape(value, path)

    return check


def _named(kinds: tuple[type, ...]) -> str:
    names = {str: "text", bool: "true or false", int: "a whole number", dict: "a mapping"}
    return " or ".join(names[kind] for kind in kinds)


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
