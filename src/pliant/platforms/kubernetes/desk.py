"""The master's desk on Kubernetes: its own ElasticJob, and the ScalePlans that people write for it.

Wishes come in as edits of the ElasticJob (``kubectl edit``, ``kubectl scale``, ``suspend``) and as ScalePlans that no master
made; the first name an edit by the resource's generation, the second by the plan's uid. How the job is doing goes out as
the status of the ElasticJob, and its summary, at the end, as a ConfigMap that goes with the job.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pliant.core.errors import NotFound, PliantError
from pliant.platforms.base import Desk, JobReport, Wish
from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.errors import AlreadyExists, Forbidden, Outdated
from pliant.platforms.kubernetes.kinds import CONFIG_MAPS, ELASTIC_JOBS, SCALE_PLANS, Object
from pliant.platforms.kubernetes.plans import (
    ElasticJobStatus,
    LastPlan,
    ProgressStatus,
    RoleStatus,
    ScalePlanSpec,
    ratio,
)
from pliant.platforms.kubernetes.view import is_open, is_ours
from pliant.spec import JobSpec

WORKER = "worker"  # the role that ``kubectl scale`` is about
TRIES = 5  # to write down a number, if others write at the same time
LARGEST_SUMMARY = 900_000  # bytes; a ConfigMap may have a million


class JobDesk(Desk):
    def __init__(self, api: KubeApi, job: str, namespace: str, last_plan: Callable[[], Object | None]) -> None:
        self._api = api
        self._job = job
        self._namespace = namespace
        self._last_plan = last_plan
        self._generation = 0  # of the newest edit that was answered
        self._seen = 0  # of the newest edit that was seen
        self._written = 0  # of the newest that this master made itself (``carried_out``)
        self._own: set[str] = set()  # versions of the ElasticJob that are of these

    async def wishes(self) -> AsyncIterator[Wish]:
        found: asyncio.Queue[Wish | None] = asyncio.Queue()
        tasks = [asyncio.create_task(self._edits(found)), asyncio.create_task(self._orders(found))]
        for task in tasks:
            task.add_done_callback(lambda _: found.put_nowait(None))
        try:
            while True:
                wish = await found.get()
                if wish is not None:
                    own = wish.content.get("version") in self._own  # known by now: the wish that led to it was answered
                    yield replace(wish, content={**wish.content, "own": True}) if own else wish
                    continue
                for task in tasks:
                    if task.done():
                        task.result()  # raises what ended it
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _edits(self, found: asyncio.Queue[Wish | None]) -> None:
        only = f"metadata.name={self._job}"
        async for change in self._api.follow(ELASTIC_JOBS, self._namespace, fields=only):
            generation = _generation(change.object)
            if change.gone or generation <= self._seen:
                continue  # only its status changed
            self._seen = generation
            version = change.object["metadata"]["resourceVersion"]
            content = {**_wanted(self._job, change.object["spec"]), "version": version}
            found.put_nowait(Wish(f"generation {generation}", content, state=True))

    async def _orders(self, found: asyncio.Queue[Wish | None]) -> None:
        by_others = f"{names.MADE_BY_LABEL}!={names.MADE_BY_MASTER}"
        async for change in self._api.follow(SCALE_PLANS, self._namespace, labels=by_others):
            plan = change.object
            if change.gone or is_ours(plan) or not is_open(plan) or plan["spec"].get("job") != self._job:
                continue
            name = f"plan {plan['metadata']['name']} {plan['metadata']['uid']}"
            found.put_nowait(Wish(name, _content(plan)))

    async def answer(self, wish: Wish, refusal: str) -> None:
        kind, _, rest = wish.id.partition(" ")
        if kind == "generation":
            self._generation = max(self._generation, int(rest))
            return
        plan = rest.partition(" ")[0]
        now = _time(datetime.now(UTC).timestamp())
        steps: list[Object] = [{"phase": "Accepted", "started": now}]
        if refusal:
            steps = [{"phase": "Refused", "message": refusal, "started": now, "finished": now}]
        else:
            steps.append(
                {"phase": "Succeeded", "message": "taken by the master; its own plans follow", "finished": now}
            )
        try:
            for status in steps:
                await self._api.patch(SCALE_PLANS, plan, {"status": status}, self._namespace, subresource="status")
        except NotFound:
            return  # deleted meanwhile: nobody waits for the answer

    async def carried_out(self, wish: Wish) -> None:
        """After a plan the ElasticJob asks for as many workers as the plan did: ``kubectl scale`` and autoscalers go by that, and
        to ask for the number that is there already would be no change to anybody."""
        if wish.state:
            return
        wanted = ((wish.content.get("roles") or {}).get(WORKER) or {}).get("replicas")
        for _ in range(TRIES if wanted is not None else 0):
            job = await self._api.get(ELASTIC_JOBS, self._job, self._namespace)
            replicas = (job["spec"].get("roles") or {}).get(WORKER, {}).get("replicas") or {}
            if _generation(job) > max(self._seen, self._written) or replicas.get("wanted") == wanted:
                return  # somebody edited it meanwhile, which is newer and comes as a wish of its own
            patch = {"metadata": {"resourceVersion": job["metadata"]["resourceVersion"]}, "spec": {"replicas": wanted}}
            try:
                made = await self._api.patch(ELASTIC_JOBS, self._job, patch, self._namespace, subresource="scale")
            except Outdated:
                continue  # its status is told all the time
            except Forbidden:
                return  # an older operator gave this master its rights
            self._own.add(str(made["metadata"]["resourceVersion"]))
            self._written = _generation(job) + 1
            return

    async def report(self, report: JobReport) -> None:
        patch = {"status": self._status(report)}
        await self._api.patch(ELASTIC_JOBS, self._job, patch, self._namespace, subresource="status")

    async def finish(self, report: JobReport, summary: Mapping[str, Any]) -> None:
        job = await self._api.get(ELASTIC_JOBS, self._job, self._namespace)
        body = {
            "metadata": {
                "name": names.summary_name(self._job),
                "labels": names.labels_of(self._job),
                "ownerReferences": [names.owner_reference(job)],
            },
            "data": {names.SUMMARY_KEY: _fitting(summary)},
        }
        try:
            await self._api.create(CONFIG_MAPS, body, self._namespace)
        except AlreadyExists:  # of a master that died before it could say so
            await self._api.patch(CONFIG_MAPS, names.summary_name(self._job), {"data": body["data"]}, self._namespace)
        await self.report(report)

    def _status(self, report: JobReport) -> Object:
        roles = {
            name: RoleStatus(
                wanted=role.wanted,
                ready=role.ready,
                pending=role.pending,
                succeeded=role.succeeded,
                failed=role.failed,
            )
            for name, role in report.roles.items()
        }
        shown = {name: ratio(role.ready, role.wanted) for name, role in report.roles.items()}
        workers, plan = report.roles.get("worker"), self._last_plan()
        status = ElasticJobStatus.model_validate(
            {
                "phase": report.phase,
                "message": report.message,
                "observed_generation": self._generation or None,
                "roles": roles,
                "workers": shown.get("worker"),
                "ps": shown.get("ps"),
                "replicas": workers.ready + workers.pending if workers else 0,
                "selector": names.worker_selector(self._job),
                "progress": ProgressStatus(
                    percent=round(100 * report.records / report.total, 1) if report.total else None,
                    records=report.records,
                    total=report.total,
                    step=report.step,
                    epoch=report.epoch,
                    eta=duration(report.eta) if report.eta is not None else None,
                ),
                "goodput": round(report.goodput, 1) if report.goodput is not None else None,
                "last_plan": _last(plan) if plan is not None else None,
                "started": _time(report.started_at),
                "finished": _time(report.ended_at),
            }
        )
        patch = status.to_json()
        patch["suspended"] = _time(report.suspended_at)  # null takes it away
        if report.eta is None:
            patch["progress"]["eta"] = None
        return patch


def _generation(job: Object) -> int:
    return int(job["metadata"].get("generation") or 0)


def _wanted(job: str, spec: Object) -> dict[str, Any]:
    """What an edited job asks for. ``kubectl scale`` knows nothing of min and max: its number is brought between them."""
    value, notes = within_limits(spec)
    try:
        content = JobSpec.from_dict({**value, "name": job}).wanted_state()
    except PliantError as error:
        return {"problem": error.message, "suspend": spec.get("suspend") is True}
    return {**content, "note": "; ".join(notes)} if notes else content


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
                allowed = f"{least} to {most} are allowed, so it is {replicas['wanted']}"
                notes.append(f"roles.{name}.replicas.wanted is {wanted}; {allowed}")
    return value, notes


def _content(plan: Object) -> dict[str, Any]:
    try:
        spec = ScalePlanSpec.model_validate(plan["spec"])
    except ValueError as error:
        return {"error": f"the plan is not understood: {error}"}
    if spec.create:
        return {"error": "only the master names nodes to create; ask for roles.<role>.replicas instead"}
    if not (spec.roles or spec.remove or spec.migrate):
        return {"error": "the plan asks for nothing; it may have roles, remove and migrate"}
    return {
        "reason": spec.reason or f"the plan {plan['metadata']['name']}",
        "roles": {
            role: {
                "replicas": wish.replicas,
                "resources": wish.resources.to_core().to_json() if wish.resources else None,
            }
            for role, wish in spec.roles.items()
        },
        "remove": [entry.node for entry in spec.remove],
        "migrate": [{"node": e.node, "resources": e.resources.to_core().to_json()} for e in spec.migrate],
    }


def _last(plan: Object) -> LastPlan:
    metadata = plan["metadata"]
    return LastPlan(name=metadata["name"], reason=plan["spec"].get("reason"), time=metadata.get("creationTimestamp"))


def _fitting(summary: Mapping[str, Any]) -> str:
    """A summary that a ConfigMap can hold: of a very large job lists are left out, the longest words first."""
    for left_out in ((), ("events",), ("events", "nodes"), ("events", "nodes", "audit", "first_failure")):
        kept = {key: value for key, value in summary.items() if key not in left_out}
        if left_out:
            kept |= {"events": [], "left_out": list(left_out)}
        if "nodes" in left_out:
            kept["nodes"] = []
        text = json.dumps(kept, indent=1)
        if len(text.encode()) <= LARGEST_SUMMARY:
            break
    return text


def _time(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None


def duration(seconds: float) -> str:
    """As ``4m30s``."""
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    parts = [f"{amount}{unit}" for amount, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if amount]
    return "".join([*parts, f"{whole % 60}s"][:2])
