"""Executes the ScalePlans of one job's master: the writes that ``plan_decisions`` asks for, and the plan's status."""

from __future__ import annotations

import asyncio
import logging
import re

from pliant.core.errors import NotFound, PermanentError, PliantError, RetryableError
from pliant.operator.actions import EmitEvent
from pliant.operator.edits import effective_spec
from pliant.operator.executor import Executor
from pliant.operator.lease import NotLeading
from pliant.operator.observed import ObservedJob, owner_uid, uid_of
from pliant.operator.plan_decisions import (
    LARGE_PLAN,
    Problem,
    Progress,
    Work,
    has_later_plan,
    next_work,
    status_after_attempt,
)
from pliant.platforms.kubernetes.errors import Forbidden
from pliant.platforms.kubernetes.kinds import PODS, Object
from pliant.platforms.kubernetes.names import pod_name
from pliant.platforms.kubernetes.plans import PodToCreate, PodToRemove, status_of
from pliant.platforms.kubernetes.pods import has_durable_journal, node_pod
from pliant.platforms.kubernetes.timestamps import rfc3339
from pliant.spec import JobSpec

log = logging.getLogger(__name__)


class PlanRunner:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._progress: Progress | None = None

    async def run(self, observed: ObservedJob, spec: JobSpec | None, now: float) -> float | None:
        """One attempt at the next plan; returns seconds until the next attempt (0: at once; None: there is nothing to do)."""
        work = next_work(observed, self._progress, now)
        if work is None or observed.job is None:
            return None
        progress = self._progress
        if progress is None or progress.plan != uid_of(work.plan):
            started = status_of(work.plan).get("started") or ""
            progress = self._progress = Progress(uid_of(work.plan), now, started)
        if work.wait and not has_later_plan(observed, work.plan):
            return work.wait
        if not work.broken and not work.wait:
            await self._attempt(work, progress, observed, spec)
        status = status_after_attempt(work, progress, later=has_later_plan(observed, work.plan), now=now)
        if progress.problems:
            await self._executor.emit_event(observed.job, EmitEvent("PodsNotAccepted", status["message"], warning=True))
        await self._executor.patch_plan(work.plan, {"status": status}, status=True)
        if status["phase"] == "Executing":
            return max(0.0, progress.not_before - now)
        self._progress = None
        return 0.0

    async def _attempt(self, work: Work, progress: Progress, observed: ObservedJob, spec: JobSpec | None) -> None:
        job = observed.job
        assert job is not None
        if work.size > LARGE_PLAN and not progress.is_announced:
            progress.is_announced = True
            status = {"phase": "Executing", "started": progress.started or rfc3339(progress.started_at)}
            await self._executor.patch_plan(work.plan, {"status": status}, status=True)
        if spec is not None and work.create and (first := await self._executor.first_spec(job)) is not None:
            spec = effective_spec(first, spec)
        progress.problems = {node: found for node, found in progress.problems.items() if not found.is_transient}
        tasks = [self._remove(entry, progress, observed) for entry in work.remove]
        tasks += [self._create(entry, progress, observed, spec) for entry in work.create]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _create(
        self, entry: PodToCreate, progress: Progress, observed: ObservedJob, spec: JobSpec | None
    ) -> None:
        job = observed.job
        assert job is not None
        problem = self._rejection(entry, observed, spec)
        if problem is None and spec is not None:
            try:
                address = await self._executor.address(job)
                image = self._executor.image
                body = node_pod(job, spec, entry, master_address=address, image=image, life=observed.life)
                await self._executor.create(PODS, body, job)
                progress.created.add(entry.node)
                return
            except NotLeading:
                raise
            except (RetryableError, Forbidden, NotFound) as error:
                problem = Problem(entry.node, error.message, is_transient=True)
            except PermanentError as error:
                problem = Problem(entry.node, error.message, is_transient=False)
        if problem is not None:
            progress.problems[entry.node] = problem

    def _rejection(self, entry: PodToCreate, observed: ObservedJob, spec: JobSpec | None) -> Problem | None:
        if observed.ended:
            return Problem(entry.node, f"the job has ended: {observed.phase}", is_transient=False)
        if spec is None:
            return Problem(entry.node, "the job's spec is no longer valid", is_transient=True)
        if entry.role not in spec.roles:
            return Problem(entry.node, f"the job has no role {entry.role}", is_transient=False)
        if not re.fullmatch(rf"{re.escape(entry.role)}-\d+", entry.node):  # others may be the name of another job's Pod
            return Problem(entry.node, f"a node of this role is called {entry.role}-<number>", is_transient=False)
        options = spec.platform.kubernetes
        if observed.master is None and options.shared_claim and not has_durable_journal(spec):
            return Problem(
                entry.node, "the job has no master now", is_transient=True
            )  # nor a folder: it restarts from scratch
        return None

    async def _remove(self, entry: PodToRemove, progress: Progress, observed: ObservedJob) -> None:
        assert observed.job is not None
        namespace, name = observed.key[0], pod_name(observed.name, entry.node)
        try:
            pod = observed.pods_by_name.get(name)
            found: Object | None = pod or await self._executor.api.find(PODS, name, namespace)
            if found is not None and owner_uid(found) == uid_of(observed.job):
                await self._executor.delete(PODS, name, observed.key, uid=uid_of(found), grace=entry.grace)
            progress.removed.add(entry.node)
        except NotLeading:
            raise
        except PliantError as error:
            progress.problems[entry.node] = Problem(entry.node, error.message, is_transient=True)
