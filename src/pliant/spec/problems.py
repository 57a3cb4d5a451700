"""From what pydantic found to a ``SpecError``: each problem on a line, with field, value and what is allowed."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from pliant.core.errors import SpecError
from pliant.spec.base import NOT_ALLOWED, Contradiction, Problem

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
KEY = "[key]"  # how pydantic says that the key itself is wrong
Schema = dict[str, Any]


def spec_error(found: ValidationError, schema: Schema, source: str, what: str = "job spec") -> SpecError:
    lines = list(dict.fromkeys(_lines(found, schema)))
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return SpecError("\n".join([f"{source}: {count} in the {what}", *(f"  - {line}" for line in lines)]))


def _lines(found: ValidationError, schema: Schema) -> Iterator[str]:
    for error in found.errors(include_url=False):
        path, value = list(error["loc"]), error["input"]
        key_is_wrong = path[-1:] == [KEY] and error["type"] != "extra_forbidden"
        if key_is_wrong:
            path.pop()
        cause = error.get("ctx", {}).get("error")
        if isinstance(cause, Contradiction):
            yield from (_line([*path, *problem.path], problem) for problem in cause.problems)
        elif error["type"] == "extra_forbidden":
            yield f"{_dotted(path)}: unknown field{_meant(str(path[-1]), list(_at(schema, path[:-1]).get('properties', ())))}"
        elif error["type"] == "missing":
            yield f"{_dotted(path)}: missing; allowed: {_allowed(_at(schema, path))}"
        elif error["type"] == NOT_ALLOWED:
            yield _line(path, Problem((), value, error["ctx"]["allowed"]))
        elif key_is_wrong or error["type"] == "invalid_key":
            yield _line(path, Problem((), value, "a string as the name"))
        else:
            node = _at(schema, path)
            allowed = _allowed(node) or error["msg"]
            line = f"{_dotted(path)}: no value; allowed: {allowed}"
            yield (line if value is None else _line(path, Problem((), value, allowed))) + _near(value, node)


def _line(path: Sequence[str | int], problem: Problem) -> str:
    if problem.value is None:
        return f"{_dotted(path)}: {problem.allowed}"
    shown = _SHORT.repr(problem.value)
    return f"{_dotted(path)}: got {shown}; allowed: {problem.allowed}"


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path)) or "the spec"


def _meant(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"


def _near(value: object, node: Schema) -> str:
    close = get_close_matches(str(value), node.get("enum", []), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _at(schema: Schema, path: Sequence[str | int]) -> Schema:
    """The part of an inlined schema that describes one field; empty if there is none."""
    for part in path:
        inner = schema.get("properties", {}).get(part) or schema.get("items") or schema.get("additionalProperties")
        schema = inner if isinstance(inner, dict) else {}
    return schema


def _allowed(node: Schema) -> str:
    match node.get("type"):
        case "integer" | "number":
            return ("an integer" if node["type"] == "integer" else "a number") + _range(node)
        case "boolean":
            return "true or false"
        case "array":
            return "a list"
        case "object":
            names = ", ".join(node.get("properties", {}))
            return f"a mapping with {names}" if names else "a mapping"
        case "string" if "enum" in node:
            return f"one of {', '.join(node['enum'])}"
        case "string":
            return "a string" + (f" of the form {node['pattern']}" if "pattern" in node else _length(node))
    return "a number or a string" if node else ""


def _range(node: Schema) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if node.get("exclusiveMinimum"):
        return f" of more than {low:g}"
    if low is not None and high is not None and high <= 100_000:
        return f" from {low} to {high}"
    return f" of at least {low}" if low is not None else ""


def _length(node: Schema) -> str:
    low, high = node.get("minLength", 0), node.get("maxLength")
    return f" of {low} to {high} characters" if high else " that is not empty" if low else ""
