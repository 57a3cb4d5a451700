"""What the components of one master let each other know.

A signal is a fact; whoever it concerns reacts in ``Component.on_event``. Delivery is synchronous and in the order of the
controller's list, so what follows from a call is noted in the journal together with it. Not to be confused with
``core.events``, which are for people and survive the master.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pliant.core.changes import RequestSource
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.status import ServerStats


@dataclass(frozen=True, slots=True)
class ProgramGone:
    """The program of a node ended (``incarnation``: this run of it), or the whole node did (None)."""

    node: str
    incarnation: int | None
    exit_reason: ExitReason
    message: str


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """Nodes came, went, or are to come or go."""

    nodes: NodeBook


@dataclass(frozen=True, slots=True)
class HeartbeatsPaced:
    """Agents send one heartbeat in so many seconds from now on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NodesAdopted:
    """Nodes of a master whose journal is lost: the living are taken over (``core/takeover.py``), the finished count."""

    living: tuple[str, ...]
    finished: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodesIdle:
    """The programs of these nodes wait, for shards or for their peers, and hold nothing that others wait for."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkersBlocked:
    """No worker can make progress: a parameter server is missing."""


@dataclass(frozen=True, slots=True)
class WorldInUse:
    """The members of the current world, which do each step together; none: there is no world."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordsAccepted:
    node: str
    records: int


@dataclass(frozen=True, slots=True)
class TrainsAlone:
    """The program of a node updates a model, and nothing combines that with what others learn."""

    node: str


@dataclass(frozen=True, slots=True)
class StepReported:
    """A program finished a training step, and what it says of it."""

    node: str
    step: int
    metrics: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointReported:
    """A checkpoint is complete, or could not be written for this ``problem``. ``step``: of parameters, their iteration."""

    node: str
    directory: str
    step: int
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class SessionEnded:
    session: str


@dataclass(frozen=True, slots=True)
class ProgramStopped:
    """The program of a node has been stopped by a signal (SIGSTOP) for this many witnessed seconds."""

    node: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ServersSilent:
    """Seconds since each parameter server, by node, last reported."""

    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ServerMeasured:
    """What the parameter server of a node says of itself."""

    node: str
    stats: ServerStats
    partition_load: Mapping[int, float]  # the heaviest, as shares of all that it does


@dataclass(frozen=True, slots=True)
class SeatVacated:
    """A parameter server gave all that it had to the others. Empty ``node``: nobody held the seat."""

    node: str
    seat: int
    reason: str = "its parameters were moved to other servers"


@dataclass(frozen=True, slots=True)
class MasterPaused:
    """This master did not run for a while: silence of others meanwhile is not theirs."""

    seconds: float


@dataclass(frozen=True, slots=True)
class EndRequested:
    """Somebody asked to end the job; ``at_once``: without grace for its programs."""

    reason: str
    at_once: bool = False
    failed: bool = False  # it ends as Failed, not as Stopped


@dataclass(frozen=True, slots=True)
class ChangeApplied:
    """A request changed what the running job has: the number of its nodes, their resources or limits, or what they host."""

    source: RequestSource
    reason: str


@dataclass(frozen=True, slots=True)
class JobOver:
    reason: str


Signal: TypeAlias = (
    ProgramGone
    | NodesChanged
    | HeartbeatsPaced
    | NodesAdopted
    | NodesIdle
    | WorkersBlocked
    | WorldInUse
    | RecordsAccepted
    | StepReported
    | TrainsAlone
    | CheckpointReported
    | SessionEnded
    | ProgramStopped
    | ServersSilent
    | ServerMeasured
    | SeatVacated
    | MasterPaused
    | EndRequested
    | ChangeApplied
    | JobOver
)
Listener: TypeAlias = Callable[[Signal], None]


class SignalBus:
    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def connect(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def publish(self, signal: Signal) -> None:
        for listener in self._listeners:
            listener(signal)
