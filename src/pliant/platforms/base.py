"""The contract of a platform: all that the master needs of the place where nodes run.

``Scaler`` changes what is there, ``NodeWatcher`` tells what is there. Both speak of nodes by name; a name is used
once in a job's life. Launching a name that is there already, or removing one that is gone, does nothing: a master that
was killed half-way may ask again. ``tests/platforms/conformance.py`` is this contract as tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pliant.core.relaunch import ExitReason
from pliant.core.resources import Resources

SUPERVISED = "PLIANT_SUPERVISED"  # in the environment of a master, and of its agents, that is started again if it dies


@dataclass(frozen=True, slots=True)
class NodeLaunch:
    node: str
    role: str
    resources: Resources
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    avoid_hosts: tuple[str, ...] = ()  # machines on which nodes of this job keep failing
    high_priority: bool = False


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    node: str
    grace: float  # seconds between asking and forcing


@dataclass(frozen=True, slots=True)
class ScalePlan:
    launch: tuple[NodeLaunch, ...] = ()
    remove: tuple[NodeRemoval, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that was not launched. ``unschedulable`` is the one form of "no room"; the other is ``NodeEvent.no_room``."""

    node: str
    message: str
    unschedulable: bool  # no room now, as opposed to an error


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node that is there (``alive``), or ended. The agent tells more; this is what the platform sees.

    A platform that queues what it has no room for (Kubernetes) accepts the launch, and tells of a node that is alive but
    waits: ``no_room`` says for what. A platform that has no queue (local) refuses the launch instead, see ``Refusal``.
    """

    node: str
    alive: bool
    exit_reason: ExitReason = ExitReason.UNKNOWN
    message: str = ""
    no_room: str = ""  # it waits for room; empty: it does not (any more)
    host: str = ""  # the machine it runs on, where the platform knows


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a platform must know of the job it serves."""

    job: str
    job_dir: Path
    master_addr: str
    token_file: Path
    tls_dir: Path | None = None
    options: Mapping[str, object] = field(default_factory=dict)


class Scaler(ABC):
    @abstractmethod
    async def scale(self, plan: ScalePlan) -> list[Refusal]:
        """Carry the plan out; gives the nodes that could not be launched."""


class NodeWatcher(ABC):
    @abstractmethod
    async def list(self) -> list[NodeEvent]:
        """All nodes of the job that the platform knows of, now."""

    @abstractmethod
    def watch(self) -> AsyncIterator[NodeEvent]:
        """Events from now on, each at least once."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that a person wants of a running job, said to the platform; ``core/wishes.py`` knows what it means.

    ``state`` is an edit of the job's description, as the whole of what is wanted now; otherwise it is a list of orders.
    """

    id: str  # each is taken once
    content: Mapping[str, Any]
    state: bool = False


@dataclass(frozen=True, slots=True)
class RoleReport:
    wanted: int
    ready: int
    pending: int
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class JobReport:
    """How the job is doing, for those who look at the platform. Times are seconds since the epoch, 0: not yet."""

    phase: str
    message: str
    roles: Mapping[str, RoleReport]
    records: int = 0
    total: int = 0
    step: int = 0
    epoch: int = 0
    eta: float | None = None  # seconds
    goodput: float | None = None  # percent of the workers' time in which they had the means to work
    started_at: float = 0.0
    suspended_at: float = 0.0
    ended_at: float = 0.0


class Desk(ABC):
    """Where people on the platform speak to a job's master, and read how the job is doing."""

    @abstractmethod
    def wishes(self) -> AsyncIterator[Wish]:
        """For ever; each at least once, also those from before this master came."""

    @abstractmethod
    async def answer(self, wish: Wish, refusal: str) -> None:
        """It was taken, or (``refusal`` says why) it was not."""

    async def carried_out(self, wish: Wish) -> None:
        """It was carried out just now, and is answered next; not called again where an answer is repeated."""
        return

    @abstractmethod
    async def report(self, report: JobReport) -> None:
        """Tell how the job is doing; called when something changed."""

    @abstractmethod
    async def finish(self, report: JobReport, summary: Mapping[str, Any]) -> None:
        """The last report, with the summary to keep."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a platform itself measured of a node's use, now."""

    node: str
    cpu: float  # cores
    memory_mb: float


class Platform(ABC):
    """Makes the two for a job; the entry points of group ``pliant.platforms`` name subclasses of this."""

    name: str

    @abstractmethod
    def open(self, context: JobContext) -> tuple[Scaler, NodeWatcher]: ...

    def desk(self) -> Desk | None:
        """After ``open``; None: people speak to the master itself."""
        return None

    def usage(self) -> AsyncIterator[Sequence[Measured]] | None:
        """After ``open``: what nodes use, for ever, at the platform's own pace; None: it measures nothing."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """Release what ``open`` took. Nodes go on running."""
