"""Reconciles one job: whenever something changed, it observes, decides and acts; one round at a time.

A round acts on the state that was observed at its beginning. What it writes comes back as a change and wakes the next round, so
an interrupted round is simply repeated. ``ReconcilerPool`` has a reconciler for every job that the store knows anything of.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import time
from collections.abc import Sequence

from pliant.core.errors import PliantError, RetryableError
from pliant.core.nodes.fault_policy import Backoff
from pliant.operator.actions import Action, DeletePlan, DeletePod, EmitEvent, ForceDeleteIfLost
from pliant.operator.edits import ineffective_fields
from pliant.operator.executor import Executor, PodsRefused
from pliant.operator.job_decisions import MASTER_BACKOFF, Memory, decide, read_spec
from pliant.operator.lease import Lease, NotLeading
from pliant.operator.observed import Key, ObservedJob, is_deleting, is_ready, uid_of
from pliant.operator.plan_decisions import answer_manual_plans, surplus_plans, unrecorded_plans
from pliant.operator.plan_runner import PlanRunner
from pliant.operator.store import Store
from pliant.platforms.kubernetes.timestamps import seconds_of

log = logging.getLogger(__name__)

DEBOUNCE_S, DEBOUNCE_PER_POD_S = (
    0.02,
    0.0005,
)  # before a round: a burst of changes costs one round, and a large job's costs more
ERROR_BACKOFF = Backoff(1.0, 2.0, 60.0)
LAPSE_RETRY_S = 1.0
MACHINES_INTERVAL_S = 60.0  # after which machines are looked at again that came or went meanwhile
REMOVALS = (DeletePlan, DeletePod, ForceDeleteIfLost)
STABLE_AFTER_S = 60.0  # of serving, after which a master's earlier failures no longer count


class Reconciler:
    def __init__(self, key: Key, store: Store, lease: Lease, executor: Executor) -> None:
        self.key = key
        self._store, self._lease, self._executor = store, lease, executor
        self._memory = Memory()
        self._plans = PlanRunner(executor)
        self._changed = asyncio.Event()
        self._changed.set()
        self._failures = 0
        self._uid = ""

    def wake(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Until nothing of the job is left."""
        requeue_after: float | None = None
        while True:
            try:
                async with asyncio.timeout(requeue_after):
                    await self._changed.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(DEBOUNCE_S + DEBOUNCE_PER_POD_S * len(self._store.view(self.key).pods))
            self._changed.clear()
            if not self._lease.held:
                requeue_after = LAPSE_RETRY_S if self._lease.is_lapsed else None  # woken when we lead
                continue
            requeue_after = await self._reconcile_safely()
            if self._nothing_left():
                return

    def _nothing_left(self) -> bool:
        observed = self._store.view(self.key)
        return observed.job is None and not observed.plans and not observed.pods

    async def _reconcile_safely(self) -> float | None:
        try:
            requeue_after = await self._reconcile(self._store.view(self.key), time.time())
        except NotLeading:
            return LAPSE_RETRY_S  # the lease may be renewed a moment later without anybody waking us
        except PliantError as error:
            self._failures += 1
            delay = ERROR_BACKOFF.delay(self._failures - 1)
            level = logging.INFO if isinstance(error, RetryableError) else logging.ERROR
            log.log(level, "%s/%s: %s", *self.key, error)
            await self._emit_failure(error)
            return delay
        except Exception:  # a supervision boundary: one job must not stop the reconciliation of the others
            self._failures += 1
            log.exception("%s/%s: reconciliation failed unexpectedly", *self.key)
            return ERROR_BACKOFF.delay(self._failures + 2)
        self._failures = 0
        return requeue_after

    async def _emit_failure(self, error: PliantError) -> None:
        job = self._store.view(self.key).job
        if job is None or self._failures < 2:  # a single transient failure deserves no Event
            return
        try:
            await self._executor.emit_event(job, EmitEvent("ReconcileFailed", str(error), warning=True))
        except PliantError as second:
            log.info("%s/%s: %s", *self.key, second)

    async def _reconcile(self, observed: ObservedJob, now: float) -> float | None:
        uid = uid_of(observed.job) if observed.job else ""
        if uid != self._uid:  # another job of the same name
            self._executor.forget(self._uid)
            self._uid, self._memory, self._plans = uid, Memory(), PlanRunner(self._executor)
        before = self._memory.spec_generation
        if observed.job is not None and not observed.ended:
            self._memory.machines = await self._executor.machines()
        if observed.job is not None and not observed.ended and not is_deleting(observed.job):
            read_spec(observed.job, self._memory, self._executor.policy, self._executor.brain)
            if self._memory.last_spec is not None:
                self._memory.journal = await self._executor.journal_volume(observed.job, self._memory.last_spec)
        decision = decide(observed, self._memory, now, self._executor.policy, self._executor.brain)
        waits = [decision.requeue_after]
        if self._memory.machines is not None and observed.job is not None and not observed.ended:
            waits.append(MACHINES_INTERVAL_S)
        try:
            await self._act(decision.actions, observed)
        except PodsRefused as error:  # no retry helps; the next round says so in the job's status
            self._memory.pods_refused = error.message
            return 0.0
        if any(isinstance(action, DeletePod) and action.replaces_master for action in decision.actions):
            self._memory.master_failures += 1
            self._memory.master_not_before = now + MASTER_BACKOFF.delay(self._memory.master_failures - 1)
        self._reset_failures(observed, now)
        if before is not None and before != self._memory.spec_generation:
            await self._warn_of_ineffective_edit(observed)
        answers, wait = answer_manual_plans(observed, now)
        waits.append(wait)
        await self._act((*answers, *surplus_plans(observed)), observed)
        now_observed = self._store.view(self.key)
        await self._act(unrecorded_plans(now_observed), now_observed)
        waits.append(await self._plans.run(self._store.view(self.key), self._memory.last_spec, now))
        given = [wait for wait in waits if wait is not None]
        return min(given) if given else None

    async def _act(self, actions: Sequence[Action], observed: ObservedJob) -> None:
        """In their order; consecutive removals concurrently, since there may be many."""
        for are_removals, group in itertools.groupby(actions, key=lambda action: isinstance(action, REMOVALS)):
            calls = (self._executor.execute(action, observed, self._memory.last_spec) for action in group)
            if not are_removals:
                for call in calls:
                    await call
                continue
            for result in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result

    async def _warn_of_ineffective_edit(self, observed: ObservedJob) -> None:
        """Of the edit that was just observed."""
        job, spec = observed.job, self._memory.last_spec
        if job is None or spec is None or self._memory.spec_problem:
            return
        first = await self._executor.first_spec(job)
        if first is not None and (fields := ineffective_fields(first, spec)):
            message = f"these fields cannot be changed after the job has started, so the edit has no effect: {fields}"
            await self._executor.emit_event(job, EmitEvent("EditWithoutEffect", message, warning=True))

    def _reset_failures(self, observed: ObservedJob, now: float) -> None:
        master = observed.master
        if master and is_ready(master) and now - seconds_of(master["metadata"]["creationTimestamp"]) > STABLE_AFTER_S:
            self._memory.master_failures = 0


