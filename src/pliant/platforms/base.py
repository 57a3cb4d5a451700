"""The contract of a platform: all that the master must know about where nodes run.

``Scaler`` changes what is there, ``NodeWatcher`` observes it. Both identify nodes by name; a name is used
once in a job's life. Launching a name that is there already, or removing one that is gone, does nothing: a master that
was killed half-way may ask again. ``tests/platforms/conformance.py`` is this contract as tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pliant.core.changes import ChangeRequest
from pliant.core.nodes.capacity import Capacity
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.planning.history import Room
from pliant.core.resources import Resources
from pliant.core.status import JobStatus
from pliant.platforms.traits import PlatformTraits


@dataclass(frozen=True, slots=True)
class NodeLaunch:
    node: str
    role: str
    resources: Resources
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # the role's own variables
    working_dir: str = ""
    avoid_hosts: tuple[str, ...] = ()  # machines on which nodes of this job keep failing
    high_priority: bool = False
    environment: NodeEnvironment = field(
        default_factory=NodeEnvironment
    )  # what the job's spec says; the platform adds the node


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    node: str
    grace: float  # seconds between asking and forcing


@dataclass(frozen=True, slots=True)
class NodeResize:
    """New resources for a running node, in place; only on a platform with the trait ``can_resize``."""

    node: str
    resources: Resources


@dataclass(frozen=True, slots=True)
class ScalePlan:
    launch: tuple[NodeLaunch, ...] = ()
    remove: tuple[NodeRemoval, ...] = ()
    reason: str = ""
    resize: tuple[NodeResize, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that was not launched, or not resized. ``unschedulable`` is one form of "no room", the other is
    ``NodeEvent.unschedulable``."""

    node: str
    message: str
    unschedulable: bool  # no room now, as opposed to an error


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node that exists (``alive``) or has ended. The agent reports more; this is what the platform observes.

    A platform that queues what it has no room for (Kubernetes) accepts the launch, and reports a node that is alive but
    waits: ``unschedulable`` says for what. A platform that has no queue (local) refuses the launch instead, see ``Refusal``.
    """

    node: str
    alive: bool
    exit_reason: ExitReason = ExitReason.UNKNOWN
    message: str = ""
    unschedulable: str = ""  # it waits for room; empty: it does not (any more)
    host: str = ""  # the machine it runs on, where the platform knows


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a platform needs to know about its job."""

    job: str
    job_dir: Path
    master_addr: str
    token_file: Path
    tls_dir: Path | None = None
    options: Mapping[str, object] = field(default_factory=dict)


class Scaler(ABC):
    @abstractmethod
    async def scale(self, plan: ScalePlan) -> list[Refusal]:
        """Carry the plan out; returns the nodes that could not be launched or resized."""

    def check_resize(self, wanted: Sequence[NodeResize]) -> list[Refusal]:
        """What would be refused of this now, all of it together; nothing is changed. Must not block."""
        return []


class NodeWatcher(ABC):
    @abstractmethod
    async def list(self) -> list[NodeEvent]:
        """All nodes of the job that the platform knows of, now."""

    @abstractmethod
    def watch(self) -> AsyncIterator[NodeEvent]:
        """Events from now on, each at least once."""


class ControlChannel(ABC):
    """Where people on the platform ask a job's master for changes, and read how the job is doing."""

    @abstractmethod
    def requests(self) -> AsyncIterator[ChangeRequest]:
        """Indefinitely; each at least once, also those from before this master started."""

    @abstractmethod
    async def answer(self, request: ChangeRequest, refusal: str) -> None:
        """It was carried out, or (``refusal`` says why) it was not."""

    async def applied(self, request: ChangeRequest) -> None:
        """It was carried out just now, and is answered next; not called again where an answer is repeated."""
        return

    @abstractmethod
    async def report(self, status: JobStatus) -> None:
        """Show the job's status; called when something changed."""

    @abstractmethod
    async def finish(self, status: JobStatus, summary: Mapping[str, Any]) -> None:
        """The final report, with the summary to keep."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a platform itself measured of a node's use, now."""

    node: str
    cpu: float  # cores
    memory_mb: float


class Platform(ABC):
    """Makes the two for a job; the entry points of group ``pliant.platforms`` name subclasses of this."""

    name: str
    traits: ClassVar[PlatformTraits] = PlatformTraits()

    @abstractmethod
    def open(self, context: JobContext) -> tuple[Scaler, NodeWatcher]: ...

    def control_channel(self) -> ControlChannel | None:
        """After ``open``; None: people speak to the master itself."""
        return None

    def usage(self) -> AsyncIterator[Sequence[Measured]] | None:
        """After ``open``: what nodes use, indefinitely, at the platform's own interval; None: it measures nothing."""
        return None

    async def capacity(self) -> Capacity | None:
        """After ``open``: what one node of the job could be given at most, were the platform empty; None: nobody knows.

        Nodes grow up to it, and are not waited for beyond it, so it never says less than what can be had.
        """
        return None

    async def free_room(self) -> Room | None:
        """After ``open``: what is free now, beside what the job has; None: nobody knows."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """Release what ``open`` took. Nodes keep running."""
