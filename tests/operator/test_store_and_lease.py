"""The operator's copy of the cluster, and who may act."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.operator.builders import KEY, job, pod

from pliant.core.errors import NotFound
from pliant.operator import keeper as keepers
from pliant.operator import lease as leases
from pliant.operator.lease import Lease, NotActing, Sight, may_take
from pliant.operator.store import Store
from pliant.platforms.kubernetes.errors import Outdated
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, PODS, Kind, Object
from pliant.testing import ManualClock


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
    store.gone(PODS, old)
    assert store.view(KEY).pods == (new,)
    store.put(PODS, old)
    assert store.view(KEY).pods == (new,)


def test_what_vanished_unnoticed_is_found_by_a_list_and_what_came_after_it_stays() -> None:
    store, owner = Store(lambda key: None), job()
    store.put(PODS, pod(owner, "worker-0"))
    assert store.compare(PODS, [], began=float("-inf")) == 0
    assert store.compare(PODS, [pod(owner, "worker-1")], began=float("inf")) == 1
    assert [item["metadata"]["name"] for item in store.view(KEY).pods] == ["digits-worker-1"]


def test_of_a_pod_only_what_is_looked_at_is_kept() -> None:
    store, item = Store(lambda key: None), pod(job(), "worker-0")
    bulky = {**item["spec"], "volumes": [{"name": "tmp"}], "containers": [{"name": "main", "image": "x", "env": [{}]}]}
    store.put(PODS, {**item, "metadata": {**item["metadata"], "managedFields": [{}]}, "spec": bulky})
    assert store.view(KEY).pods == (item,)


def test_a_lease_is_taken_when_free_own_or_silent_for_its_whole_time() -> None:
    assert may_take(Sight("", "t", 0.0), "me", 15.0, 1.0)
    assert may_take(Sight("me", "t", 0.0), "me", 15.0, 1.0)
    assert not may_take(Sight("other", "t", 0.0), "me", 15.0, 15.0)
    assert may_take(Sight("other", "t", 0.0), "me", 15.0, 15.1)


def test_a_holder_trusts_itself_for_less_time_than_others_wait() -> None:
    assert leases.RENEW < leases.TRUST < leases.DURATION


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
        await first._look()
        await second._look()
        assert (first.held, second.held) == (True, False)
        clock.advance(leases.TRUST + 0.1)  # the first is frozen; it does not act, and the second not yet
        assert (first.held, second.held) == (False, False)
        with pytest.raises(NotActing):
            async with first.fenced():
                raise AssertionError("a write would have begun")
        await second._look()
        assert not second.held
        clock.advance(leases.DURATION - leases.TRUST)
        await second._look()
        assert (first.held, second.held) == (False, True)
        await first._look()  # thawed: it finds the other
        assert not first.held
        await second.release()
        await first._look()
        assert (first.held, second.held) == (True, False)

    asyncio.run(story())


def test_a_write_is_given_up_when_the_lease_runs_out_during_it() -> None:
    async def story() -> None:
        lease = Lease(OneLease(), "ns", "lease", "me")  # type: ignore[arg-type]
        await lease._look()
        lease._until = lease._clock() + leases.LEAST_TIME + 0.1
        with pytest.raises(NotActing):
            async with lease.fenced():
                await asyncio.Event().wait()

    asyncio.run(story())


def test_what_was_given_up_when_the_lease_ran_out_is_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepers, "AFTER_LAPSE", 0.01)

    async def story() -> None:
        clock, rounds = ManualClock(), list[bool]()
        lease = Lease(OneLease(), "ns", "lease", "me", clock=clock.now)  # type: ignore[arg-type]
        await lease._look()
        lease._tell()
        again = asyncio.Event()

        class Interrupted(keepers.Keeper):
            async def _round(self, seen: Any, now: float) -> float | None:
                rounds.append(lease.held)
                if len(rounds) > 1:
                    again.set()
                    return None
                clock.advance(leases.TRUST + 0.1)
                raise NotActing("it ran out")

        store = Store(lambda key: None)
        store.put(ELASTIC_JOBS, job())
        task = asyncio.create_task(Interrupted(KEY, store, lease, None).run())  # type: ignore[arg-type]
        while not rounds:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert rounds == [True], "it does not act without the lease"
        await lease._look()  # renewed before anybody was told that it had lapsed
        lease._tell()
        await asyncio.wait_for(again.wait(), 10.0)
        assert rounds == [True, True]
        task.cancel()

    asyncio.run(story())