class ReconcilerPool:
    """One reconciler per job, created when anything of the job is first observed."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._reconcilers: dict[Key, tuple[Reconciler, asyncio.Task[None]]] = {}
        self._store: Store | None = None
        self._executor: Executor | None = None

    def start(self, store: Store, executor: Executor) -> None:
        self._store, self._executor = store, executor
        for key in store.jobs():
            self.wake(key)

    def wake(self, key: Key) -> None:
        if self._store is None or self._executor is None or not key[1]:
            return
        found = self._reconcilers.get(key)
        if found is None or found[1].done():
            reconciler = Reconciler(key, self._store, self._lease, self._executor)
            task = asyncio.create_task(reconciler.run(), name=f"reconciler of {key[0]}/{key[1]}")
            found = self._reconcilers[key] = (reconciler, task)
            task.add_done_callback(functools.partial(self._ended, key))
        found[0].wake()

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        found = self._reconcilers.get(key)
        if found is not None and found[1] is task:
            del self._reconcilers[key]
        if self._store is not None and key in self._store.jobs() and not task.cancelled():
            self.wake(key)

    def wake_all(self) -> None:
        for reconciler, _ in self._reconcilers.values():
            reconciler.wake()

    def __len__(self) -> int:
        return len(self._reconcilers)

    async def stop(self) -> None:
        self._store = None
        tasks = [task for _, task in self._reconcilers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
