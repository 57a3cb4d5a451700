"""From a function and its arguments to a payload: by reference where another process can import it, else by value.

Arguments that JSON expresses exactly are sent as such; others (arrays, classes of the user) are pickled as the function would be.
"""

from __future__ import annotations

import functools
import inspect
import json
import linecache
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from pliant.api.functions.payload import Payload, Stamps
from pliant.api.functions.pickling import MAX_PAYLOAD_BYTES, captures_of, pickled, too_large
from pliant.api.functions.references import folder_of_imports, reference_to
from pliant.api.functions.values import NotPlain, PlainValue, encode
from pliant.core.errors import InvalidRequest

MAX_SOURCE_CHARACTERS = 64 << 10  # of the text that tracebacks show


@dataclass(frozen=True)
class PackedFunction:
    payload: Payload
    modules: frozenset[str]  # that the other side has to import


def pack(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, has_path: bool
) -> PackedFunction:
    """``has_path``: the workers see the same files, so the import path travels too. Raises ``InvalidRequest``."""
    label = label_of(function)
    _check_callable(function, label)
    _check_arguments(function, args, kwargs, label)
    reference = reference_to(function)
    captures = captures_of(function, args, kwargs, by_value=reference is None)
    arguments = _plain_arguments(args, kwargs)
    modules = frozenset({reference.module} if reference else ())
    body = b""
    if reference is None or arguments is None:
        what = (None if reference else function, None if arguments is not None else (tuple(args), dict(kwargs)))
        body, named = pickled(what, label, captures)
        modules |= named
    size = len(body) + (len(json.dumps(arguments.structure)) if arguments is not None else 0)
    if size > MAX_PAYLOAD_BYTES:
        raise too_large(label, size, captures)
    payload = Payload(
        label,
        Stamps.here(),
        reference,
        arguments.structure if arguments is not None else None,
        _import_path(modules) if has_path else (),
        {} if reference else _sources(function),
        body,
    )
    return PackedFunction(payload, modules)


def label_of(function: Callable[..., Any]) -> str:
    """The function's name, for people."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return str(name).rpartition("<locals>.")[2][:200]


def _check_callable(function: Callable[..., Any], label: str) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidRequest(
            f"{label} is a generator function, which does nothing when it is called", hint="return a value"
        )


def _check_arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], label: str) -> None:
    if odd := next((name for name in kwargs if not isinstance(name, str)), None):
        raise InvalidRequest(f"kwargs of {label} has the key {odd!r:.60}, which does not name an argument")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some of C have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidRequest(
            f"{label}{signature!s:.200} cannot be called with these arguments: {error}",
            hint="check args=(…) and kwargs={…}",
        ) from None


def _plain_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> PlainValue | None:
    """None: JSON does not express them."""
    try:
        found = encode([list(args), dict(kwargs)], "arguments")
    except NotPlain:
        return None
    return found if not found.tensors else None


def _import_path(modules: frozenset[str]) -> tuple[str, ...]:
    """That of this process, as absolute folders, and those of modules that it does not lead to."""
    folders = [folder_of_imports(module) for module in sorted(modules)]
    found = [str(folder) for folder in folders if folder is not None and not _is_on_path(folder)]
    return tuple(dict.fromkeys([*found, *(os.path.abspath(entry) for entry in sys.path)]))


def _is_on_path(folder: Path) -> bool:
    return any(Path(entry or ".").resolve() == folder for entry in sys.path)


def _sources(function: Callable[..., Any]) -> dict[str, str]:
    """The text of what was written in a notebook or a prompt, which no other process could read for a traceback."""
    found: dict[str, str] = {}
    for code in _codes(function):
        name = code.co_filename
        text = "".join(linecache.getlines(name))
        if text and not os.path.exists(name) and sum(map(len, found.values())) + len(text) <= MAX_SOURCE_CHARACTERS:
            found[name] = text
    return found


def _codes(function: Callable[..., Any]) -> list[CodeType]:
    """Of the function, and of those that it calls and that travel with it."""
    found: dict[CodeType, None] = {}
    todo: list[Any] = [function]
    while todo:
        one = todo.pop()
        one = getattr(one, "__func__", getattr(one, "func", one))
        if isinstance(one, FunctionType) and one.__code__ not in found and reference_to(one) is None:
            found[one.__code__] = None
            todo.extend(capture.value for capture in captures_of(one, (), {}, by_value=True))
    return list(found)
