"""Algorithms by name: the built-in ones, and those that teams add by entry point ``pliant.algorithms``.

An entry point names a class (or another callable without arguments) that makes an ``Algorithm``. Everything is imported when it
is asked for: the built-in ones that fit need numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points

from pliant.core.errors import NotAvailable, NotFound
from pliant.core.planning.proposal import Algorithm

GROUP = "pliant.algorithms"
_PACKAGE = "pliant.core.planning.algorithms"
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
URGENT = frozenset({"oom_recover", "memory_forecast", "pending_fit", "straggler"})


def algorithm_names() -> list[str]:
    return sorted({entry.name for entry in entry_points(group=GROUP)} | set(BUILT_IN))


def algorithm(name: str) -> Algorithm:
    """Raises ``NotFound`` for an unknown name, ``NotAvailable`` if what it needs is not installed."""
    try:
        if name in BUILT_IN:
            made = getattr(import_module(f"{_PACKAGE}.{name}"), BUILT_IN[name])()
        else:
            found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
            if not found:
                raise NotFound(f"unknown algorithm {name!r}", hint=f"known: {', '.join(algorithm_names())}")
            made = found[0].load()()
    except ImportError as error:
        raise NotAvailable(
            f"the algorithm {name!r} needs a package that is not installed: {error}", hint="pip install 'pliant[auto]'"
        ) from error
    assert callable(made), f"algorithm {name!r} is not callable"
    chosen: Algorithm = made
    return chosen


def chain(names: Sequence[str] = DEFAULT_CHAIN) -> list[Algorithm]:
    return [algorithm(name) for name in names]
