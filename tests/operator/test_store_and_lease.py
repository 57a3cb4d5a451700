"""The operator's copy of the cluster, and who may act."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.operator.builders import KEY, job, pod

from pliant.core.errors import NotFound
from pliant.operator import lease as leases
from pliant.operator import reconciler as reconciler
from pliant.operator.lease import Lease, LeaseRecord, NotLeading, can_acquire
from pliant.operator.store import Store
from pliant.platforms.kubernetes.errors import Outdated
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, PODS, Kind, Object
from pliant.testing import ManualClock
from pliant.testing.waiting import MAX_WAIT_S


def version(item: Object, number: int, uid: str = "") -> Object:
    metadata = {**item["metadata"], "resourceVersion": str(number)}
    return {**item, "metadata": {**metadata, "uid": uid or metadata["uid"]}}


def test_an_older_state_that_is_told_late_is_ignored() -> None:
    woken: list[object] = []
    store, item = Store(woken.append), job()
    store.put(ELASTIC_JOBS, version(item, 9) | {"status": {"phase": "Running"}})
    store.put(ELASTIC_JOBS, version(item, 8))
    found = store.view(KEY).job
    assert found is not None
    assert found["status"]["phase"] == "Running"
    assert woken == [KEY]


def test_a_deletion_of_the_old_one_does_not_remove_the_new_one_of_the_same_name() -> None:
    store, old = Store(lambda key: None), pod(job())
    new = version(old, 20, "another")
    store.put(PODS, old)
    store.put(PODS, new)
    store.remove(PODS, old)
    assert store.view(KEY).pods == (new,)
    store.put(PODS, old)
    assert store.view(KEY).pods == (new,)


def test_what_vanished_unnoticed_is_found_by_a_list_and_what_came_after_it_stays() -> None:
    store, owner = Store(lambda key: None), job()
    store.put(PODS, pod(owner, "worker-0"))
    assert store.replace_listed(PODS, [], requested_at=float("-inf")) == 0
    assert store.replace_listed(PODS, [pod(owner, "worker-1")], requested_at=float("inf")) == 1
    assert [item["metadata"]["name"] for item in store.view(KEY).pods] == ["digits-worker-1"]


def test_of_a_pod_only_what_is_looked_at_is_kept() -> None:
    store, item = Store(lambda key: None), pod(job(), "worker-0")
    bulky = {**item["spec"], "volumes": [{"name": "tmp"}], "containers": [{"name": "main", "image": "x", "env": [{}]}]}
    store.put(PODS, {**item, "metadata": {**item["metadata"], "managedFields": [{}]}, "spec": bulky})
    assert store.view(KEY).pods == (item,)


def test_a_lease_is_taken_when_free_own_or_silent_for_its_whole_time() -> None:
    assert can_acquire(LeaseRecord("", "t", 0.0), "me", 15.0, 1.0)
    assert can_acquire(LeaseRecord("me", "t", 0.0), "me", 15.0, 1.0)
    assert not can_acquire(LeaseRecord("other", "t", 0.0), "me", 15.0, 15.0)
    assert can_acquire(LeaseRecord("other", "t", 0.0), "me", 15.0, 15.1)


def test_a_holder_trusts_itself_for_less_time_than_others_wait() -> None:
    assert leases.RETRY_PERIOD_S < leases.RENEW_DEADLINE_S < leases.LEASE_DURATION_S


class OneLease:
    """An API server that knows one Lease."""

    def __init__(self) -> None:
        self.lease: Object | None = None

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        if self.lease is None:
            raise NotFound("no lease")
        return self.lease

    async def create(self, kind: Kind, body: Any, namespace: str = "") -> Object:
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
        return self.lease

    async def replace(self, kind: Kind, body: Any, namespace: str = "") -> Object:
        assert self.lease is not None
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Outdated("changed")
        number = str(int(body["metadata"]["resourceVersion"]) + 1)
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": number}}
        return self.lease


def test_two_operators_never_hold_the_lease_at_once_whoever_is_frozen() -> None:
    async def story() -> None:
        server, clock = OneLease(), ManualClock()
        first, second = (
            Lease(server, "ns", "lease", name, clock=clock.now)  # type: ignore[arg-type]
            for name in ("first", "second")
        )
        await first._acquire_or_renew()
        await second._acquire_or_renew()
        assert (first.held, second.held) == (True, False)
        clock.advance(leases.RENEW_DEADLINE_S + 0.1)  # the first is frozen; it does not act, and the second not yet
        assert (first.held, second.held) == (False, False)
        with pytest.raises(NotLeading):
            async with first.fenced():
                raise AssertionError("a write would have begun")
        await second._acquire_or_renew()
        assert not second.held
        clock.advance(leases.LEASE_DURATION_S - leases.RENEW_DEADLINE_S)
        await second._acquire_or_renew()
        assert (first.held, second.held) == (False, True)
        await first._acquire_or_renew()  # thawed: it finds the other
        assert not first.held
        await second.release()
        await first._acquire_or_renew()
        assert (first.held, second.held) == (True, False)

    asyncio.run(story())


def test_a_write_is_given_up_when_the_lease_runs_out_during_it() -> None:
    async def story() -> None:
        lease = Lease(OneLease(), "ns", "lease", "me")  # type: ignore[arg-type]
        await lease._acquire_or_renew()
        lease._until = lease._clock() + leases.MIN_WRITE_TIME_S + 0.1
        with pytest.raises(NotLeading):
            async with lease.fenced():
                await asyncio.Event().wait()

    asyncio.run(story())


class AskedLease(Lease):
    """Knows how often somebody asked whether it lapsed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._asked: asyncio.Queue[None] = asyncio.Queue()

    @property
    def is_lapsed(self) -> bool:
        self._asked.put_nowait(None)
        return super().is_lapsed

    async def asked_times(self, count: int) -> None:
        for _ in range(count):
            await asyncio.wait_for(self._asked.get(), MAX_WAIT_S)


def test_what_was_given_up_when_the_lease_ran_out_is_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "LAPSE_RETRY_S", 0.01)

    async def story() -> None:
        clock, rounds = ManualClock(), list[bool]()
        lease = AskedLease(OneLease(), "ns", "lease", "me", clock=clock.now)
        await lease._acquire_or_renew()
        lease._notify()
        first, again = asyncio.Event(), asyncio.Event()

        class Interrupted(reconciler.Reconciler):
            async def _reconcile(self, observed: Any, now: float) -> float | None:
                rounds.append(lease.held)
                if len(rounds) > 1:
                    again.set()
                    return None
                clock.advance(leases.RENEW_DEADLINE_S + 0.1)
                first.set()
                raise NotLeading("it ran out")

        store = Store(lambda key: None)
        store.put(ELASTIC_JOBS, job())
        task = asyncio.create_task(Interrupted(KEY, store, lease, None).run())  # type: ignore[arg-type]
        await asyncio.wait_for(first.wait(), MAX_WAIT_S)
        await lease.asked_times(3)
        assert rounds == [True], "it does not act without the lease"
        await lease._acquire_or_renew()  # renewed before anybody was told that it had is_lapsed
        lease._notify()
        await asyncio.wait_for(again.wait(), MAX_WAIT_S)
        assert rounds == [True, True]
        task.cancel()

    asyncio.run(story())
