"""What a master is made of: components with one life cycle.

The controller holds a list of them and knows no more of any than this. A component starts, is ticked, reacts to what the
others publish (``signals``), adds what only it knows to the job's status, and stops. Work that goes on beside the ticks
runs in tasks of the component. An error that ends a vital one (following the nodes) ends the master, and its successor
starts it again; training goes on without any other (reports, measurements), and the error is in the log.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC
from collections.abc import Coroutine
from typing import ClassVar

from pliant.core.status_builder import LiveFigures
from pliant.master.components.signals import Signal

log = logging.getLogger(__name__)


class Component(ABC):  # each method has a default: a component implements what it needs
    name: ClassVar[str]  # in the status, and of its state machine
    title: ClassVar[str]  # for people
    enabled_by: ClassVar[str] = ""  # what to ask for, to have it run

    def prepare(self) -> None:
        """Before the master serves: continue from the state that the journal has."""
        return

    async def start(self) -> None:
        """Once it serves: compare with the world outside, and begin what runs beside the ticks."""
        return

    async def tick(self) -> None:
        """Act on the time that has passed."""
        return

    def on_event(self, signal: Signal) -> None:
        """React to what another component published."""
        return

    def status(self, live: LiveFigures) -> LiveFigures:
        """Add what this component alone knows to what the job's status shows of a living master."""
        return live

    def is_settled(self) -> bool:
        """Asked when a job could end well: is all there that shall be there at its end, and has everyone heard of it who
        must? If not, see to it."""
        return True

    async def stop(self) -> None:
        """The master ends; the job may go on under another one."""
        return

    def check(self) -> None:
        """Raise what went wrong beside the ticks."""
        return


class BackgroundComponent(Component):
    """One with tasks of its own."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._vital: list[asyncio.Task[None]] = []

    def run_beside(self, work: Coroutine[None, None, None], *, is_vital: bool = False) -> None:
        """``is_vital``: the master cannot do without it."""
        task = asyncio.create_task(work)
        self._tasks.append(task)
        if is_vital:
            self._vital.append(task)
        else:
            task.add_done_callback(self._log_failure)

    def check(self) -> None:
        for task in self._vital:
            if task.done() and not task.cancelled():
                task.result()

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the %s failed; the job continues without it", self.title, exc_info=error)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._vital.clear()
