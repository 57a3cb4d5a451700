"""The master and the job as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.events.base import Event, some
from pliant.core.events.kinds import EventKind
from pliant.core.job import Phase


@dataclass(frozen=True, kw_only=True)
class MasterStarted(Event, kind=EventKind.MASTER):
    start: int  # 1 for the first master of the job

    def _sentence(self) -> str:
        return "the master started" if self.start == 1 else f"the master restarted (start {self.start})"


@dataclass(frozen=True, kw_only=True)
class JournalLost(Event, kind=EventKind.JOURNAL_LOST):
    nodes: tuple[str, ...]  # of the earlier master; they are removed

    def _sentence(self) -> str:
        return (
            f"the journal of the previous master was lost; the job restarts from scratch and removes {some(self.nodes)}"
        )


@dataclass(frozen=True, kw_only=True)
class TakenOver(Event, kind=EventKind.TAKEN_OVER):
    nodes: tuple[str, ...]  # of the earlier master; they go on

    def _sentence(self) -> str:
        return (
            f"the journal of the previous master was lost; this master takes over {some(self.nodes)}, no work is lost"
        )


@dataclass(frozen=True, kw_only=True)
class JobResumed(Event, kind=EventKind.RESUMED):
    phase: Phase  # that it was in
    reason: str  # of that phase

    def _sentence(self) -> str:
        return f"resumed; it was {self.phase.value} ({self.reason})"


@dataclass(frozen=True, kw_only=True)
class WorkersNotCombined(Event, kind=EventKind.NOT_COMBINED):
    condition: str  # of the status: separate models, or workers that all do the same
    message: str

    def _sentence(self) -> str:
        return self.message


@dataclass(frozen=True, kw_only=True)
class JobEnded(Event, kind=EventKind.JOB):
    phase: Phase
    reason: str

    def _sentence(self) -> str:
        return f"{self.phase.value}: {self.reason}"
