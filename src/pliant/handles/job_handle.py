"""The handle of a job: the one interface between the commands and the place where a job lives.

A command gets a ``JobHandle`` from ``handles.find`` and knows no more: ``handles.local`` is a folder on this machine,
``handles.kubernetes`` an ElasticJob of a cluster. Both return the same ``JobView``, the same numbered events and the same
lines of output. Both call a running job's master over gRPC; what differs is how they reach it.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pliant.core.end_policy import SERVICE_ROLES
from pliant.core.errors import Conflict, InvalidRequest, MasterUnavailable
from pliant.core.job import Phase
from pliant.core.planning.reports import MAX_RECENT, JobExplanation, JobPlans
from pliant.core.resources import RolloutMode
from pliant.core.series.job_series import JobSeries
from pliant.core.status import JobStatus
from pliant.core.status_json import status_to_json
from pliant.core.summary import JobSummary

if TYPE_CHECKING:
    from pliant.core.events import EventRecord
    from pliant.core.shards.shard_map import ShardMap
    from pliant.handles.log_pages import LogMatches, LogPage
    from pliant.rpc.channel import Address

T = TypeVar("T")
RETRY_TIMEOUT_S = 5.0  # for a master that is being started again
POLL_INTERVAL_S = 0.1
CALL_TIMEOUT_S = 3.0
EXPLAIN_TIMEOUT_S = 30.0  # fits are computed


LinePrinter = Callable[[str, str], None]  # of a node's name and a line that it wrote


def quiet_roles(strategy: str, *, with_servers: bool) -> frozenset[str]:
    """Roles whose output is not the user's program's: the parameter servers of a job that uses ours."""
    return frozenset() if with_servers or not strategy.startswith("ps") else SERVICE_ROLES


class Output(Protocol):
    """What the programs write, printed as it arrives."""

    def show_new(self) -> bool:
        """Print what was added; returns whether there was anything."""

    def fileno(self) -> int:
        """Readable when there may be something new; -1: nobody says so, look again from time to time."""

    def finish(self) -> None:
        """Nothing more will be written: print what is left, such as unfinished last lines."""


@dataclass(frozen=True)
class JobView:
    """What is known of a job now, and from which source."""

    handle: JobHandle
    status: JobStatus
    master_alive: bool = False
    note: str = ""  # set if this does not come from a live master although the job is not over
    source: str = ""  # with a note: what this was read from instead
    summary: JobSummary | None = None

    @classmethod
    def of_summary(cls, handle: JobHandle, summary: JobSummary) -> JobView:
        return cls(handle, summary.status, summary=summary)

    @property
    def is_over(self) -> bool:
        """It ended, and nothing of it is running any more."""
        return self.summary is not None

    @property
    def phase(self) -> Phase:
        return self.status.phase

    def to_json(self) -> dict[str, Any]:
        value = self.summary.to_json() if self.summary is not None else status_to_json(self.status)
        return {
            "first_failure": None,
            "world": None,
            **value,
            "note": self.note,
            **self.handle.identity(),
            "master": {**self.handle.master(), "alive": self.master_alive},
        }


@dataclass(frozen=True)
class RoleChange:
    """What somebody wants of a role; None: as it is."""

    role: str
    replicas: int | None = None
    cpu: float | None = None
    memory_mb: int | None = None
    gpu: int | None = None
    rollout: RolloutMode = RolloutMode.AUTO

    @property
    def resources(self) -> dict[str, float]:
        """Those that are given."""
        given = {"cpu": self.cpu, "memory_mb": self.memory_mb, "gpu": self.gpu}
        return {name: amount for name, amount in given.items() if amount is not None}


def resource_amounts(given: Mapping[str, object]) -> dict[str, Any]:
    """As ``RoleChange`` has them, of such as ``{"cpu": "500m", "memory": "4Gi"}``. Raises ``InvalidRequest``."""
    from pliant.spec import ResourcesSpec

    try:
        resources = ResourcesSpec.model_validate(given).to_core()
    except ValueError as error:
        text = ", ".join(f"{key} {amount}" for key, amount in given.items())
        raise InvalidRequest(f"{text}: not valid resource amounts", hint="for example: cpu 2, memory 4Gi") from error
    found = {"cpu": resources.cpu, "memory": resources.memory_mb, "gpu": resources.gpu}
    return {"memory_mb" if key == "memory" else key: found[key] for key in given}


@dataclass(frozen=True)
class RoleChanged:
    before: int  # wanted nodes
    now: int
    outdated: int = 0  # running nodes that get other resources
    in_place: bool = False


class JobHandle(ABC):
    """One job, on this machine or in a cluster."""

    name: str
    platform: str
    refresh_interval_s = 0.2  # of a live view; asking costs more over a network
    call_timeout_s = 1.0  # in a live view

    @property
    @abstractmethod
    def where(self) -> str:
        """For people, after the job's name: its folder, or its namespace."""

    @property
    def argument(self) -> str:
        """What to give to a command that is to find it."""
        return self.name

    @property
    @abstractmethod
    def logs_at(self) -> str:
        """For people: where its output is, or how to see it."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """The same as JSON values, for scripts."""

    @abstractmethod
    def master(self) -> dict[str, Any]:
        """Where its master is or was: its address, and what else identifies it here."""

    @abstractmethod
    def summary(self) -> JobSummary | None:
        """How it ended; None until nothing of it is running any more."""

    def _wait_until_over(self, deadline: float, *, now: bool, poll_interval: float) -> JobSummary:
        """The summary of a job that was asked to stop. ``now``: it was asked to kill its programs."""
        while (summary := self.summary()) is None:
            if time.monotonic() > deadline:
                hint = "" if now else "kill its programs with `pliant stop --now`"
                raise MasterUnavailable(f"job {self.name} was asked to stop and is still running", hint=hint)
            time.sleep(poll_interval)
        return summary

    @abstractmethod
    def view(self, *, retry_timeout: float = RETRY_TIMEOUT_S) -> JobView:
        """The best information there is now: of the master, else of what the job has written."""

    def peek(self) -> JobView:
        """A quick view for a list of many jobs: a master that does not answer is not waited for."""
        return self.view(retry_timeout=0)

    @abstractmethod
    def address(self) -> Address:
        """Of its master. Raises NotFound or MasterUnavailable if there is none now."""

    @abstractmethod
    def command(self, what: str, send: Callable[[Caller], T], *, retry_timeout: float = RETRY_TIMEOUT_S) -> T:
        """Send a command to a running job: ``send(caller)`` is repeated while its master is being restarted. ``what`` is the
        verb for messages, as in "cannot be scaled"."""

    def scale(self, wanted: Sequence[RoleChange], reason: str) -> list[RoleChanged]:
        """Set the number of nodes of roles, or their resources, or both: all of it, or nothing."""
        from pliant.rpc import pliant_pb2 as pb

        request, *others = (
            pb.ScaleRequest(
                role=change.role,
                replicas=change.replicas,
                cpu=change.cpu,
                memory_mb=change.memory_mb,
                gpu=change.gpu,
                rollout=change.rollout,
            )
            for change in wanted
        )
        request.others.extend(others)
        request.reason, request.id = reason, uuid.uuid4().hex
        reply = self.command("scaled", lambda caller: caller.call(caller.stubs.Scale, request))
        return [RoleChanged(one.before, one.now, one.outdated, one.in_place) for one in (reply, *reply.others)]

    def move_off(self, node: str, share: float, reason: str) -> tuple[int, int]:
        """Move this share of a parameter server's partitions to the others; returns its seat and how many it has now."""
        from pliant.rpc import pliant_pb2 as pb

        request = pb.MoveOffRequest(node=node, share=share, reason=reason, id=uuid.uuid4().hex)
        reply = self.command("changed", lambda caller: caller.call(caller.stubs.MoveOff, request))
        return reply.seat, reply.partitions

    def assign_seats(self, seats: Mapping[str, int], reason: str) -> dict[str, int]:
        """Set how many virtual workers each worker hosts (empty: evenly); returns it by worker."""
        from pliant.rpc import pliant_pb2 as pb

        request = pb.AssignSeatsRequest(seats=seats, reason=reason, id=uuid.uuid4().hex)
        reply = self.command("changed", lambda caller: caller.call(caller.stubs.AssignSeats, request))
        return dict(sorted(reply.seats.items()))

    def plans(self) -> JobPlans:
        """All plans of the job's planner: of a running job's master, else of its summary."""
        from pliant.rpc import pliant_pb2 as pb
        from pliant.rpc.planning import plans_from

        if (summary := self.summary()) is not None:
            return _plans_of_summary(summary)
        return plans_from(self.command("read", lambda caller: caller.call(caller.planning.GetPlans, pb.Empty())))

    def explain(self) -> JobExplanation:
        """Why the job has what it has; of one without a running master, its last plans and a note."""
        from pliant.rpc import pliant_pb2 as pb
        from pliant.rpc.planning import explain_from

        if (summary := self.summary()) is not None:
            found = _plans_of_summary(summary)
            return JobExplanation(found.name, found.planner, plans=found.plans[-MAX_RECENT:], note=found.note)
        return explain_from(
            self.command(
                "explained", lambda caller: caller.call(caller.planning.Explain, pb.Empty(), timeout=EXPLAIN_TIMEOUT_S)
            )
        )

    def series(self, *, since: float = 0.0, max_points: int = 0) -> JobSeries:
        """What charts of the job are drawn of: of a running job's master, else as it was kept with the ended job.

        ``max_points``: per curve; 0: all. ``since``: for a reader who has all points before this time (``core.series.curve``).
        """
        from pliant.rpc import pliant_pb2 as pb
        from pliant.rpc.series import series_from

        if self.is_over():
            return self._last_series().since(since).thinned(max_points)
        request = pb.SeriesRequest(since=since, max_points=max_points)
        return series_from(self.command("read", lambda caller: caller.call(caller.stubs.GetSeries, request)))

    @abstractmethod
    def _last_series(self) -> JobSeries:
        """As they were kept when they were last written."""

    @abstractmethod
    def stop(self, *, now: bool, reason: str, deadline: float) -> JobSummary:
        """Stop it and wait until it is over, at most until ``deadline`` (monotonic). ``now``: without grace."""

    @abstractmethod
    def events(self, after: int, limit: int) -> list[EventRecord]:
        """Those numbered higher than ``after``, in order, at most ``limit``."""

    @abstractmethod
    def nodes_with_output(self) -> list[str]:
        """The nodes whose output can be printed, and ``master``."""

    @abstractmethod
    def output(
        self,
        printer: LinePrinter,
        *,
        nodes: frozenset[str] | None,
        tail: int | None,
        follow: bool,
        with_servers: bool = False,
    ) -> Output:
        """Of these nodes, or of all programs; starting with the last ``tail`` lines of each. Pliant's own parameter servers are
        no programs of the user: their messages are shown if they are asked for."""

    @abstractmethod
    def log_page(self, node: str, *, after: str = "", before: str = "", lines: int = 500) -> LogPage:
        """Some lines of a node's output: those after a cursor, the last ones before one, or the last ones of all."""

    @abstractmethod
    def search_logs(self, text: str, *, node: str = "") -> LogMatches:
        """Lines that contain the text, in any case; of all nodes unless one is named."""

    @abstractmethod
    def written_spec(self) -> dict[str, Any]:
        """The spec as the user wrote it, with whatever secrets are in it."""

    @abstractmethod
    def created_at(self) -> float:
        """Seconds since the epoch; 0: not known."""

    def shard_maps(self) -> tuple[ShardMap, ...]:
        """Which shards of each dataset are done, leased, returned or parked. Raises ``NotAvailable`` if nobody knows any more."""
        from pliant.rpc import pliant_pb2 as pb
        from pliant.rpc.shard_maps import shard_maps_from

        return shard_maps_from(
            self.command("read", lambda caller: caller.call(caller.stubs.GetShardMaps, pb.ShardMapsRequest()))
        )

    @abstractmethod
    def audit(self) -> dict[str, Any]:
        """The proof of a job that ran with ``audit``; see ``master.offline.audit_of``."""

    def is_over(self) -> bool:
        return self.summary() is not None

    def is_removable(self) -> bool:
        """It is over, and no process is about to write its files."""
        return self.is_over()

    @abstractmethod
    def remove(self) -> None:
        """Delete the job and everything that it left."""

    def close(self) -> None:
        """Close the connections that were opened."""
        return

    def refuse_if_over(self, what: str) -> None:
        if (summary := self.summary()) is not None:
            raise Conflict(
                f"job {self.name} cannot be {what}: it has ended ({summary.phase}: {summary.reason})",
                hint="list running jobs with `pliant jobs`",
            )


def _plans_of_summary(summary: JobSummary) -> JobPlans:
    note = f"the job has ended ({summary.phase}: {summary.reason})"
    if "plans" in summary.left_out:
        note += "; its plans were too large to keep in the summary"
    return JobPlans(summary.name, summary.status.planner, summary.plans, note)


class Caller:
    """Calls to the master of a running job."""

    def __init__(self, address: Address) -> None:
        from pliant.rpc.channel import MasterClient

        self._client = MasterClient(address)
        self.stubs = self._client.stubs.job
        self.planning = self._client.stubs.planning

    def status(self, *, timeout: float = CALL_TIMEOUT_S) -> JobStatus:
        from pliant.rpc import pliant_pb2 as pb
        from pliant.rpc.status import status_from_message

        return status_from_message(self.call(self.stubs.GetStatus, pb.Empty(), timeout=timeout))

    def call(self, method: Any, request: Any, *, timeout: float = CALL_TIMEOUT_S) -> Any:
        return self._client.call(method, request, timeout=timeout)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
