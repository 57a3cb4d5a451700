"""Where a job lives, and how it is asked there: the one seam between the commands and a platform.

A command gets a ``Place`` from ``find_place`` and does not know more: ``local_place`` is a folder on this machine,
``kubernetes.place`` an ElasticJob of a cluster. Both answer with the same ``Sight``, the same numbered events, the same
lines of output. A running job's master is asked over gRPC in both; what differs is the way to it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pliant.core.errors import Conflict, MasterUnavailable, NotAvailable

if TYPE_CHECKING:
    from rich.console import Console

    from pliant.master.journal_store import EventRecord
    from pliant.rpc import pliant_pb2 as pb
    from pliant.rpc.channel import Address

T = TypeVar("T")
PATIENCE = 5.0  # seconds for a master that is being started again
ASK_EVERY = 0.1  # seconds
CALL = 3.0  # seconds for one answer


class Output(Protocol):
    """What the programs write, shown as it comes."""

    def show_new(self) -> bool:
        """True if there was anything."""

    def finish(self) -> None:
        """Nothing more will come: show what is left, such as unfinished last lines."""


@dataclass(frozen=True)
class Sight:
    """What is known of a job at one look."""

    place: Place
    status: pb.JobStatus
    master_alive: bool = False
    note: str = ""  # set if this is no live master's word on a job that is not over
    source: str = ""  # with a note: what this was read from instead
    interrupted: bool = False  # no master, and nobody who would start one
    summary: dict[str, Any] | None = None

    @property
    def over(self) -> bool:
        """It ended, and nothing of it is left."""
        return self.summary is not None

    @property
    def phase(self) -> str:
        return "Interrupted" if self.interrupted and self.status.phase == "Running" else str(self.status.phase)

    def to_json(self) -> dict[str, Any]:
        from pliant.master.summary import status_dict

        value = self.summary if self.summary is not None else status_dict(self.status)
        return {
            "first_failure": None,
            "world": None,
            **value,
            "phase": self.phase,
            "note": self.note,
            **self.place.identity(),
            "master": {**self.place.master(), "alive": self.master_alive},
        }


class Place(ABC):
    """One job where it lives."""

    name: str
    refresh = 0.2  # seconds between two looks of a live view; asking costs more over a network
    call_timeout = 1.0  # seconds for one answer in a live view

    @property
    @abstractmethod
    def where(self) -> str:
        """For people, after the job's name: its folder, or its namespace."""

    @property
    @abstractmethod
    def logs_at(self) -> str:
        """For people: where its output is, or how to see it."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """The same for programs."""

    @abstractmethod
    def master(self) -> dict[str, Any]:
        """Where its master is or was: address, and what else the place knows."""

    @abstractmethod
    def summary(self) -> dict[str, Any] | None:
        """How it ended, once it has and nothing of it is left."""

    def _wait_for_the_end(self, deadline: float, *, now: bool, every: float) -> dict[str, Any]:
        """The summary, once a job that was asked to stop has one. ``now``: it was told to kill its programs."""
        while (summary := self.summary()) is None:
            if time.monotonic() > deadline:
                hint = "" if now else "`pliant stop --now` kills its programs"
                raise MasterUnavailable(f"job {self.name} was asked to stop and is not over yet", hint=hint)
            time.sleep(every)
        return summary

    @abstractmethod
    def look(self, *, patience: float = PATIENCE) -> Sight:
        """The best that is known now."""

    def glance(self) -> Sight:
        """What can be told quickly, for a list of many jobs."""
        return self.look(patience=0)

    @abstractmethod
    def address(self) -> Address:
        """Where its master is called. Raises NotFound or MasterUnavailable if there is none now."""

    @abstractmethod
    def command(self, what: str, send: Callable[[Caller], T], *, patience: float = PATIENCE) -> T:
        """Have a running job do something: ``send(caller)``, tried again while its master is being restarted."""

    def scale(self, role: str, replicas: int, reason: str) -> tuple[int, int]:
        """So many nodes of the role; gives how many it had to have before, and now."""
        from pliant.rpc import pliant_pb2 as pb

        request = pb.ScaleRequest(role=role, replicas=replicas, reason=reason)
        reply = self.command("scaled", lambda caller: caller.call(caller.stubs.Scale, request))
        return reply.before, reply.now

    def move_off(self, node: str, share: float, reason: str) -> tuple[int, int]:
        """Have a parameter server give this share of what it has to the others; its seat, and the partitions it has now."""
        from pliant.rpc import pliant_pb2 as pb

        request = pb.MoveOffRequest(node=node, share=share, reason=reason)
        reply = self.command("changed", lambda caller: caller.call(caller.stubs.MoveOff, request))
        return reply.seat, reply.partitions

    @abstractmethod
    def stop(self, *, now: bool, reason: str, deadline: float) -> dict[str, Any]:
        """Have it end, and wait for that until ``deadline`` (monotonic); gives its summary."""

    @abstractmethod
    def events(self, after: int, limit: int) -> list[EventRecord]:
        """With a higher number than ``after``, in order, at most so many."""

    @abstractmethod
    def has_output_of(self) -> list[str]:
        """The nodes whose output can be shown, and ``master``."""

    @abstractmethod
    def output(self, console: Console, *, nodes: frozenset[str] | None, tail: int | None, follow: bool) -> Output:
        """Of these nodes, or of all programs; beginning with the last so many lines of each."""

    @abstractmethod
    def audit(self) -> dict[str, Any]:
        """The proof of a job that ran with ``audit``; see ``master.offline.audit_of``."""

    def over(self) -> bool:
        return self.summary() is not None

    def removable(self) -> bool:
        """It ended, and nobody is about to write there."""
        return self.over()

    @abstractmethod
    def remove(self) -> None:
        """The job and all that it left."""

    def close(self) -> None:
        """Let go of what a look or a call opened."""
        return

    def refuse_if_over(self, what: str) -> None:
        if (summary := self.summary()) is not None:
            raise Conflict(
                f"job {self.name} cannot be {what}: it is over ({summary['phase']}: {summary['reason']})",
                hint="`pliant jobs` lists what runs",
            )


class Caller:
    """Calls to the master of a running job."""

    def __init__(self, address: Address) -> None:
        from pliant.rpc.channel import MasterClient

        self._client = MasterClient(address)
        self.stubs = self._client.stubs.job

    def status(self, *, timeout: float = CALL) -> pb.JobStatus:
        from pliant.rpc import pliant_pb2 as pb

        reply: pb.JobStatus = self.call(self.stubs.GetStatus, pb.Empty(), timeout=timeout)
        return reply

    def call(self, method: Any, request: Any, *, timeout: float = CALL) -> Any:
        return self._client.call(method, request, timeout=timeout)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Cluster:
    """Which namespace of which cluster, as options said."""

    namespace: str
    context: str | None = None


def find_place(name: str | None, job_dir: Path | None = None, cluster: Cluster | None = None) -> Place:
    """A job of the cluster, if one is given; else by folder, by name, or the newest one of this machine."""
    if cluster is not None:
        return opened(_on_kubernetes().find_job(name, cluster))
    from pliant.cli.homes import find_job as find_folder
    from pliant.cli.local_place import LocalPlace

    return LocalPlace(find_folder(name, job_dir))


def all_places(cluster: Cluster | None = None) -> list[Place]:
    """Oldest first."""
    if cluster is not None:
        return [opened(place) for place in _on_kubernetes().all_jobs(cluster)]
    from pliant.cli.homes import all_jobs as all_folders
    from pliant.cli.local_place import LocalPlace

    return [LocalPlace(home) for home in all_folders()]


def close_places() -> None:
    """What this command opened."""
    while _OPEN:
        _OPEN.pop().close()


_OPEN: list[Place] = []


def opened(place: Place) -> Place:
    """To be closed when the command ends."""
    _OPEN.append(place)
    return place


def _on_kubernetes() -> ModuleType:
    try:
        return import_module("pliant.cli.kubernetes.place")
    except ImportError as error:
        raise NotAvailable(
            f"jobs of Kubernetes need a package that is not installed: {error.name}",
            hint="pip install 'pliant[kubernetes]'",
        ) from None


def status_of(summary: dict[str, Any]) -> pb.JobStatus:
    """A summary in the words of a live status."""
    from google.protobuf.json_format import ParseDict

    from pliant.rpc import pliant_pb2 as pb

    status: pb.JobStatus = ParseDict(summary, pb.JobStatus(), ignore_unknown_fields=True)
    return status
