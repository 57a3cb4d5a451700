"""Requests to change the running job."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.changes import RequestSource
from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind


@dataclass(frozen=True, kw_only=True)
class ChangeAccepted(Event, kind=EventKind.CHANGE):
    request: str  # empty: it has no id
    source: RequestSource
    reason: str
    changes: tuple[str, ...]

    def _sentence(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{_request(self.source, self.request)}: {'; '.join(self.changes)}{why}"


@dataclass(frozen=True, kw_only=True)
class ChangeRefused(Event, kind=EventKind.CHANGE_REFUSED):
    request: str
    source: RequestSource
    reason: str

    def _sentence(self) -> str:
        return f"{_request(self.source, self.request)} was refused: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class ChangeNoted(Event, kind=EventKind.CHANGE_NOTE):
    request: str
    note: str

    def _sentence(self) -> str:
        return f"request {self.request}: {self.note}"


@dataclass(frozen=True, kw_only=True)
class ChangesUnavailable(Event, kind=EventKind.CHANGES_UNAVAILABLE):
    reason: str

    def _sentence(self) -> str:
        return f"cannot read change requests from the platform: {self.reason}"


def _request(source: RequestSource, request: str) -> str:
    return f"{source.value} request {request}".rstrip()
