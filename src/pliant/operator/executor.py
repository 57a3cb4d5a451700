"""Carries decisions out: each write is fenced by the lease, and the API server's response goes into the store.

Creating an object that exists is a success if it belongs to this job. If it belongs to another (a job of the same name that is
being garbage-collected) we wait: it is about to be deleted.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from pliant.core.errors import InvalidRequest, NotFound, PermanentError, RetryableError, SpecError
from pliant.operator import job_objects
from pliant.operator.actions import (
    Action,
    CreateMaster,
    DeletePlan,
    DeletePod,
    EmitEvent,
    ForceDeleteIfLost,
    PatchJob,
    PatchPlan,
    PatchStatus,
    RecordPlans,
)
from pliant.operator.fair_limiter import FairLimiter
from pliant.operator.journal_volume import (
    JournalVolume,
    StorageClasses,
    choose_volume,
    decided_volume,
    given_volume,
    resolved,
    storage_classes,
)
from pliant.operator.known_brain import KnownBrain
from pliant.operator.lease import Lease
from pliant.operator.master_pod import master_pod
from pliant.operator.observed import Key, ObservedJob, condition, has_started, micro_time, owner_uid, uid_of
from pliant.operator.store import Store, key_of
from pliant.platforms.kubernetes.api import KubeApi, path_of
from pliant.platforms.kubernetes.errors import AlreadyExists, Forbidden, Outdated
from pliant.platforms.kubernetes.kinds import (
    CONFIG_MAPS,
    ELASTIC_JOBS,
    EVENTS,
    NODES,
    PODS,
    SCALE_PLANS,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
    Kind,
    Object,
)
from pliant.platforms.kubernetes.names import MASTER_PORT, SPEC_KEY, master_name
from pliant.platforms.kubernetes.plans import PodToCreate
from pliant.platforms.kubernetes.pod_policy import PodPolicy
from pliant.platforms.kubernetes.pods import node_pod
from pliant.platforms.kubernetes.timestamps import rfc3339
from pliant.spec import JobSpec

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_CONCURRENT_WRITES = 24  # of all jobs together
CREATE_TIMEOUT_S = 8.0  # then it is a problem that is reported and retried
VERIFY_OVERDUE_S = 30.0  # overdue, after which we read whether a Pod still exists
MACHINE_CHECK_TTL_S = 3.0  # how long the observed state of a machine is reused
MAX_CACHED_MACHINES = 1000
MACHINE_LIST_TTL_S = 30.0  # for which a list of all machines is taken as current
FORCE_DELETE_OVERDUE_S = 300.0  # overdue, after which a Pod is force-deleted even if we may not read Node objects
ASSUMED_GRACE_S = 60.0  # of a deleted Pod, until the watch delivers its true deadline
EVENT_DEDUPLICATION_S = 600.0  # in which the same Event of a job is not written again


class NameTaken(RetryableError):
    """An object of this name exists and does not belong to the job."""


class PodsRefused(PermanentError):
    """The API server can never accept the Pods that follow from a job's spec."""


