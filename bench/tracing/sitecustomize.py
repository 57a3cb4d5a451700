"""Spans of a job's processes, from one clock, without a line in the product; ``ps_trace.py`` puts this on PYTHONPATH.

Python imports this module when it starts. If ``BENCH_TRACE`` names a folder, the methods in ``SPANS`` are wrapped when their
modules are imported, and each process writes its last ``MAX_EVENTS`` spans there when it ends (Chrome's trace-event JSON, one file
per process; ``ps_trace.py`` merges them). The clock is the system's monotonic one, which all processes of a machine share.
"""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

MAX_EVENTS = 200_000  # of one process

SPANS: dict[str, tuple[str, ...]] = {
    "pliant.ps.client.client": ("PsClient.pull", "PsClient.push"),
    "pliant.ps.client.push_staging": ("PushStager.stage", "PushStager.decide"),
    "pliant.ps.client.push_window": ("PushWindow._decide", "PushWindow.push"),
    "pliant.ps.client.staging_lane": ("StagingLane.begin", "StagingLane.wait", "StagingLane._finish"),
    "pliant.rpc.channel": ("MasterClient.call",),
    "pliant.ps.server.requests": ("_Connection.answer",),
    "pliant.ps.recovery.order_executor": ("OrderExecutor.stage", "OrderExecutor.execute"),
    "pliant.ps.recovery.push_log": ("PushLog.append", "PushLog.rotate"),
    "pliant.ps.store.store": ("ParameterStore.pulling", "ParameterStore.stage", "ParameterStore._apply"),
    "pliant.master.services.parameters": (
        "ParametersServicer.Contribute",
        "ParametersServicer.ContributeBatch",
        "ParametersServicer.NextOrders",
    ),
    "pliant.master.components.parameters.coordinator": (
        "ParameterCoordinator.contribute",
        "ParameterCoordinator.contribute_batch",
    ),
    "pliant.master.journal.store": ("SqliteStore.commit",),
    "pliant.master.journal.journal": ("Journal.durable", "Journal.take_snapshot"),
}

KINDS = {1: "pull rows", 2: "pull blocks", 3: "push"}  # of pliant.ps.wire.frames.Kind, which is not imported here
events: deque[dict[str, Any]] = deque(maxlen=MAX_EVENTS)


def _named(name: str, arguments: tuple[Any, ...]) -> str:
    """Requests by their kind, calls of the master by their method, orders by theirs."""
    if name == "_Connection.answer":
        return f"answer {KINDS.get(arguments[1].kind, arguments[1].kind)}"
    if name == "MasterClient.call":
        return f"call {type(arguments[2]).__name__.removesuffix('Request')}"
    if name == "OrderExecutor.execute":
        return f"order {arguments[1].kind.value}"
    return name


def _traced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    process = os.getpid()

    def note(begun: int, arguments: tuple[Any, ...], kind: str) -> None:
        common = {"name": _named(name, arguments), "cat": kind, "pid": process, "tid": threading.get_native_id()}
        ended = time.perf_counter_ns()
        if kind == "call":
            events.append({**common, "ph": "X", "ts": begun / 1000, "dur": (ended - begun) / 1000})
        else:  # spans of coroutines overlap
            events.append({**common, "ph": "b", "ts": begun / 1000, "id": begun})
            events.append({**common, "ph": "e", "ts": ended / 1000, "id": begun})

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def waiting(*arguments: Any, **named: Any) -> Any:
            begun = time.perf_counter_ns()
            try:
                return await function(*arguments, **named)
            finally:
                note(begun, arguments, "coroutine")

        return waiting

    @functools.wraps(function)
    def calling(*arguments: Any, **named: Any) -> Any:
        begun = time.perf_counter_ns()
        try:
            return function(*arguments, **named)
        finally:
            note(begun, arguments, "call")

    return calling


def _wrap(module: ModuleType) -> None:
    for path in SPANS[module.__name__]:
        owner_name, _, name = path.partition(".")
        owner = getattr(module, owner_name, None)
        if owner is not None and name in vars(owner):
            setattr(owner, name, _traced(path, vars(owner)[name]))


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        _wrap(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in SPANS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _write(folder: str) -> None:
    if not events:
        return
    role = os.environ.get("PLIANT_NODE") or "master"
    process = os.getpid()
    label = {"name": "process_name", "ph": "M", "pid": process, "args": {"name": role}}
    with open(os.path.join(folder, f"{role}-{process}.json"), "w") as file:
        json.dump([label, *events], file)


if _folder := os.environ.get("BENCH_TRACE"):
    sys.meta_path.insert(0, _Finder())
    atexit.register(_write, _folder)
