"""Keeps one job: looks whenever something changed, decides, acts; one round at a time.

A round acts on what was seen at its beginning. What it writes comes back as a change, and leads to another look; so
an interrupted round is simply done again. ``Desk`` has a keeper for every job that anything is known of.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import time
from collections.abc import Sequence

from pliant.core.errors import PliantError, RetryableError
from pliant.core.relaunch import Backoff
from pliant.operator.actions import Action, DeletePlan, DeletePod, ForceIfLost, Tell
from pliant.operator.edits import without_effect
from pliant.operator.executor import Executor
from pliant.operator.job_decisions import MASTER_BACKOFF, Memory, decide
from pliant.operator.lease import Lease, NotActing
from pliant.operator.plan_decisions import for_people, old_plans
from pliant.operator.plan_runner import PlanRunner
from pliant.operator.seen import Key, Seen, is_ready, seconds, uid_of
from pliant.operator.store import Store

log = logging.getLogger(__name__)

# Seconds before a round, so that changes which come in crowds cost one look: a look at many Pods costs more.
GATHER, GATHER_PER_POD = 0.02, 0.0005
AFTER_TROUBLE = Backoff(1.0, 2.0, 60.0)
AFTER_LAPSE = 1.0  # seconds
REMOVALS = (DeletePlan, DeletePod, ForceIfLost)
STEADY = 60.0  # seconds of serving after which a master's earlier failures are forgotten


class Keeper:
    def __init__(self, key: Key, store: Store, lease: Lease, executor: Executor) -> None:
        self.key = key
        self._store, self._lease, self._executor = store, lease, executor
        self._memory = Memory()
        self._plans = PlanRunner(executor)
        self._changed = asyncio.Event()
        self._changed.set()
        self._troubles = 0
        self._uid = ""

    def wake(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Until nothing is left of the job."""
        again: float | None = None
        while True:
            try:
                async with asyncio.timeout(again):
                    await self._changed.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(GATHER + GATHER_PER_POD * len(self._store.view(self.key).pods))
            self._changed.clear()
            if not self._lease.held:
                again = AFTER_LAPSE if self._lease.lapsed else None  # woken when we act
                continue
            again = await self._guarded_round()
            if self._nothing_left():
                return

    def _nothing_left(self) -> bool:
        seen = self._store.view(self.key)
        return seen.job is None and not seen.plans and not seen.pods

    async def _guarded_round(self) -> float | None:
        try:
            again = await self._round(self._store.view(self.key), time.time())
        except NotActing:
            return AFTER_LAPSE  # the lease may be renewed a moment later, and then nobody wakes us
        except PliantError as error:
            self._troubles += 1
            delay = AFTER_TROUBLE.delay(self._troubles - 1)
            passing = isinstance(error, RetryableError)
            log.log(logging.INFO if passing else logging.ERROR, "%s/%s: %s", *self.key, error)
            await self._tell_trouble(error)
            return delay
        except Exception:  # a border: one job must not end the keeping of the others
            self._troubles += 1
            log.exception("%s/%s: a fault of the operator", *self.key)
            return AFTER_TROUBLE.delay(self._troubles + 2)
        self._troubles = 0
        return again

    async def _tell_trouble(self, error: PliantError) -> None:
        job = self._store.view(self.key).job
        if job is None or self._troubles < 2:  # what passes at once is not worth telling
            return
        try:
            await self._executor.tell(job, Tell("OperatorTrouble", str(error), warning=True))
        except PliantError as again:
            log.info("%s/%s: %s", *self.key, again)

    async def _round(self, seen: Seen, now: float) -> float | None:
        uid = uid_of(seen.job) if seen.job else ""
        if uid != self._uid:  # another job of the same name
            self._executor.forget(self._uid)
            self._uid, self._memory, self._plans = uid, Memory(), PlanRunner(self._executor)
        before = self._memory.spec_generation
        decision = decide(seen, self._memory, now)
        waits = [decision.again]
        await self._act(decision.actions, seen)
        if any(isinstance(action, DeletePod) and action.replaces_master for action in decision.actions):
            self._memory.master_failures += 1
            self._memory.master_not_before = now + MASTER_BACKOFF.delay(self._memory.master_failures - 1)
        self._forgive(seen, now)
        if before is not None and before != self._memory.spec_generation:
            await self._tell_what_is_fixed(seen)
        answers, wait = for_people(seen, now)
        waits.append(wait)
        await self._act((*answers, *old_plans(seen)), seen)
        waits.append(await self._plans.run(self._store.view(self.key), self._memory.last_spec, now))
        given = [wait for wait in waits if wait is not None]
        return min(given) if given else None

    async def _act(self, actions: Sequence[Action], seen: Seen) -> None:
        """In their order; removals that follow each other at once, since there may be many."""
        for removals, group in itertools.groupby(actions, key=lambda action: isinstance(action, REMOVALS)):
            calls = (self._executor.do(action, seen, self._memory.last_spec) for action in group)
            if not removals:
                for call in calls:
                    await call
                continue
            for result in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result

    async def _tell_what_is_fixed(self, seen: Seen) -> None:
        """Of an edit that was just seen."""
        job, spec = seen.job, self._memory.last_spec
        if job is None or spec is None or self._memory.spec_problem:
            return
        first = await self._executor.first_spec(job)
        if first is not None and (fields := without_effect(first, spec)):
            message = f"fixed since the job began, so the edit changes nothing: {fields}"
            await self._executor.tell(job, Tell("EditWithoutEffect", message, warning=True))

    def _forgive(self, seen: Seen, now: float) -> None:
        master = seen.master
        if master and is_ready(master) and now - seconds(master["metadata"]["creationTimestamp"]) > STEADY:
            self._memory.master_failures = 0


class Desk:
    """A keeper per job; made when something of the job is first seen."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._keepers: dict[Key, tuple[Keeper, asyncio.Task[None]]] = {}
        self._store: Store | None = None
        self._executor: Executor | None = None

    def open(self, store: Store, executor: Executor) -> None:
        self._store, self._executor = store, executor
        for key in store.jobs():
            self.changed(key)

    def changed(self, key: Key) -> None:
        if self._store is None or self._executor is None or not key[1]:
            return
        found = self._keepers.get(key)
        if found is None or found[1].done():
            keeper = Keeper(key, self._store, self._lease, self._executor)
            task = asyncio.create_task(keeper.run(), name=f"keeper of {key[0]}/{key[1]}")
            found = self._keepers[key] = (keeper, task)
            task.add_done_callback(functools.partial(self._ended, key))
        found[0].wake()

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        found = self._keepers.get(key)
        if found is not None and found[1] is task:
            del self._keepers[key]
        if self._store is not None and key in self._store.jobs() and not task.cancelled():
            self.changed(key)

    def wake_all(self) -> None:
        for keeper, _ in self._keepers.values():
            keeper.wake()

    def __len__(self) -> int:
        return len(self._keepers)

    async def close(self) -> None:
        self._store = None
        tasks = [task for _, task in self._keepers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