class Executor:
    def __init__(
        self,
        api: KubeApi,
        lease: Lease,
        store: Store,
        *,
        image: str,
        policy: PodPolicy | None = None,
        metrics_from: Sequence[Object] = (),
        brain: KnownBrain | None = None,
        component: str = "pliant-operator",
    ) -> None:
        """``metrics_from``: peers, as in a NetworkPolicy, that may read the metrics of masters."""
        self.api, self.store, self.policy, self.brain = api, store, policy or PodPolicy(), brain
        self._metrics_from = metrics_from
        self._lease, self._image, self._component = lease, image, component
        self._limiter = FairLimiter(MAX_CONCURRENT_WRITES)
        self._recent_events: dict[tuple[str, str, str], float] = {}  # uid, reason, message -> when
        self._addresses: dict[str, str] = {}  # uid of a job -> cluster IP of its Service
        self._first: dict[str, JobSpec] = {}  # uid of a job -> the spec that it started with
        self._machines: dict[str, tuple[float, bool]] = {}  # name -> when it was last read, whether it was lost
        self._machine_lock = asyncio.Lock()
        self._listed: tuple[Object, ...] | None = None
        self._listed_at = float("-inf")
        self._journals: dict[str, JournalVolume] = {}  # uid of a job -> where its journal lies

    @property
    def image(self) -> str:
        return self._image

    async def execute(self, action: Action, observed: ObservedJob, spec: JobSpec | None) -> None:
        namespace, name = observed.key
        match action:
            case PatchJob(patch):
                answer = await self._fenced(observed.key, lambda: self.api.patch(ELASTIC_JOBS, name, patch, namespace))
                self.store.put(ELASTIC_JOBS, answer)
            case PatchStatus(patch):
                await self._patch_status(observed, patch)
            case CreateMaster() if observed.job is not None and spec is not None:
                await self._create_master(observed.job, spec, action)
            case DeletePod(pod, uid, grace):
                await self.delete(PODS, pod, observed.key, uid=uid, grace=grace)
                self.store.mark_deleting(PODS, observed.key, uid, rfc3339(time.time() + (grace or ASSUMED_GRACE_S)))
            case ForceDeleteIfLost():
                await self._force_delete_if_lost(action, observed)
            case RecordPlans(plans, recorded) if observed.job is not None:
                await self._record_plans(observed, plans, recorded)
            case DeletePlan(plan, uid):
                await self.delete(SCALE_PLANS, plan, observed.key, uid=uid)
                self.store.mark_deleting(SCALE_PLANS, observed.key, uid, rfc3339(time.time()))
            case PatchPlan(plan, patch, status):
                await self.patch_plan(plan, patch, status=status)
            case EmitEvent() if observed.job is not None:
                await self.emit_event(observed.job, action)

    # --- single writes

    async def create(self, kind: Kind, body: Object, job: Object) -> Object:
        """Create it for this job; returns the object that exists now."""
        namespace = job["metadata"]["namespace"]
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        what = f"create {kind.full_name} in {namespace}"
        try:
            made = await self._fenced(
                key_of(ELASTIC_JOBS, job),
                lambda: self.api.request("POST", path_of(kind, namespace), whole, what=what, deadline=CREATE_TIMEOUT_S),
            )
        except AlreadyExists:
            made = await self.api.get(kind, body["metadata"]["name"], namespace)
            if owner_uid(made) != uid_of(job):
                raise NameTaken(
                    f"{kind.kind} {body['metadata']['name']} in {namespace} belongs to another owner",
                    hint="if it is left over from a deleted job of the same name, Kubernetes removes it soon; otherwise delete it",
                ) from None
        if kind in (PODS, SCALE_PLANS):
            self.store.put(kind, made)
        return made

    async def delete(self, kind: Kind, name: str, job: Key, *, uid: str = "", grace: float | None = None) -> bool:
        """Delete an object of a job, if it is still the same one; False: it does not exist."""
        try:
            return await self._fenced(job, lambda: self.api.delete(kind, name, job[0], grace=grace, uid=uid))
        except Outdated:  # another of the same name
            return False

    async def patch_plan(self, plan: Object, patch: Mapping[str, Any], *, status: bool) -> None:
        name, namespace = plan["metadata"]["name"], plan["metadata"]["namespace"]
        try:
            answer = await self._fenced(
                key_of(SCALE_PLANS, plan),
                lambda: self.api.patch(SCALE_PLANS, name, patch, namespace, subresource="status" if status else ""),
            )
        except NotFound:
            self.store.remove(SCALE_PLANS, plan)
        else:
            self.store.put(SCALE_PLANS, answer)

    async def emit_event(self, job: Object, event: EmitEvent) -> None:
        """Write an Event, unless the same one was written recently."""
        metadata, now = job["metadata"], time.time()
        key = (uid_of(job), event.reason, event.message)
        if now - self._recent_events.get(key, 0.0) < EVENT_DEDUPLICATION_S:
            return
        recent = {old: when for old, when in self._recent_events.items() if now - when < EVENT_DEDUPLICATION_S}
        self._recent_events = recent | {key: now}
        log.info("%s/%s: %s: %s", metadata["namespace"], metadata["name"], event.reason, event.message)
        mark = hashlib.sha256(f"{key}{now}".encode()).hexdigest()[:12]
        body = {
            "metadata": {"name": f"{metadata['name']}.{mark}", "namespace": metadata["namespace"]},
            "involvedObject": {
                **{key: job[key] for key in ("apiVersion", "kind")},
                **{key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")},
            },
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "message": event.message[:1000],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._lease.identity,
            "action": event.reason,
            "eventTime": micro_time(now),
            "firstTimestamp": micro_time(now)[:19] + "Z",
            "lastTimestamp": micro_time(now)[:19] + "Z",
            "count": 1,
        }
        try:
            await self._fenced(key_of(ELASTIC_JOBS, job), lambda: self.api.create(EVENTS, body, metadata["namespace"]))
        except (Forbidden, NotFound) as error:  # it is in the log at least; the namespace may be terminating
            log.warning("cannot write the Event: %s", error)

    async def address(self, job: Object) -> str:
        """Where the job's nodes reach its master."""
        uid, name = uid_of(job), job["metadata"]["name"]
        if uid not in self._addresses:
            found = await self.api.get(SERVICES, master_name(name), job["metadata"]["namespace"])
            self._addresses[uid] = found["spec"]["clusterIP"]
        return f"{self._addresses[uid]}:{MASTER_PORT}"

    async def first_spec(self, job: Object) -> JobSpec | None:
        """The spec that the job started with, by which its master works; None: it has not started, or another version of Pliant
        wrote what this one cannot read."""
        uid, name = uid_of(job), master_name(job["metadata"]["name"])
        if uid not in self._first:
            found = await self.api.find(CONFIG_MAPS, name, job["metadata"]["namespace"])
            if found is None or owner_uid(found) != uid:
                return None
            try:
                self._first[uid] = JobSpec.from_yaml(found["data"][SPEC_KEY])
            except SpecError as error:
                log.warning(
                    "%s/%s: cannot read the spec that the job started with: %s",
                    job["metadata"]["namespace"],
                    name,
                    error,
                )
                return None
        return self._first[uid]

    async def journal_volume(self, job: Object, spec: JobSpec) -> JournalVolume:
        """Where the master's journal lies: as it was decided when the job started, or as it is decided now."""
        uid = uid_of(job)
        if uid not in self._journals:
            first = await self.first_spec(job) if has_started(job) else None
            decided = decided_volume(first, spec) if first is not None else given_volume(spec)
            self._journals[uid] = decided or choose_volume(await self._storage_classes())
        return self._journals[uid]

    async def _storage_classes(self) -> StorageClasses:
        """As they are now: one call for each job, when it starts."""
        try:
            return storage_classes((await self.api.list(STORAGE_CLASSES)).items)
        except Forbidden as error:
            return StorageClasses(problem=error.message)

    def forget(self, uid: str) -> None:
        self._addresses.pop(uid, None)
        self._first.pop(uid, None)
        self._journals.pop(uid, None)

    # --- composite actions

    async def _create_master(self, job: Object, spec: JobSpec, action: CreateMaster) -> None:
        spec = resolved(spec, await self.journal_volume(job, spec))
        if has_started(job) and (first := await self.first_spec(job)) is not None:
            spec = spec.model_copy(update={"optimize": first.optimize, "journal": first.journal})
        if not has_started(job):  # a job that runs needs its master, also after an edit that makes Pods impossible
            await self._check_templates(job, spec)
        found = await self.create(SERVICES, job_objects.service(job), job)
        address = self._addresses[uid_of(job)] = found["spec"]["clusterIP"]
        secret = await asyncio.to_thread(job_objects.master_secret, job, spec, address)
        of_master = await self.create(SECRETS, secret, job)  # an existing one wins
        await self.create(SECRETS, job_objects.node_secret(job, of_master), job)
        if self.brain is not None and spec.optimize.brain == self.brain.address:
            access = await asyncio.to_thread(self.brain.access)
            await self.create(SECRETS, job_objects.brain_secret(job, access), job)
        await asyncio.gather(
            *(
                self.create(kind, body, job)
                for kind, body in job_objects.supporting_objects(job, spec, self._metrics_from)
            )
        )
        body = master_pod(job, spec, address, self._image, takes_over=action.takes_over, life=action.life)
        try:
            pod = await self.create(PODS, body, job)
        except InvalidRequest as error:
            raise PodsRefused(f"platform.kubernetes.master: {error.message}") from None
        await self.emit_event(job, EmitEvent("MasterCreated", f"created Pod {pod['metadata']['name']}"))

    async def _check_templates(self, job: Object, spec: JobSpec) -> None:
        """Ask the API server whether it could accept the Pods of each role that has a template; nothing is created."""
        namespace = job["metadata"]["namespace"]
        for name, role in spec.roles.items():
            if not role.template:
                continue
            entry = PodToCreate(node=f"{name}-0", role=name)
            body = node_pod(job, spec, entry, master_address="", image=self._image)
            body["metadata"]["generateName"] = f"{body['metadata'].pop('name')}-"  # its Pod may be there already
            whole = {"apiVersion": PODS.api_version, "kind": PODS.kind, **body}
            try:
                await self.api.request(
                    *("POST", path_of(PODS, namespace), whole),
                    what=f"create {PODS.full_name} in {namespace}",
                    query={"dryRun": "All"},
                    deadline=CREATE_TIMEOUT_S,
                )
            except InvalidRequest as error:
                if "dry run" not in error.message:  # else a webhook that cannot do that
                    raise PodsRefused(f"roles.{name}.template: {error.message}") from None
            except (RetryableError, Forbidden, NotFound) as error:  # a matter of now: quota, a missing account
                log.info("%s: cannot check the template of role %s: %s", namespace, name, error.message)

    async def _record_plans(self, observed: ObservedJob, plans: Sequence[Object], recorded: int) -> None:
        """The number is noted before any of them is executed: one that is deleted from then on is not made again."""
        assert observed.job is not None
        namespace, name = observed.key
        for plan in plans:
            await self.create(SCALE_PLANS, plan, observed.job)
        body = {"status": {"outbox": {"recorded": recorded}}}
        try:
            answer = await self._fenced(
                observed.key, lambda: self.api.patch(ELASTIC_JOBS, name, body, namespace, subresource="status")
            )
        except NotFound:
            self.store.remove(ELASTIC_JOBS, observed.job)
        else:
            self.store.put(ELASTIC_JOBS, answer)

    async def _patch_status(self, observed: ObservedJob, patch: Mapping[str, Any]) -> None:
        assert observed.job is not None
        body = {"metadata": {"resourceVersion": observed.job["metadata"]["resourceVersion"]}, "status": patch}
        namespace, name = observed.key
        try:
            answer = await self._fenced(
                observed.key, lambda: self.api.patch(ELASTIC_JOBS, name, body, namespace, subresource="status")
            )
        except Outdated:  # somebody else wrote it; our copy may be stale, so read it
            answer = await self.api.get(ELASTIC_JOBS, name, namespace)
        except NotFound:
            self.store.remove(ELASTIC_JOBS, observed.job)
            return
        self.store.put(ELASTIC_JOBS, answer)

    async def _force_delete_if_lost(self, action: ForceDeleteIfLost, observed: ObservedJob) -> None:
        namespace = observed.key[0]
        try:
            lost = await self._is_lost(action.machine)
        except Forbidden:
            lost = action.overdue > FORCE_DELETE_OVERDUE_S
        if not lost:
            if action.overdue < VERIFY_OVERDUE_S:
                return  # its kubelet is slow
            found = await self.api.find(PODS, action.name, namespace)
            if found is None or uid_of(found) != action.uid:  # it was deleted, and we missed that
                for pod in observed.pods:
                    if uid_of(pod) == action.uid:
                        self.store.remove(PODS, pod)
            return
        log.warning("node %s is lost; force-deleting Pod %s/%s", action.machine, namespace, action.name)
        if observed.job is not None:
            message = f"node {action.machine} is not ready; force-deleting Pod {action.name}"
            await self.emit_event(observed.job, EmitEvent("MachineLost", message, warning=True))
        await self.delete(PODS, action.name, observed.key, uid=action.uid, grace=0.0)

    async def machines(self) -> tuple[Object, ...] | None:
        """All machines of the cluster, as of a moment ago; None: we may not read them."""
        async with self._machine_lock:
            if time.monotonic() - self._listed_at > MACHINE_LIST_TTL_S:
                self._listed_at = time.monotonic()
                try:
                    listing = await self.api.list(NODES)
                    self._listed = tuple(listing.items)
                except Forbidden:
                    self._listed = None
                except RetryableError as error:
                    log.info("cannot list nodes now: %s", error)
            return self._listed

    async def _is_lost(self, name: str) -> bool:
        """Whether a machine is gone or not ready. Many Pods may ask at once; one call serves them all."""
        async with self._machine_lock:
            checked_at, lost = self._machines.get(name, (float("-inf"), False))
            if time.monotonic() - checked_at > MACHINE_CHECK_TTL_S:
                machine = await self.api.find(NODES, name)
                lost = machine is None or condition(machine, "Ready").get("status") != "True"
                if len(self._machines) > MAX_CACHED_MACHINES:
                    self._machines.clear()
                self._machines[name] = (time.monotonic(), lost)
            return lost

    async def _fenced(self, job: Key, call: Callable[[], Awaitable[T]]) -> T:
        async with self._limiter.slot(job), self._lease.fenced():
            return await call()
