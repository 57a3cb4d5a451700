"""Keeps in the journal how far the programs say they are, so that a restarted master does not begin at zero.

Reports arrive several times a second and stay in memory (``stats``); every few seconds, when the last step is done and when the
job ends, the newest state becomes an operation of ``core.progress.ProgressBook``.
"""

from __future__ import annotations

from pliant.core.clock import Clock
from pliant.core.progress import ProgressBook, ProgressTracker, progress_to_json
from pliant.master.components.base import Component
from pliant.master.components.signals import JobOver, Signal, StepReported
from pliant.master.journal.journal import Journal


class ProgressRecorder(Component):
    name = "progress"
    title = "progress recorder"

    def __init__(self, book: ProgressBook, tracker: ProgressTracker, journal: Journal, clock: Clock) -> None:
        self._book = book
        self._tracker = tracker
        self._journal = journal
        self._clock = clock

    def prepare(self) -> None:
        self._tracker.resume(self._book.latest)

    async def tick(self) -> None:
        if self._book.is_due(self._clock.now(), self._tracker.progress):
            self._note()

    def on_event(self, signal: Signal) -> None:
        progress = self._tracker.progress
        is_last = isinstance(signal, JobOver) or (isinstance(signal, StepReported) and progress.is_complete)
        if is_last and progress != self._book.latest:
            self._note()

    def _note(self) -> None:
        self._journal.do(self._book.note, progress=progress_to_json(self._tracker.progress))
