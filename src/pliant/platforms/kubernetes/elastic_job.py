"""The master's control channel on Kubernetes: its own ElasticJob, and the ScalePlans that people write for it.

Requests for changes come in as edits of the ElasticJob (``kubectl edit``, ``kubectl scale``, ``suspend``), whose ids are made of
the resource's generation, and as ScalePlans that no master made, whose ids are their uids. Answers to these go by the outbox
and are passed on by the operator: a master may not write a ScalePlan, which may be another job's. The job's status goes out as the
status of the ElasticJob, and its summary, at the end, into a ConfigMap that the operator created and that is deleted with the job.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pliant.core.changes import (
    Change,
    ChangeRequest,
    DesiredJob,
    RemoveNode,
    ReplaceNode,
    RequestSource,
    Scale,
    SetResources,
)
from pliant.core.errors import NotFound, PliantError
from pliant.core.resources import RolloutMode
from pliant.core.status import JobStatus, PlanStatus
from pliant.platforms.base import ControlChannel
from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.elastic_job_status import WORKER, status_patch
from pliant.platforms.kubernetes.errors import Outdated
from pliant.platforms.kubernetes.kinds import CONFIG_MAPS, ELASTIC_JOBS, SCALE_PLANS, Object
from pliant.platforms.kubernetes.outbox import OutboxWriter
from pliant.platforms.kubernetes.plans import ScalePlanSpec
from pliant.platforms.kubernetes.view import is_open, is_ours
from pliant.spec import JobSpec

log = logging.getLogger(__name__)

MAX_TRIES = 5  # to write down a number, if others write at the same time
MAX_SUMMARY = 900_000  # bytes; a ConfigMap may have a million


@dataclass(frozen=True, slots=True)
class _Received:
    request: ChangeRequest
    version: str | None = None  # of the ElasticJob after an edit


class ElasticJobChannel(ControlChannel):
    def __init__(
        self, api: KubeApi, outbox: OutboxWriter, job: str, namespace: str, last_plan: Callable[[], Object | None]
    ) -> None:
        self._api = api
        self._outbox = outbox
        self._job = job
        self._namespace = namespace
        self._last_plan = last_plan
        self._generation = 0  # of the newest edit that was answered
        self._seen = 0  # of the newest edit that was seen
        self._written = 0  # of the newest that this master made itself (``applied``)
        self._own_versions: set[str] = set()  # versions of the ElasticJob that this master made
        self._generations: dict[str, int] = {}  # of edits, by the request's id
        self._plans: dict[str, str] = {}  # uids of ScalePlans, by the request's id
        self._answered: set[str] = set()  # uids of ScalePlans whose answers are in the outbox
        self._settled: set[str] = set()  # of those, the ones that have their answers, or are deleted

    async def requests(self) -> AsyncIterator[ChangeRequest]:
        found: asyncio.Queue[_Received | None] = asyncio.Queue()
        tasks = [asyncio.create_task(self._read_edits(found)), asyncio.create_task(self._read_plans(found))]
        for task in tasks:
            task.add_done_callback(lambda _: found.put_nowait(None))
        try:
            while True:
                received = await found.get()
                if received is not None:
                    # Known by now: the request that led to it was answered before.
                    by_master = received.version in self._own_versions
                    yield replace(received.request, by_master=by_master)
                    continue
                for task in tasks:
                    if task.done():
                        task.result()  # raises what ended it
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_edits(self, found: asyncio.Queue[_Received | None]) -> None:
        only = f"metadata.name={self._job}"
        async for change in self._api.follow(ELASTIC_JOBS, self._namespace, fields=only):
            generation = _generation(change.object)
            if change.gone or generation <= self._seen:
                continue  # only its status changed
            self._seen = generation
            request = edit_request(self._job, change.object["spec"], f"generation-{generation}")
            self._generations[request.id] = generation
            found.put_nowait(_Received(request, change.object["metadata"]["resourceVersion"]))

    async def _read_plans(self, found: asyncio.Queue[_Received | None]) -> None:
        by_others = f"{names.MADE_BY_LABEL}!={names.MADE_BY_MASTER}"
        async for change in self._api.follow(SCALE_PLANS, self._namespace, labels=by_others):
            plan = change.object
            if is_ours(plan) or plan["spec"].get("job") != self._job:
                continue
            if change.gone or not is_open(plan):
                self._settled |= self._answered & {plan["metadata"]["uid"]}
                continue
            request = scale_plan_request(plan)
            self._plans[request.id] = plan["metadata"]["uid"]
            found.put_nowait(_Received(request))

    async def answer(self, request: ChangeRequest, refusal: str) -> None:
        if (generation := self._generations.pop(request.id, None)) is not None:
            self._generation = max(self._generation, generation)
        if (plan := self._plans.pop(request.id, None)) is not None:
            done = self._settled - {plan}
            await self._outbox.write_answer(plan, refusal, done=done)
            self._answered = (self._answered - done) | {plan}
            self._settled -= done

    async def applied(self, request: ChangeRequest) -> None:
        """After a ScalePlan the ElasticJob asks for as many workers as the plan did: ``kubectl scale`` and autoscalers compare
        with that number, and asking for the number that is there already would be no change to anybody."""
        wanted = next((c.replicas for c in request.changes if isinstance(c, Scale) and c.role == WORKER), None)
        for _ in range(MAX_TRIES if wanted is not None else 0):
            job = await self._api.get(ELASTIC_JOBS, self._job, self._namespace)
            replicas = (job["spec"].get("roles") or {}).get(WORKER, {}).get("replicas") or {}
            if _generation(job) > max(self._seen, self._written) or replicas.get("wanted") in (None, wanted):
                return  # somebody edited it meanwhile, which is newer and comes as a request of its own; or it has no number
            patch = {"metadata": {"resourceVersion": job["metadata"]["resourceVersion"]}, "spec": {"replicas": wanted}}
            try:
                made = await self._api.patch(ELASTIC_JOBS, self._job, patch, self._namespace, subresource="scale")
            except Outdated:
                continue  # its status changes all the time
            self._own_versions.add(str(made["metadata"]["resourceVersion"]))
            self._written = _generation(job) + 1
            return

    async def report(self, status: JobStatus) -> None:
        found = [plan for plan in (_last_plan(self._last_plan()), status.last_plan) if plan is not None]
        newest = max(found, key=lambda plan: (plan.time, plan.algorithm), default=None)
        patch = status_patch(status, generation=self._generation, last_plan=newest)
        await self._api.patch(ELASTIC_JOBS, self._job, {"status": patch}, self._namespace, subresource="status")

    async def finish(self, status: JobStatus, summary: Mapping[str, Any]) -> None:
        summary_map, data = names.summary_name(self._job), _summary_data(summary)
        try:
            await self._api.patch(CONFIG_MAPS, summary_map, {"data": data}, self._namespace)
        except NotFound:  # the operator created it with the master; somebody deleted it
            log.warning("ConfigMap %s not found; the summary is only in the master's folder", summary_map)
        await self.report(status)


def _generation(job: Object) -> int:
    return int(job["metadata"].get("generation") or 0)


def edit_request(job: str, spec: Object, request: str) -> ChangeRequest:
    """What an edited job asks for. ``kubectl scale`` knows nothing of min and max: its number is brought between them."""
    value, notes = within_limits(spec)
    reason = "the job was edited"
    try:
        desired = JobSpec.from_dict({**value, "name": job}).desired()
    except PliantError as error:
        suspend = DesiredJob(suspend=spec.get("suspend") is True)
        return ChangeRequest(request, RequestSource.EDIT, reason=reason, desired=suspend, problem=error.message)
    return ChangeRequest(request, RequestSource.EDIT, reason=reason, desired=desired, note="; ".join(notes))


def within_limits(spec: Object) -> tuple[Object, list[str]]:
    """A spec whose wanted numbers of nodes are between the limits of their roles, and what was changed to that end."""
    value, notes = copy.deepcopy(spec), []
    for name, role in (value.get("roles") or {}).items():
        replicas = role.get("replicas")
        numbers = [replicas.get(key) for key in ("min", "wanted", "max")] if isinstance(replicas, dict) else []
        if len(found := [number for number in numbers if isinstance(number, int)]) == 3:
            least, wanted, most = found
            replicas["wanted"] = max(least, min(most, wanted))
            if replicas["wanted"] != wanted:
                allowed = f"allowed: {least} to {most}; using {replicas['wanted']}"
                notes.append(f"roles.{name}.replicas.wanted is {wanted}; {allowed}")
    return value, notes


def scale_plan_request(plan: Object) -> ChangeRequest:
    """What a person's ScalePlan asks for."""
    request = f"plan-{plan['metadata']['uid']}"
    try:
        spec = ScalePlanSpec.model_validate(plan["spec"])
    except ValueError as error:
        return ChangeRequest(request, RequestSource.SCALE_PLAN, problem=f"invalid plan: {error}")
    problem = ""
    if spec.create:
        problem = "only the master may name nodes to create; set roles.<role>.replicas instead"
    elif not (spec.roles or spec.remove or spec.migrate):
        problem = "the plan is empty; it may have roles, remove and migrate"
    reason = spec.reason or f"the plan {plan['metadata']['name']}"
    return ChangeRequest(request, RequestSource.SCALE_PLAN, tuple(_changes(spec)), reason, problem=problem)


