"""Carries decisions out, each write fenced by the lease, and puts what the API server answered into the store.

Making something that is there already is a success if it belongs to this job. If it belongs to another (a job of the same
name that is just being cleaned up) we wait: what we would take over is about to vanish.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from pliant.core.errors import NotFound, RetryableError, SpecError
from pliant.operator import job_objects
from pliant.operator.actions import (
    Action,
    CreateMaster,
    DeletePlan,
    DeletePod,
    ForceIfLost,
    PatchJob,
    PatchPlan,
    PatchStatus,
    Tell,
)
from pliant.operator.lease import Lease
from pliant.operator.master_pod import master_pod
from pliant.operator.seen import Key, Seen, condition, micro_time, owner_uid, rfc3339, uid_of
from pliant.operator.store import Store, key_of
from pliant.operator.turns import Turns
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
    Kind,
    Object,
)
from pliant.platforms.kubernetes.names import MASTER_PORT, SPEC_KEY, master_name
from pliant.spec import JobSpec

log = logging.getLogger(__name__)
T = TypeVar("T")

AT_ONCE = 24  # writes in flight, of all jobs together
CREATE_WITHIN = 8.0  # seconds; then it is a problem that is told and tried again
MAYBE_MISSED = 30.0  # seconds overdue after which we ask whether a Pod is still there
LOOK_HOLDS = 3.0  # seconds that a look at a machine holds
MOST_MACHINES = 1000  # of which that is remembered
SURELY_LOST = 300.0  # seconds overdue after which a Pod is removed even if we may not look at machines
LONG_GRACE = 60.0  # seconds, until the watch tells the true time at which a removed Pod must be gone
TELL_AGAIN = 600.0  # seconds before the same Event of a job is written again


class NameTaken(RetryableError):
    """Something of this name is there that does not belong to the job."""


class Executor:
    def __init__(
        self, api: KubeApi, lease: Lease, store: Store, *, image: str, component: str = "pliant-operator"
    ) -> None:
        self.api, self.store = api, store
        self._lease, self._image, self._component = lease, image, component
        self._turns = Turns(AT_ONCE)
        self._told: dict[tuple[str, str, str], float] = {}  # uid, reason, message -> when
        self._addresses: dict[str, str] = {}  # uid of a job -> cluster IP of its Service
        self._first: dict[str, JobSpec] = {}  # uid of a job -> its spec when it began
        self._machines: dict[str, tuple[float, bool]] = {}  # when it was last looked at, whether it was lost
        self._looking = asyncio.Lock()

    @property
    def image(self) -> str:
        return self._image

    async def do(self, action: Action, seen: Seen, spec: JobSpec | None) -> None:
        namespace, name = seen.key
        match action:
            case PatchJob(patch):
                answer = await self._fenced(seen.key, lambda: self.api.patch(ELASTIC_JOBS, name, patch, namespace))
                self.store.put(ELASTIC_JOBS, answer)
            case PatchStatus(patch):
                await self._patch_status(seen, patch)
            case CreateMaster() if seen.job is not None and spec is not None:
                await self._create_master(seen.job, spec)
            case DeletePod(pod, uid, grace):
                await self.delete(PODS, pod, seen.key, uid=uid, grace=grace)
                self.store.asked_to_go(PODS, seen.key, uid, rfc3339(time.time() + (grace or LONG_GRACE)))
            case ForceIfLost():
                await self._force_if_lost(action, seen)
            case DeletePlan(plan, uid):
                await self.delete(SCALE_PLANS, plan, seen.key, uid=uid)
                self.store.asked_to_go(SCALE_PLANS, seen.key, uid, rfc3339(time.time()))
            case PatchPlan(plan, patch, status):
                await self.patch_plan(plan, patch, status=status)
            case Tell() if seen.job is not None:
                await self.tell(seen.job, action)

    # --- single writes

    async def create(self, kind: Kind, body: Object, job: Object) -> Object:
        """Make it for this job; gives what is there."""
        namespace = job["metadata"]["namespace"]
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        what = f"create {kind.full_name} in {namespace}"
        try:
            made = await self._fenced(
                key_of(ELASTIC_JOBS, job),
                lambda: self.api.request("POST", path_of(kind, namespace), whole, what=what, deadline=CREATE_WITHIN),
            )
        except AlreadyExists:
            made = await self.api.get(kind, body["metadata"]["name"], namespace)
            if owner_uid(made) != uid_of(job):
                raise NameTaken(
                    f"{kind.kind} {body['metadata']['name']} in {namespace} belongs to something else",
                    hint="if it is of a job of the same name that was just deleted it goes by itself, else remove it",
                ) from None
        if kind is PODS:
            self.store.put(PODS, made)
        return made

    async def delete(self, kind: Kind, name: str, job: Key, *, uid: str = "", grace: float | None = None) -> bool:
        """Have something of a job removed, if it is still the same; False: it is not there."""
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
            self.store.gone(SCALE_PLANS, plan)
        else:
            self.store.put(SCALE_PLANS, answer)

    async def tell(self, job: Object, event: Tell) -> None:
        """Write an Event, unless the same was written lately."""
        metadata, now = job["metadata"], time.time()
        key = (uid_of(job), event.reason, event.message)
        if now - self._told.get(key, 0.0) < TELL_AGAIN:
            return
        self._told = {old: when for old, when in self._told.items() if now - when < TELL_AGAIN} | {key: now}
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
        except (Forbidden, NotFound) as error:  # told in the log at least; a namespace may be going
            log.warning("the event was not written: %s", error)

    async def address(self, job: Object) -> str:
        """Where the job's nodes find its master."""
        uid, name = uid_of(job), job["metadata"]["name"]
        if uid not in self._addresses:
            found = await self.api.get(SERVICES, master_name(name), job["metadata"]["namespace"])
            self._addresses[uid] = found["spec"]["clusterIP"]
        return f"{self._addresses[uid]}:{MASTER_PORT}"

    async def first_spec(self, job: Object) -> JobSpec | None:
        """The job as it began, which is what its master goes by; None: it has not begun, or under another version of Pliant that
        wrote what this one does not read."""
        uid, name = uid_of(job), master_name(job["metadata"]["name"])
        if uid not in self._first:
            found = await self.api.find(CONFIG_MAPS, name, job["metadata"]["namespace"])
            if found is None or owner_uid(found) != uid:
                return None
            try:
                self._first[uid] = JobSpec.from_yaml(found["data"][SPEC_KEY])
            except SpecError as error:
                log.warning("%s/%s: the spec that it began with: %s", job["metadata"]["namespace"], name, error)
                return None
        return self._first[uid]

    def forget(self, uid: str) -> None:
        self._addresses.pop(uid, None)
        self._first.pop(uid, None)

    # --- the larger ones

    async def _create_master(self, job: Object, spec: JobSpec) -> None:
        found = await self.create(SERVICES, job_objects.service(job), job)
        address = self._addresses[uid_of(job)] = found["spec"]["clusterIP"]
        secret = await asyncio.to_thread(job_objects.master_secret, job, spec, address)
        of_master = await self.create(SECRETS, secret, job)  # where one was there, that one counts
        await self.create(SECRETS, job_objects.node_secret(job, of_master), job)
        await asyncio.gather(*(self.create(kind, body, job) for kind, body in job_objects.others(job, spec)))
        pod = await self.create(PODS, master_pod(job, spec, address, self._image), job)
        await self.tell(job, Tell("MasterCreated", f"created Pod {pod['metadata']['name']}"))

    async def _patch_status(self, seen: Seen, patch: Mapping[str, Any]) -> None:
        assert seen.job is not None
        body = {"metadata": {"resourceVersion": seen.job["metadata"]["resourceVersion"]}, "status": patch}
        namespace, name = seen.key
        try:
            answer = await self._fenced(
                seen.key, lambda: self.api.patch(ELASTIC_JOBS, name, body, namespace, subresource="status")
            )
        except Outdated:  # another wrote; our copy may be late, so read it
            answer = await self.api.get(ELASTIC_JOBS, name, namespace)
        except NotFound:
            self.store.gone(ELASTIC_JOBS, seen.job)
            return
        self.store.put(ELASTIC_JOBS, answer)

    async def _force_if_lost(self, action: ForceIfLost, seen: Seen) -> None:
        namespace = seen.key[0]
        try:
            lost = await self._is_lost(action.machine)
        except Forbidden:
            lost = action.overdue > SURELY_LOST
        if not lost:
            if action.overdue < MAYBE_MISSED:
                return  # its kubelet takes its time
            found = await self.api.find(PODS, action.name, namespace)
            if found is None or uid_of(found) != action.uid:  # it ended, and we missed it
                for pod in seen.pods:
                    if uid_of(pod) == action.uid:
                        self.store.gone(PODS, pod)
            return
        log.warning("machine %s is lost; removing Pod %s/%s", action.machine, namespace, action.name)
        if seen.job is not None:
            message = f"machine {action.machine} does not answer; Pod {action.name} is removed"
            await self.tell(seen.job, Tell("MachineLost", message, warning=True))
        await self.delete(PODS, action.name, seen.key, uid=action.uid, grace=0.0)

    async def _is_lost(self, name: str) -> bool:
        """Of a machine. Many Pods may ask at once, and one look serves them all."""
        async with self._looking:
            looked, lost = self._machines.get(name, (float("-inf"), False))
            if time.monotonic() - looked > LOOK_HOLDS:
                machine = await self.api.find(NODES, name)
                lost = machine is None or condition(machine, "Ready").get("status") != "True"
                if len(self._machines) > MOST_MACHINES:
                    self._machines.clear()
                self._machines[name] = (time.monotonic(), lost)
            return lost

    async def _fenced(self, job: Key, call: Callable[[], Awaitable[T]]) -> T:
        async with self._turns.of(job), self._lease.fenced():
            return await call()
