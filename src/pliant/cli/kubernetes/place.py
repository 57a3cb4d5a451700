"""A job of a cluster: its ElasticJob tells how it is, and its master is asked over gRPC through a port-forward.

The way to the master needs nothing but the API server: the job's token and certificates are read from the Secret of its
nodes, and the bytes travel as a port-forward to the Pod ``<job>-master``. An ended job has left its summary in a ConfigMap.
While the master is away the ElasticJob's status is told, and that it is only that.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from pliant.cli.kubernetes.session import Session
from pliant.cli.kubernetes.told import (
    AUDIT,
    EVENTS,
    is_over,
    left_behind,
    message_of,
    phase_of,
    status_of_resource,
    summary_of,
)
from pliant.cli.places import PATIENCE, Caller, Cluster, Output, Place, Sight, status_of
from pliant.core.errors import Conflict, MasterUnavailable, NotAvailable, NotFound, PliantError
from pliant.platforms.kubernetes.errors import Forbidden
from pliant.platforms.kubernetes.kinds import CONFIG_MAPS, ELASTIC_JOBS, PODS, SECRETS, Object
from pliant.platforms.kubernetes.names import (
    MASTER_PORT,
    TOKEN_KEY,
    job_selector,
    master_name,
    node_of,
    node_secret_name,
    summary_name,
)
from pliant.platforms.kubernetes.portforward import PortForward

if TYPE_CHECKING:
    from rich.console import Console

    from pliant.master.journal_store import EventRecord
    from pliant.rpc.channel import Address

T = TypeVar("T")
LOOK_EVERY = 0.5  # seconds between two questions to the API server or to a master that is away
INSTALL = "install Pliant into the cluster (docs/kubernetes.md), and see `pliant doctor --platform kubernetes`"
CALL = 5.0  # seconds for one answer through the API server


class KubernetesPlace(Place):
    refresh = 1.0
    call_timeout = CALL

    def __init__(self, session: Session, job: Object) -> None:
        self._session = session
        self._job = job
        self._forward: PortForward | None = None
        self._address: Address | None = None
        self.name = str(job["metadata"]["name"])
        self.namespace = session.namespace

    # --- what it is

    @property
    def where(self) -> str:
        return f"ElasticJob {self.namespace}/{self.name}"

    @property
    def logs_at(self) -> str:
        return f"logs: pliant logs {self.name} -N {self.namespace}"

    @property
    def resource(self) -> Object:
        """The ElasticJob as it was when last read."""
        return self._job

    def identity(self) -> dict[str, Any]:
        return {"job_dir": "", "namespace": self.namespace, "uid": self._job["metadata"]["uid"]}

    def master(self) -> dict[str, Any]:
        told = (self._job.get("status") or {}).get("master") or {}
        return {"address": "", "pid": 0, "pod": told.get("pod") or master_name(self.name)}

    # --- how it is

    def read(self) -> Object:
        """The ElasticJob as it is now."""
        found = self._session.run(self._session.api.find(ELASTIC_JOBS, self.name, self.namespace))
        if found is None or found["metadata"]["uid"] != self._job["metadata"]["uid"]:
            raise NotFound(f"job {self.name} was deleted from namespace {self.namespace}")
        self._job = found
        return found

    def over(self) -> bool:
        return is_over(self.read())

    def summary(self) -> dict[str, Any] | None:
        job = self.read()
        return summary_of(job, self._left_behind()) if is_over(job) else None

    def glance(self) -> Sight:
        if is_over(self._job):
            return Sight(self, status_of_resource(self._job), summary=summary_of(self._job, {}))
        return Sight(self, status_of_resource(self._job))

    def look(self, *, patience: float = PATIENCE) -> Sight:
        deadline = time.monotonic() + patience
        while True:
            if (summary := self.summary()) is not None:
                return Sight(self, status_of(summary), summary=summary)
            try:
                with Caller(self.address()) as caller:
                    return Sight(self, caller.status(timeout=CALL), master_alive=True)
            except MasterUnavailable as error:
                problem = self._why_away(error)
            if time.monotonic() > deadline or not self._has_master():
                break
            time.sleep(LOOK_EVERY)
        return Sight(self, status_of_resource(self._job), note=problem, source="its ElasticJob")

    def command(self, what: str, send: Callable[[Caller], T], *, patience: float = PATIENCE) -> T:
        deadline = time.monotonic() + patience
        while True:
            self.refuse_if_over(what)
            try:
                with Caller(self.address()) as caller:
                    return send(caller)
            except MasterUnavailable as error:
                if time.monotonic() > deadline or not self._has_master():
                    problem = self._why_away(error)
                    raise MasterUnavailable(
                        f"job {self.name} cannot be {what} now: {problem}", hint="try again in a moment"
                    ) from None
                time.sleep(LOOK_EVERY)

    def scale(self, role: str, replicas: int, reason: str) -> tuple[int, int]:
        """The master is asked, which answers at once; then the ElasticJob says the same, as after ``kubectl scale``."""
        before, now = super().scale(role, replicas, reason)
        wish = {"spec": {"roles": {role: {"replicas": {"wanted": now}}}}}
        with contextlib.suppress(Forbidden):  # it is done; only `kubectl get` shows another wish
            self._session.run(self._session.api.patch(ELASTIC_JOBS, self.name, wish, self.namespace))
        return before, now

    def stop(self, *, now: bool, reason: str, deadline: float) -> dict[str, Any]:
        from pliant.rpc import pliant_pb2 as pb

        if (summary := self.summary()) is not None:
            return summary
        request = pb.StopRequest(reason=reason, at_once=now)
        try:
            self.command("stopped", lambda caller: caller.call(caller.stubs.Stop, request))
        except Conflict:
            if not self.over():  # else it ended by itself at this moment, which is as well
                raise
        except MasterUnavailable as error:
            gone = f"`kubectl delete elasticjob {self.name} -n {self.namespace}` ends it without its master"
            raise MasterUnavailable(error.message, hint=f"try again in a moment; {gone}") from None
        return self._wait_for_the_end(deadline, now=now, every=LOOK_EVERY)

    def events(self, after: int, limit: int) -> list[EventRecord]:
        """Asked of the master; an ended job's were left beside its summary."""
        from pliant.master.journal_store import EventRecord
        from pliant.rpc import pliant_pb2 as pb

        if is_over(self._job) or self.over():
            found = [EventRecord(**event) for event in self._left_behind().get(EVENTS, ())]
            return [event for event in found if event.number > after][:limit]
        request = pb.EventsRequest(after=after, limit=limit)
        try:
            with Caller(self.address()) as caller:
                reply = caller.call(caller.stubs.GetEvents, request, timeout=CALL)
        except MasterUnavailable as error:
            if after:
                return []  # of one who follows; the master will be back
            raise MasterUnavailable(f"job {self.name}: {self._why_away(error)}", hint="try again in a moment") from None
        return [EventRecord(e.number, e.time, e.kind, e.node, e.message) for e in reply.events]

    def audit(self) -> dict[str, Any]:
        from pliant.rpc import pliant_pb2 as pb

        if self.over():
            report: dict[str, Any] | None = self._left_behind().get(AUDIT)
            if report is None:
                raise NotAvailable(f"job {self.name} was run without audit", hint="say `audit: true` in its spec")
            return {**report, "over": True}
        reply = self.command("audited", lambda caller: caller.call(caller.stubs.GetAudit, pb.Empty(), timeout=60))
        asked: dict[str, Any] = json.loads(reply.json)
        return asked

    # --- what its programs wrote

    def pods(self) -> list[Object]:
        """Oldest first, the master's among them."""
        listing = self._session.run(self._session.api.list(PODS, self.namespace, labels=job_selector(self.name)))
        return sorted(listing.items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def has_output_of(self) -> list[str]:
        return [node_of(pod) or "master" for pod in self.pods()]

    def output(self, console: Console, *, nodes: frozenset[str] | None, tail: int | None, follow: bool) -> Output:
        from pliant.cli.kubernetes.pod_output import PodOutput

        return PodOutput(self._session, self.name, console, nodes=nodes, tail=tail, follow=follow)

    # --- the end

    def remove(self) -> None:
        uid = self._job["metadata"]["uid"]
        self._session.run(self._session.api.delete(ELASTIC_JOBS, self.name, self.namespace, uid=uid))

    def close(self) -> None:
        self._session.close()

    # --- the way to its master

    def address(self) -> Address:
        """Of this end of a port-forward; a master that comes back under its name is found by the next connection."""
        if self._address is None:
            if not self._has_master():
                raise MasterUnavailable(f"job {self.name} has no master now ({phase_of(self._job)})")
            token, tls = self._read_secret()
            self._forward = PortForward(self._session.api, self.namespace, master_name(self.name), MASTER_PORT)
            self._session.at_end(self._forward.close)
            self._session.run(self._forward.start())
            from pliant.rpc.channel import Address

            self._address = Address(f"127.0.0.1:{self._forward.port}", token, tls)
        return self._address

    def _read_secret(self) -> tuple[str, Any]:
        from pliant.rpc.tls import TlsMaterial

        name = node_secret_name(self.name)
        try:
            secret = self._session.run(self._session.api.get(SECRETS, name, self.namespace))
        except NotFound:
            raise MasterUnavailable(f"job {self.name} has no Secret {name} yet") from None
        except Forbidden as error:
            hint = f"a running job's master is asked with its token: you need the right to get the Secret {name}"
            raise Forbidden(error.message, hint=hint) from None
        data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
        tls = TlsMaterial.from_files(data) if "ca.crt" in data else None
        return data[TOKEN_KEY].decode().strip(), tls

    def _has_master(self) -> bool:
        """Whether one runs or is about to come back."""
        told = (self._job.get("status") or {}).get("master") or {}
        return phase_of(self._job) not in ("Pending", "Invalid", "Suspended") or bool(told.get("ready"))

    def _why_away(self, error: PliantError) -> str:
        job_says = f": {message_of(self._job)}" if message_of(self._job) else ""
        if not self._has_master():
            return f"it has no master now, it is {phase_of(self._job)}{job_says}"
        problem = self._forward.problem if self._forward is not None else None
        if isinstance(problem, Forbidden):
            raise problem
        return f"the master is away ({(problem or error).message})"

    def _left_behind(self) -> dict[str, Any]:
        find = self._session.api.find(CONFIG_MAPS, summary_name(self.name), self.namespace)
        return left_behind(self._session.run(find))


def find_job(name: str | None, cluster: Cluster) -> KubernetesPlace:
    """By name, or the newest one."""
    session = Session(cluster)
    try:
        return KubernetesPlace(session, _find(session, name))
    except BaseException:
        session.close()
        raise


def all_jobs(cluster: Cluster) -> list[KubernetesPlace]:
    """Oldest first."""
    session = Session(cluster)
    return [KubernetesPlace(session, job) for job in _list(session)]


def _find(session: Session, name: str | None) -> Object:
    if name is not None:
        found = session.run(session.api.find(ELASTIC_JOBS, name, session.namespace))
        if found is not None:
            return found
    jobs = _list(session)
    if name is None:
        if not jobs:
            raise NotFound(
                f"there are no jobs in namespace {session.namespace}",
                hint="start one with `pliant run --platform kubernetes` or `pliant submit`",
            )
        return jobs[-1]
    close = get_close_matches(name, [job["metadata"]["name"] for job in jobs], 1)
    listed = f"`pliant jobs -N {session.namespace}` lists them; without -N a job of this machine is meant"
    raise NotFound(
        f"there is no job {name!r} in namespace {session.namespace}",
        hint=f"did you mean {close[0]}?" if close else listed,
    )


def _list(session: Session) -> list[Object]:
    try:
        items = session.run(session.api.list(ELASTIC_JOBS, session.namespace)).items
    except NotFound as error:
        raise NotFound(f"the cluster knows no ElasticJobs: {error.message}", hint=INSTALL) from None
    return sorted(items, key=lambda job: str(job["metadata"]["creationTimestamp"]))
