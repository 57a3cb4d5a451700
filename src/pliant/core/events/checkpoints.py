"""Checkpoints that cannot be written, and that can be written again."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind
from pliant.core.plurals import counted


@dataclass(frozen=True, kw_only=True)
class CheckpointFailed(Event, kind=EventKind.CHECKPOINT_FAILED):
    """The first of a streak of failures, and then the second, fourth, eighth, …: ``failures`` counts all of them."""

    node: str
    directory: str
    step: int
    failures: int  # in a row, this one included
    since: float  # the first of them, seconds since the epoch
    reason: str
    hint: str

    def _sentence(self) -> str:
        where = f"to {self.directory}" + (f" by {self.node}" if self.node else "")
        more = f" ({self.failures} in a row)" if self.failures > 1 else ""
        hint = f"; what to do: {self.hint}" if self.hint else ""
        return f"the checkpoint of step {self.step} could not be written {where}{more}: {self.reason}{hint}"


@dataclass(frozen=True, kw_only=True)
class CheckpointsRecovered(Event, kind=EventKind.CHECKPOINT_RECOVERED):
    directory: str
    step: int
    failures: int  # that came before
    seconds: float  # from the first of them
    reason: str  # of the last of them

    def _sentence(self) -> str:
        failed = f"{counted(self.failures, 'failure')} in {self.seconds:.0f} s, last: {self.reason}"
        return f"checkpoints are written to {self.directory} again, with that of step {self.step}, after {failed}"


@dataclass(frozen=True, kw_only=True)
class DestinationUnusable(Event, kind=EventKind.CHECKPOINT_UNUSABLE):
    """A node tried where its checkpoints go before it began to train."""

    node: str
    directory: str
    reason: str
    hint: str

    def _sentence(self) -> str:
        hint = f"; what to do: {self.hint}" if self.hint else ""
        return f"{self.node} cannot write checkpoints to {self.directory}: {self.reason}{hint}"
