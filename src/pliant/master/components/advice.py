"""The adviser: says once that workers train separate models, or all do the same (``core/combination.py``)."""

from __future__ import annotations

from pliant.core.combination import independent_workers, separate_models
from pliant.core.events import WorkersNotCombined
from pliant.core.job_state import JobState
from pliant.core.status import INDEPENDENT_WORKERS, SEPARATE_MODELS
from pliant.master.components.base import Component
from pliant.master.components.signals import Signal, TrainsAlone
from pliant.master.journal.journal import Journal


class Adviser(Component):
    name = "advice"
    title = "adviser"

    def __init__(self, state: JobState, journal: Journal) -> None:
        self._state = state
        self._journal = journal

    def on_event(self, signal: Signal) -> None:
        match signal:
            case TrainsAlone(node=node):
                job = self._state.job
                if node not in job.training_alone and SEPARATE_MODELS not in job.warnings:
                    self._journal.do(job.trains_alone, node=node)
                    self._warn(SEPARATE_MODELS, separate_models(self._state))
            case _:
                return

    async def tick(self) -> None:
        if INDEPENDENT_WORKERS not in self._state.job.warnings and not self._state.job.over:
            self._warn(INDEPENDENT_WORKERS, independent_workers(self._state))

    def _warn(self, kind: str, message: str) -> None:
        if message and self._journal.do(self._state.job.warn, kind=kind, message=message):
            self._journal.event(WorkersNotCombined(condition=kind, message=message))
