"""A job of a cluster: an ElasticJob, whose master is called over gRPC through a port-forward.

Reaching the master takes nothing but the API server: the job's token and certificates are read from the Secret of its
nodes, and the connection is a port-forward to the Pod ``<job>-master``. An ended job has left its summary in a ConfigMap.
While the master is away the view is made of the ElasticJob's status, and says so.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from pliant.core.errors import Conflict, MasterUnavailable, NotAvailable, NotFound, PliantError
from pliant.core.job import Phase
from pliant.core.resources import RolloutMode
from pliant.core.series.job_series import JobSeries
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.handles.cluster import Cluster
from pliant.handles.job_handle import (
    RETRY_TIMEOUT_S,
    Caller,
    JobHandle,
    JobView,
    LinePrinter,
    Output,
    RoleChange,
    RoleChanged,
    quiet_roles,
)
from pliant.handles.kubernetes.pod_output import PodOutput
from pliant.handles.kubernetes.pod_pages import read_pod_page, search_pods
from pliant.handles.kubernetes.session import Session
from pliant.handles.kubernetes.summary import Remains, read_remains, summary_of
from pliant.master.series_file import parse_series
from pliant.platforms.kubernetes.elastic_job_status import is_over, message_of, phase_of, status_of_resource
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
from pliant.platforms.kubernetes.timestamps import seconds_of
from pliant.rpc.retry import call_with_retry

if TYPE_CHECKING:
    from pliant.core.events import EventRecord
    from pliant.core.shards.shard_map import ShardMap
    from pliant.handles.log_pages import LogMatches, LogPage
    from pliant.rpc.channel import Address

T = TypeVar("T")
POLL_INTERVAL_S = 0.5  # between two questions to the API server or to a master that is away
INSTALL = "install Pliant in the cluster (docs/kubernetes.md) and run `pliant doctor --platform kubernetes`"
CALL_TIMEOUT_S = 5.0  # through the API server
RESOURCE_FIELDS = {"cpu": "cpu", "memory_mb": "memory", "gpu": "gpu"}  # of a role, in the ElasticJob


class KubernetesJob(JobHandle):
    platform = "kubernetes"
    refresh_interval_s = 1.0
    call_timeout_s = CALL_TIMEOUT_S

    def __init__(self, session: Session, job: Object) -> None:
        self._session = session
        self._job = job
        self._forward: PortForward | None = None
        self._address: Address | None = None
        self.name = str(job["metadata"]["name"])
        self.namespace = session.namespace

    # --- its identity

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
        pod = (self._job.get("status") or {}).get("master") or {}
        return {"address": "", "pid": 0, "pod": pod.get("pod") or master_name(self.name)}

    # --- its status

    def read(self) -> Object:
        """The ElasticJob as it is now."""
        found = self._session.run(self._session.api.find(ELASTIC_JOBS, self.name, self.namespace))
        if found is None or found["metadata"]["uid"] != self._job["metadata"]["uid"]:
            raise NotFound(f"job {self.name} was deleted from namespace {self.namespace}")
        self._job = found
        return found

    def update(self, job: Object) -> None:
        """Take what somebody else has read of it."""
        self._job = job

    def is_over(self) -> bool:
        return is_over(self.read())

    def summary(self) -> JobSummary | None:
        job = self.read()
        return summary_of(job, self._read_remains(), time.time()) if is_over(job) else None

    def peek(self) -> JobView:
        if is_over(self._job):
            return JobView.of_summary(self, summary_of(self._job, Remains(), time.time()))
        return JobView(self, self._resource_status())

    def view(self, *, retry_timeout: float = RETRY_TIMEOUT_S) -> JobView:
        def attempt() -> JobView:
            if (summary := self.summary()) is not None:
                return JobView.of_summary(self, summary)
            with Caller(self.address()) as caller:
                return JobView(self, caller.status(timeout=CALL_TIMEOUT_S), master_alive=True)

        try:
            return self._until_answered(attempt, retry_timeout)
        except MasterUnavailable as error:
            problem = self._why_away(error)
            return JobView(self, self._resource_status(), note=problem, source="the ElasticJob")

    def command(self, what: str, send: Callable[[Caller], T], *, retry_timeout: float = RETRY_TIMEOUT_S) -> T:
        def attempt() -> T:
            self.refuse_if_over(what)
            with Caller(self.address()) as caller:
                return send(caller)

        try:
            return self._until_answered(attempt, retry_timeout)
        except MasterUnavailable as error:
            problem = self._why_away(error)
            raise MasterUnavailable(
                f"job {self.name} cannot be {what} now: {problem}", hint="try again in a moment"
            ) from None

    def _until_answered(self, attempt: Callable[[], T], retry_timeout: float) -> T:
        def check(error: PliantError) -> None:
            self._why_away(error)  # raises if the port-forward is forbidden
            if not self._has_master():
                raise error

        return call_with_retry(attempt, retry_timeout=retry_timeout, on_failure=check, max_pause=POLL_INTERVAL_S)

    def scale(self, wanted: Sequence[RoleChange], reason: str) -> list[RoleChanged]:
        """The master is called, which answers at once; then the ElasticJob is patched, as by ``kubectl scale``."""
        changed = super().scale(wanted, reason)
        roles: Object = {}
        for change, result in zip(wanted, changed, strict=True):
            role: Object = {"replicas": {"wanted": result.now}} if change.replicas is not None else {}
            if change.resources and change.rollout is not RolloutMode.NEW_NODES:
                role["resources"] = {RESOURCE_FIELDS[name]: amount for name, amount in change.resources.items()}
            roles[change.role] = role
        with contextlib.suppress(Forbidden):  # the job is scaled; only `kubectl get` shows another number
            patch = {"spec": {"roles": roles}}
            self._session.run(self._session.api.patch(ELASTIC_JOBS, self.name, patch, self.namespace))
        return changed

    def stop(self, *, now: bool, reason: str, deadline: float) -> JobSummary:
        from pliant.rpc import pliant_pb2 as pb

        if (summary := self.summary()) is not None:
            return summary
        request = pb.StopRequest(reason=reason, at_once=now)
        try:
            self.command("stopped", lambda caller: caller.call(caller.stubs.Stop, request))
        except Conflict:
            if not self.is_over():  # else it ended by itself just now
                raise
        except MasterUnavailable as error:
            gone = f"`kubectl delete elasticjob {self.name} -n {self.namespace}` deletes it without its master"
            raise MasterUnavailable(error.message, hint=f"try again in a moment; {gone}") from None
        return self._wait_until_over(deadline, now=now, poll_interval=POLL_INTERVAL_S)

    def events(self, after: int, limit: int) -> list[EventRecord]:
        """From the master; an ended job's are stored beside its summary."""
        from pliant.core.events import EventRecord
        from pliant.rpc import pliant_pb2 as pb
        from pliant.rpc.events import event_from

        if is_over(self._job) or self.is_over():
            found = [EventRecord.from_json(event) for event in self._read_remains().events]
            return [event for event in found if event.number > after][:limit]
        request = pb.EventsRequest(after=after, limit=limit)
        try:
            with Caller(self.address()) as caller:
                reply = caller.call(caller.stubs.GetEvents, request, timeout=CALL_TIMEOUT_S)
        except MasterUnavailable as error:
            if after:
                return []  # the caller follows them; the master will be back
            raise MasterUnavailable(f"job {self.name}: {self._why_away(error)}", hint="try again in a moment") from None
        return [event_from(event) for event in reply.events]

    def _last_series(self) -> JobSeries:
        text = self._read_remains().series
        return parse_series(text, f"ConfigMap {summary_name(self.name)}") if text else JobSeries(self.name)

    def audit(self) -> dict[str, Any]:
        from pliant.rpc import pliant_pb2 as pb
        from pliant.rpc.audits import audit_from

        if self.is_over():
            report = self._read_remains().audit
            if report is None:
                raise NotAvailable(f"job {self.name} ran without audit", hint="set `audit: true` in its spec")
            return {**report, "over": True}
        reply = self.command("audited", lambda caller: caller.call(caller.stubs.GetAudit, pb.Empty(), timeout=60))
        return audit_from(reply).to_json()

    # --- output of its programs

    def pods(self) -> list[Object]:
        """Oldest first, the master's among them."""
        listing = self._session.run(self._session.api.list(PODS, self.namespace, labels=job_selector(self.name)))
        return sorted(listing.items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def nodes_with_output(self) -> list[str]:
        return [node_of(pod) or "master" for pod in self.pods()]

    def output(
        self,
        printer: LinePrinter,
        *,
        nodes: frozenset[str] | None,
        tail: int | None,
        follow: bool,
        with_servers: bool = False,
    ) -> Output:
        hidden = quiet_roles(str(self._job["spec"].get("strategy") or ""), with_servers=with_servers)
        return PodOutput(self._session, self.name, printer, nodes=nodes, hidden_roles=hidden, tail=tail, follow=follow)

    def log_page(self, node: str, *, after: str = "", before: str = "", lines: int = 500) -> LogPage:
        """A cursor is the time stamp of a line; there is no way back before the last lines."""
        return self._session.run(read_pod_page(self._session, self.name, node, after=after, lines=lines))

    def search_logs(self, text: str, *, node: str = "") -> LogMatches:
        return self._session.run(search_pods(self._session, self.name, text, node=node))

    def written_spec(self) -> dict[str, Any]:
        return dict(self._job["spec"])

    def created_at(self) -> float:
        return seconds_of(self._job["metadata"].get("creationTimestamp"), 0.0)

    def shard_maps(self) -> tuple[ShardMap, ...]:
        if self.is_over():
            raise NotAvailable("the job has ended, and its journal with it")
        return super().shard_maps()

    # --- the end

    def remove(self) -> None:
        uid = self._job["metadata"]["uid"]
        self._session.run(self._session.api.delete(ELASTIC_JOBS, self.name, self.namespace, uid=uid))

    def close(self) -> None:
        self._session.close()

    # --- the connection to its master

    def address(self) -> Address:
        """Of the local end of a port-forward; a restarted master has the same Pod name, so the next connection reaches it."""
        if self._address is None:
            if not self._has_master():
                raise MasterUnavailable(f"job {self.name} has no master now ({phase_of(self._job)})")
            token, tls = self._read_secret()
            self._forward = PortForward(self._session.api, self.namespace, master_name(self.name), MASTER_PORT)
            self._session.at_end(self._forward.close)
            self._session.run(self._forward.start())
            from pliant.rpc.channel import Address

            # The API server says that this job has no certificates: its spec opted out of TLS.
            self._address = Address(f"127.0.0.1:{self._forward.port}", token, tls, allows_plaintext=tls is None)
        return self._address

    def _read_secret(self) -> tuple[str, Any]:
        from pliant.rpc.tls import TlsMaterial

        name = node_secret_name(self.name)
        try:
            secret = self._session.run(self._session.api.get(SECRETS, name, self.namespace))
        except NotFound:
            raise MasterUnavailable(f"job {self.name} has no Secret {name} yet") from None
        except Forbidden as error:
            hint = f"calling a job's master needs its token: get permission to read the Secret {name}"
            raise Forbidden(error.message, hint=hint) from None
        data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
        tls = TlsMaterial.from_files(data) if "ca.crt" in data else None
        return data[TOKEN_KEY].decode().strip(), tls

    def _has_master(self) -> bool:
        """Whether one runs or is about to come back."""
        pod = (self._job.get("status") or {}).get("master") or {}
        return phase_of(self._job) not in (Phase.PENDING, Phase.INVALID, Phase.SUSPENDED) or bool(pod.get("ready"))

    def _why_away(self, error: PliantError) -> str:
        job_says = f": {message_of(self._job)}" if message_of(self._job) else ""
        if not self._has_master():
            return f"it has no master now (phase {phase_of(self._job)}){job_says}"
        problem = self._forward.problem if self._forward is not None else None
        if isinstance(problem, Forbidden):
            raise problem
        return f"the master is unavailable ({(problem or error).message})"

    def _resource_status(self) -> JobStatus:
        return status_of_resource(self._job, time.time())

    def _read_remains(self) -> Remains:
        find = self._session.api.find(CONFIG_MAPS, summary_name(self.name), self.namespace)
        return read_remains(self._session.run(find))


def find_job(name: str | None, cluster: Cluster) -> KubernetesJob:
    """By name, or the newest one."""
    session = Session(cluster)
    try:
        return KubernetesJob(session, _find(session, name))
    except BaseException:
        session.close()
        raise


def all_jobs(cluster: Cluster) -> list[KubernetesJob]:
    """Oldest first."""
    session = Session(cluster)
    return [KubernetesJob(session, job) for job in list_jobs(session)]


def _find(session: Session, name: str | None) -> Object:
    if name is not None:
        found = session.run(session.api.find(ELASTIC_JOBS, name, session.namespace))
        if found is not None:
            return found
    jobs = list_jobs(session)
    if name is None:
        if not jobs:
            raise NotFound(
                f"no jobs in namespace {session.namespace}",
                hint="start one with `pliant run --platform kubernetes` or `pliant submit`",
            )
        return jobs[-1]
    close = get_close_matches(name, [job["metadata"]["name"] for job in jobs], 1)
    listed = f"`pliant jobs -N {session.namespace}` lists them; without -N, jobs on this machine are used"
    raise NotFound(
        f"job {name!r} not found in namespace {session.namespace}",
        hint=f"did you mean {close[0]}?" if close else listed,
    )


def list_jobs(session: Session) -> list[Object]:
    try:
        items = session.run(session.api.list(ELASTIC_JOBS, session.namespace)).items
    except NotFound as error:
        raise NotFound(f"ElasticJob is not installed in the cluster: {error.message}", hint=INSTALL) from None
    return sorted(items, key=lambda job: str(job["metadata"]["creationTimestamp"]))
