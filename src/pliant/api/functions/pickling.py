"""Pickling by value what no other process can import, with cloudpickle, and refusing what would not arrive as it is.

A lock, an open file, a socket, a generator or a tensor on a GPU means something in this process only; a module that was made by
a program cannot be imported elsewhere. Each is refused before anything is started, by the name that it has in the function, as is
a function that brings too much along: then the largest of what it captured are named.
"""

from __future__ import annotations

import asyncio
import dis
import io
import socket
import subprocess
import sys
import threading
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pliant.api.functions.references import MAIN, is_importable
from pliant.api.functions.values import is_torch_tensor, type_name
from pliant.core.errors import InvalidRequest, NotAvailable

MAX_PAYLOAD_BYTES = 1 << 20
MAX_SEARCHED = 20_000  # objects that are looked at for the name of a refused one
NAMED = 5  # of the largest
INSIDE = "create it inside the function: each worker is a process of its own"

_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Semaphore, threading.Event)
_GENERATORS = (types.GeneratorType, types.AsyncGeneratorType, types.CoroutineType)


@dataclass(frozen=True)
class Capture:
    """What a function brings along under one name: a variable, a global, an argument."""

    name: str
    value: Any


class _Refused(Exception):
    def __init__(self, what: str, value: object, hint: str = INSIDE) -> None:
        super().__init__(what)
        self.what, self.value, self.hint = what, value, hint


class _CountedBytes(io.RawIOBase):
    """Keeps what is written as long as it is within the limit, and counts the rest."""

    def __init__(self, limit: int) -> None:
        self.content = io.BytesIO()
        self.size = 0
        self._limit = limit

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        length = memoryview(data).nbytes
        self.size += length
        if self.size <= self._limit:
            self.content.write(data)
        return length


def pickled(
    what: object, label: str, captures: Sequence[Capture], *, limit: int = MAX_PAYLOAD_BYTES
) -> tuple[bytes, frozenset[str]]:
    """The pickle, and the modules that it names. ``label``: the function's name for errors. Raises ``InvalidRequest``."""
    cloudpickle_module()
    output = _CountedBytes(limit)
    try:
        modules = _dump(what, output)
    except _Refused as refused:
        name = _name_of(refused.value, captures)
        raise InvalidRequest(
            f"{label} cannot be sent: it captures {refused.what}{f', {name}' if name else ''}", hint=refused.hint
        ) from None
    except RecursionError:
        raise InvalidRequest(f"{label} cannot be sent: what it captures is nested too deeply") from None
    except Exception as error:  # noqa: BLE001  # of any object's own way to be pickled
        raise InvalidRequest(
            f"{label} cannot be sent: {_culprit(captures)}cannot be pickled ({type(error).__name__}: {error})",
            hint=INSIDE,
        ) from None
    if output.size > limit:
        raise too_large(label, output.size, captures)
    return output.content.getvalue(), modules


def too_large(label: str, size: int, captures: Sequence[Capture]) -> InvalidRequest:
    sizes = sorted(((size_of(capture.value), capture) for capture in captures), key=lambda found: -found[0])
    largest = [f"`{one.name}` ({type_name(one.value)}, {found:,} bytes)" for found, one in sizes[:NAMED] if found]
    return InvalidRequest(
        f"{label} with what it captures has {size:,} bytes; at most {MAX_PAYLOAD_BYTES:,} can be sent."
        f" The largest: {', '.join(largest) or 'its code'}",
        hint="pass the path or the name of the data, and load it inside the function; small files can be sent with files=[…]",
    )


def size_of(value: object) -> int:
    """In bytes, as pickled; 0: it cannot be."""
    output = _CountedBytes(0)
    try:
        _dump(value, output)
    except Exception:  # noqa: BLE001  # likewise
        return 0
    return output.size


def captures_of(function: object, args: Sequence[Any], kwargs: Mapping[str, Any], *, by_value: bool) -> list[Capture]:
    """``by_value``: the function is pickled, with its variables."""
    found = [Capture(f"args[{at}]", value) for at, value in enumerate(args)]
    found += [Capture(f"kwargs[{name!r}]", value) for name, value in kwargs.items()]
    if by_value:
        found += [Capture(name, value) for name, value in _variables(function)]
        if not isinstance(function, types.FunctionType):
            found.append(Capture("the function itself", function))
    return found


def cloudpickle_module() -> Any:
    try:
        return import_module("cloudpickle")
    except ImportError:
        raise NotAvailable(
            "a function of __main__, a notebook or a closure, or an argument that is not JSON, needs a package that is not"
            " installed: cloudpickle",
            hint="pip install 'pliant[notebook]'; or put the function into a module and import it from there",
        ) from None


def _dump(what: object, output: _CountedBytes) -> frozenset[str]:
    pickler = _pickler_class()(output)
    pickler.dump(what)
    return frozenset(pickler.modules)


