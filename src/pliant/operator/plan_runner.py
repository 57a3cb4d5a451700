"""Executes the ScalePlans of one job's master: the writes that ``plan_decisions`` asks for, and the plan's status."""

from __future__ import annotations

import asyncio
import logging

from pliant.core.errors import NotFound, PermanentError, PliantError, RetryableError
from pliant.operator.actions import Tell
from pliant.operator.edits import taken_up
from pliant.operator.executor import Executor
from pliant.operator.lease import NotActing
from pliant.operator.plan_decisions import LARGE, Problem, Progress, Work, after_round, later_plan, next_work
from pliant.operator.seen import Seen, owner_uid, rfc3339, uid_of
from pliant.platforms.kubernetes.errors import Forbidden
from pliant.platforms.kubernetes.kinds import PODS, Object
from pliant.platforms.kubernetes.names import pod_name
from pliant.platforms.kubernetes.plans import PodToCreate, PodToRemove, status_of
from pliant.platforms.kubernetes.pods import node_pod
from pliant.spec import JobSpec

log = logging.getLogger(__name__)


class PlanRunner:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._progress: Progress | None = None
        self._first_seen: dict[str, float] = {}

    async def run(self, seen: Seen, spec: JobSpec | None, now: float) -> float | None:
        """One round of the plan that is next; gives seconds until the next round (0: at once; None: nothing to do)."""
        work = next_work(seen, self._progress, self._first_seen, now)
        if work is None or seen.job is None:
            self._first_seen.clear()
            return None
        progress = self._progress
        if progress is None or progress.plan != uid_of(work.plan):
            told = status_of(work.plan).get("started") or ""
            progress = self._progress = Progress(uid_of(work.plan), now, told)
        if work.wait and not later_plan(seen, work.plan):
            return work.wait
        if not work.broken and not work.wait:
            await self._round(work, progress, seen, spec)
        status = after_round(work, progress, later=later_plan(seen, work.plan), now=now)
        if progress.problems:
            await self._executor.tell(seen.job, Tell("PodsNotAccepted", status["message"], warning=True))
        await self._executor.patch_plan(work.plan, {"status": status}, status=True)
        if status["phase"] == "Executing":
            return max(0.0, progress.not_before - now)
        self._progress = None
        return 0.0

    async def _round(self, work: Work, progress: Progress, seen: Seen, spec: JobSpec | None) -> None:
        job = seen.job
        assert job is not None
        if work.size > LARGE and not progress.told:
            progress.told = True
            status = {"phase": "Executing", "started": progress.started or rfc3339(progress.began)}
            await self._executor.patch_plan(work.plan, {"status": status}, status=True)
        if spec is not None and work.create and (first := await self._executor.first_spec(job)) is not None:
            spec = taken_up(first, spec)
        progress.problems = {node: found for node, found in progress.problems.items() if not found.passing}
        tasks = [self._remove(entry, progress, seen) for entry in work.remove]
        tasks += [self._create(entry, progress, seen, spec) for entry in work.create]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _create(self, entry: PodToCreate, progress: Progress, seen: Seen, spec: JobSpec | None) -> None:
        job = seen.job
        assert job is not None
        problem = self._not_now(entry, seen, spec)
        if problem is None and spec is not None:
            try:
                address = await self._executor.address(job)
                master = uid_of(seen.master) if seen.master is not None else ""
                body = node_pod(job, spec, entry, master_address=address, image=self._executor.image, master=master)
                await self._executor.create(PODS, body, job)
                progress.created.add(entry.node)
                return
            except NotActing:
                raise
            except (RetryableError, Forbidden, NotFound) as error:
                problem = Problem(entry.node, error.message, passing=True)
            except PermanentError as error:
                problem = Problem(entry.node, error.message, passing=False)
        if problem is not None:
            progress.problems[entry.node] = problem

    def _not_now(self, entry: PodToCreate, seen: Seen, spec: JobSpec | None) -> Problem | None:
        if seen.ended:
            return Problem(entry.node, f"the job has ended: {seen.phase}", passing=False)
        if spec is None:
            return Problem(entry.node, "the job's spec is not valid any more", passing=True)
        if entry.role not in spec.roles:
            return Problem(entry.node, f"the job has no role {entry.role}", passing=False)
        options = spec.platform.kubernetes
        if seen.master is None and options.shared_claim and options.journal.volume != "claim":
            return Problem(entry.node, "the job has no master now", passing=True)  # nor a folder: it begins anew
        return None

    async def _remove(self, entry: PodToRemove, progress: Progress, seen: Seen) -> None:
        assert seen.job is not None
        namespace, name = seen.key[0], pod_name(seen.name, entry.node)
        try:
            pod = seen.pods_by_name.get(name)
            found: Object | None = pod or await self._executor.api.find(PODS, name, namespace)
            if found is not None and owner_uid(found) == uid_of(seen.job):
                await self._executor.delete(PODS, name, seen.key, uid=uid_of(found), grace=entry.grace)
            progress.removed.add(entry.node)
        except NotActing:
            raise
        except PliantError as error:
            progress.problems[entry.node] = Problem(entry.node, error.message, passing=True)
