"""Parameter servers: seats, definitions, moves, dumps."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.events.base import Event, some
from pliant.core.events.kinds import EventKind
from pliant.core.plurals import counted


@dataclass(frozen=True, kw_only=True)
class ParametersRestored(Event, kind=EventKind.PS_RESTORED):
    path: str
    iteration: int

    def _sentence(self) -> str:
        return f"parameters restored from the dump {self.path}, iteration {self.iteration:,}"


@dataclass(frozen=True, kw_only=True)
class ParametersDefined(Event, kind=EventKind.PS_DEFINED):
    tables: tuple[str, ...]
    variables: tuple[str, ...]

    def _sentence(self) -> str:
        names = some((*self.tables, *self.variables))
        return f"defined {counted(len(self.tables), 'table')}, {counted(len(self.variables), 'variable')}: {names}"


@dataclass(frozen=True, kw_only=True)
class ScheduleDefined(Event, kind=EventKind.PS_SCHEDULE):
    groups: int

    def _sentence(self) -> str:
        return f"learning rates follow a schedule, in {counted(self.groups, 'group')}"


@dataclass(frozen=True, kw_only=True)
class SeatTaken(Event, kind=EventKind.PS_SEAT_TAKEN):
    node: str
    seat: int

    def _sentence(self) -> str:
        return f"{self.node} takes seat {self.seat}"


@dataclass(frozen=True, kw_only=True)
class SeatReady(Event, kind=EventKind.PS_READY):
    node: str
    seat: int
    address: str

    def _sentence(self) -> str:
        return f"{self.node} serves seat {self.seat} at {self.address}"


@dataclass(frozen=True, kw_only=True)
class ServerReported(Event, kind=EventKind.PS_REPORT):
    node: str
    message: str

    def _sentence(self) -> str:
        return f"{self.node}: {self.message}"


@dataclass(frozen=True, kw_only=True)
class SeatsLeaving(Event, kind=EventKind.PS_LEAVING):
    seats: tuple[int, ...]

    def _sentence(self) -> str:
        return f"seats {', '.join(map(str, self.seats))} move their parameters to other servers and then leave"


@dataclass(frozen=True, kw_only=True)
class ParametersMoved(Event, kind=EventKind.PS_MOVE):
    node: str
    share: float
    reason: str

    def _sentence(self) -> str:
        return f"{self.share:.0%} of the parameters of {self.node} move to other servers ({self.reason})"


@dataclass(frozen=True, kw_only=True)
class SeatRetired(Event, kind=EventKind.PS_RETIRED):
    node: str
    seat: int

    def _sentence(self) -> str:
        holder = f" of {self.node}" if self.node else ""
        return f"seat {self.seat}{holder} is empty and was removed"


@dataclass(frozen=True, kw_only=True)
class DumpCompleted(Event, kind=EventKind.DUMP):
    order: int
    full: bool
    iteration: int
    seconds: float

    def _sentence(self) -> str:
        what = "all parameters" if self.full else "changed parameters"
        return f"dump {self.order} of {what} at iteration {self.iteration:,} completed in {self.seconds:.1f} s"


@dataclass(frozen=True, kw_only=True)
class DumpFailed(Event, kind=EventKind.DUMP_FAILED):
    node: str
    order: int
    reason: str

    def _sentence(self) -> str:
        server = f" by {self.node}" if self.node else ""
        return f"dump {self.order} was abandoned{server}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class LastDumpTimedOut(Event, kind=EventKind.DUMP_TIMEOUT):
    seconds: float

    def _sentence(self) -> str:
        return f"the final dump did not complete within {self.seconds:.0f} s; the job ends without it"