def _pickler_class() -> Any:
    import cloudpickle

    class CheckedPickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Asks of each object whether it can travel."""

        def __init__(self, file: Any) -> None:
            super().__init__(file)
            self.modules: set[str] = set()

        def reducer_override(self, obj: Any) -> Any:
            if (stream := _standard_stream(obj)) is not None:
                return getattr, (sys, stream)
            refuse(obj)
            self._note_module(obj)
            return super().reducer_override(obj)

        def _note_module(self, obj: Any) -> None:
            if isinstance(obj, types.ModuleType):
                self.modules.add(obj.__name__)
                return
            if not isinstance(obj, type | types.FunctionType | types.BuiltinFunctionType):
                return
            module = getattr(obj, "__module__", None)
            if not isinstance(module, str) or module == MAIN or module not in sys.modules:
                return
            if not _is_found(obj, module):
                return  # pickled by value
            if not is_importable(module):
                name = getattr(obj, "__qualname__", "")
                raise _Refused(
                    f"{name} of the module {module}, which a worker cannot import",
                    obj,
                    "put it into a file that is a module",
                )
            self.modules.add(module)

    return CheckedPickler


def _standard_stream(obj: Any) -> str | None:
    """A notebook's is an object that could not travel; there is one of this name everywhere."""
    return next((name for name in ("stdout", "stderr") if obj is getattr(sys, name)), None)


def _is_found(obj: Any, module: str) -> bool:
    found: Any = sys.modules[module]
    for name in getattr(obj, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    return found is obj


def refuse(obj: Any) -> None:
    """Raises ``_Refused`` for what only this process can use."""
    if isinstance(obj, types.ModuleType):
        if not is_importable(obj.__name__):
            hint = "put it into a file that is a module, or import it inside the function"
            raise _Refused(f"the module {obj.__name__}, which a worker cannot import", obj, hint)
    elif isinstance(obj, _LOCKS):
        raise _Refused(f"a lock ({type_name(obj)})", obj)
    elif isinstance(obj, threading.Thread):
        raise _Refused("a thread", obj)
    elif isinstance(obj, io.IOBase) and not isinstance(obj, io.BytesIO | io.StringIO):
        raise _Refused(f"an open file ({getattr(obj, 'name', type_name(obj))!r:.100})", obj)
    elif isinstance(obj, socket.socket):
        raise _Refused("a socket", obj)
    elif isinstance(obj, _GENERATORS):
        raise _Refused(f"a generator ({obj.__qualname__})", obj, "create it inside the function, or pass a list")
    elif isinstance(obj, subprocess.Popen):
        raise _Refused("a process", obj)
    elif isinstance(obj, asyncio.AbstractEventLoop | asyncio.Future):
        raise _Refused(f"a part of an event loop ({type_name(obj)})", obj)
    elif is_torch_tensor(obj) and obj.is_cuda:
        raise _Refused("a CUDA tensor", obj, "send it as a CPU tensor: .cpu(); each worker has GPUs of its own")


def _culprit(captures: Sequence[Capture]) -> str:
    """The first that cannot be pickled alone, for an error that does not say where it is."""
    bad = next((capture for capture in captures if size_of(capture.value) == 0), None)
    return f"`{bad.name}` ({type_name(bad.value)}) " if bad is not None else "something that it captures "


def _variables(function: object) -> Iterator[tuple[str, Any]]:
    """What a function uses from outside: of its closure, and global ones."""
    function = getattr(function, "__func__", function)
    function = getattr(function, "func", function)  # of a partial one
    if not isinstance(function, types.FunctionType):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not set yet
            continue
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, value in zip(_defaulted(function), function.__defaults__ or (), strict=False):
        yield name, value
    yield from (function.__kwdefaults__ or {}).items()


def _defaulted(function: types.FunctionType) -> tuple[str, ...]:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return names[len(names) - len(function.__defaults__ or ()) :]


def _global_names(code: types.CodeType) -> set[str]:
    found = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= _global_names(inner)
    return found


def _name_of(wanted: object, captures: Sequence[Capture]) -> str:
    """Where an object is, as somebody would write it: ``state['lock']``; empty: it was not found."""
    todo = deque((capture.name, "", capture.value) for capture in captures)
    seen: set[int] = set()
    while todo and len(seen) < MAX_SEARCHED:
        name, user, value = todo.popleft()
        if value is wanted:
            return f"`{name}`{f', used by `{user}`' if user else ''}"
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            if value.__module__ == MAIN or "<" in value.__qualname__:
                todo.extend((inner, value.__name__, item) for inner, item in _variables(value))
        else:
            todo.extend((f"{name}{part}", user, item) for part, item in _parts(value))
    return ""


def _parts(value: object) -> Iterator[tuple[str, Any]]:
    """What is inside, and how one gets to it."""
    if isinstance(value, dict):
        yield from ((f"[{key!r:.40}]", item) for key, item in list(value.items()))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{at}]", item) for at, item in enumerate(list(value)))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(inside := getattr(value, "__dict__", None), dict) and not isinstance(
        value, types.ModuleType | type
    ):
        yield from ((f".{key}", item) for key, item in list(inside.items()))
