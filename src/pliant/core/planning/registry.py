"""Algorithms by name: the built-in ones, and those that teams add by entry point ``pliant.algorithms``.

An entry point names a class (or another callable without arguments) that makes an ``Algorithm``. A name with a colon,
``package.module:Class``, is such a callable itself: an algorithm that is on the path needs no package with an entry point.
Everything is imported when it is asked for: the built-in ones that fit need numpy. A name with a colon makes whoever loads it
import and call what it names, so take one only from those who may run code there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any

from pliant.core.errors import InvalidRequest, NotAvailable, NotFound, PliantError
from pliant.core.planning.proposal import Algorithm
from pliant.core.printable import escaped_line

GROUP = "pliant.algorithms"
_PACKAGE = "pliant.core.planning.algorithms"
_HOW_TO_NAME = "write package.module:Class"
BUILT_IN = {
    "oom_recover": "OomRecover",
    "memory_forecast": "MemoryForecast",
    "pending_fit": "PendingFit",
    "hot_ps": "HotPs",
    "straggler": "Straggler",
    "plan_job": "PlanJob",
    "probe": "Probe",
    "right_size": "RightSize",
    "create_from_history": "CreateFromHistory",
}
# The first that proposes something is heard: what is urgent before anything else, then in this order.
DEFAULT_CHAIN = (
    "oom_recover",
    "memory_forecast",
    "pending_fit",
    "hot_ps",
    "plan_job",
    "probe",
    "straggler",
    "right_size",
)
# Heard at any time, also while a plan settles, if what they propose is urgent.
URGENT = frozenset({"oom_recover", "memory_forecast", "pending_fit", "straggler", "hot_ps"})


def algorithm_names() -> list[str]:
    return sorted({entry.name for entry in entry_points(group=GROUP)} | set(BUILT_IN))


def algorithm(name: str) -> Algorithm:
    """Raises ``NotFound`` for an unknown name, ``NotAvailable`` if what it needs is not installed, ``InvalidRequest`` if what the
    name stands for makes no algorithm."""
    try:
        made = _factory(name)()
    except PliantError:
        raise
    except ImportError as error:
        hint = "pip install 'pliant[auto]'" if name in BUILT_IN else "install it, or add its directory to PYTHONPATH"
        raise NotAvailable(
            f"the algorithm {name!r} needs a package that is not installed: {error}", hint=hint
        ) from error
    except (Exception, SystemExit) as error:  # the border of the algorithm
        text = escaped_line(f"{type(error).__name__}: {error}")
        raise InvalidRequest(
            f"algorithm {name!r} cannot be loaded: {text}", hint="it is imported and called without arguments"
        ) from error
    if not callable(made):
        raise InvalidRequest(f"algorithm {name!r} is not callable, but {type(made).__name__}")
    chosen: Algorithm = made
    return chosen


def _factory(name: str) -> Callable[[], Any]:
    if name in BUILT_IN:
        made: Any = getattr(import_module(f"{_PACKAGE}.{name}"), BUILT_IN[name])
    elif ":" in name:
        module, _, qualname = name.partition(":")
        if not module or module.startswith("."):
            raise NotFound(f"algorithm {name!r} not found: {module!r} is not the name of a module", hint=_HOW_TO_NAME)
        loaded = import_module(module)
        try:
            made = attrgetter(qualname)(loaded)
        except AttributeError as error:
            raise NotFound(f"algorithm {name!r} not found: {error}", hint=_HOW_TO_NAME) from error
    else:
        found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
        if not found:
            raise NotFound(f"unknown algorithm {name!r}", hint=f"known: {', '.join(algorithm_names())}")
        made = found[0].load()
    if not callable(made):
        raise InvalidRequest(f"algorithm {name!r} is {type(made).__name__}, not a class or another callable")
    factory: Callable[[], Any] = made
    return factory


def chain(names: Sequence[str] = DEFAULT_CHAIN) -> list[Algorithm]:
    return [algorithm(name) for name in names]
