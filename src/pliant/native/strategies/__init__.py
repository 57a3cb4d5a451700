"""Training strategies: one module each, all behind ``base.Strategy``."""

from __future__ import annotations

from importlib import import_module

from pliant.core.errors import NotAvailable
from pliant.native.strategies.base import Strategy

STRATEGIES = {  # name: module and class
    "local": "steps:StepStrategy",
    "allreduce": "steps:StepStrategy",
    "ps-sync": "servers:ServerStrategy",
    "ps-async": "servers:ServerStrategy",
}


def strategy_class(name: str) -> type[Strategy]:
    if name not in STRATEGIES:
        raise NotAvailable(f"unknown native training strategy {name!r}", hint=f"known: {', '.join(STRATEGIES)}")
    module, _, kind = STRATEGIES[name].partition(":")
    found: type[Strategy] = getattr(import_module(f"pliant.native.strategies.{module}"), kind)
    return found
