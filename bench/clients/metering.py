"""Switches the meter of a program off and on, so that one run has steps with it and steps without."""

from __future__ import annotations

from typing import Any

from pliant.files import time_meter


class Metering:
    def __init__(self) -> None:
        wait, meter = time_meter._Wait, time_meter.TimeMeter
        self._methods = [(wait, "__enter__"), (wait, "__exit__"), (meter, "unit")]
        self._real = [getattr(owner, name) for owner, name in self._methods]

    def switch(self, *, on: bool) -> None:
        for (owner, name), real in zip(self._methods, self._real, strict=True):
            setattr(owner, name, real if on else _nothing)


def _nothing(*_: Any) -> None:
    return