def _changes(spec: ScalePlanSpec) -> Iterator[Change]:
    """Resources come before nodes, so that new ones have them."""
    for role, wanted in spec.roles.items():
        if wanted.resources is not None:
            yield SetResources(role, wanted.resources.to_core(), RolloutMode(wanted.rollout))
        if wanted.replicas is not None:
            yield Scale(role, wanted.replicas)
    for removal in spec.remove:
        yield RemoveNode(removal.node)
    for migration in spec.migrate:
        yield ReplaceNode(migration.node, migration.resources.to_core())


def _last_plan(plan: Object | None) -> PlanStatus | None:
    if plan is None:
        return None
    metadata = plan["metadata"]
    return PlanStatus(metadata["name"], plan["spec"].get("reason") or "", metadata.get("creationTimestamp") or "")


def _summary_data(summary: Mapping[str, Any]) -> dict[str, str]:
    """What goes into the ConfigMap. The series have a key of their own: whoever reads the summary has no use for them."""
    text = _fitting({key: value for key, value in summary.items() if key != "series"})
    series = json.dumps(summary.get("series") or {}, separators=(",", ":"))
    if "series" not in summary or len(text.encode()) + len(series.encode()) > MAX_SUMMARY:
        return {names.SUMMARY_KEY: text}
    return {names.SUMMARY_KEY: text, names.SERIES_KEY: series}


def _fitting(summary: Mapping[str, Any]) -> str:
    """A summary that a ConfigMap can hold: of a very large job lists are left out, the longest ones first."""
    text = json.dumps(summary, indent=1)
    if len(text.encode()) <= MAX_SUMMARY:
        return text
    if "events" in summary:  # first without what follows from their facts
        facts = [{key: value for key, value in event.items() if key != "message"} for event in summary["events"]]
        text = json.dumps({**summary, "events": facts}, separators=(",", ":"))
        if len(text.encode()) <= MAX_SUMMARY:
            return text
    for left_out in (
        ("events",),
        ("events", "nodes"),
        ("events", "nodes", "plans"),
        ("events", "nodes", "plans", "audit", "first_failure"),
    ):
        kept = {key: value for key, value in summary.items() if key not in left_out}
        kept |= {"events": [], "left_out": list(left_out)}
        if "nodes" in left_out:
            kept["nodes"] = []
        text = json.dumps(kept, indent=1)
        if len(text.encode()) <= MAX_SUMMARY:
            break
    return text
