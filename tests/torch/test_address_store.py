"""gloo groups whose members find each other through an exchange of keys instead of a store that listens."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest
import torch

from pliant.core.errors import InvalidRequest
from pliant.testing.waiting import MAX_WAIT_S
from pliant.torch.worlds.address_store import AddressStore
from pliant.torch.worlds.group_reaper import wait_for_reaped_groups
from pliant.torch.worlds.world import Peer, World, WorldBroken, connect

HOST = "127.0.0.1"


class Allgather:
    """Of threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._keys: dict[int, Mapping[str, bytes]] = {}
        self.calls = 0

    def __call__(self, world: World, keys: dict[str, bytes]) -> Sequence[Mapping[str, bytes]]:
        with self._changed:
            self.calls += 1
            self._keys[world.rank] = dict(keys)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: len(self._keys) == self._size, 30)
        return [self._keys[rank] for rank in range(self._size)]


def world(rank: int, size: int) -> World:
    return World(1, rank, [Peer(f"worker-{n}", 0, True, frozenset()) for n in range(size)])


def listening() -> set[str]:
    connections = psutil.Process().net_connections("tcp")
    return {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}


@pytest.mark.parametrize("size", [2, 5])
def test_a_group_is_connected_by_one_exchange_and_listens_on_its_own_address_only(size: int) -> None:
    before, gather = listening(), Allgather(size)
    parts = [world(rank, size) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        list(pool.map(lambda part: connect(part, HOST, gather), parts))
        assert gather.calls == size
        assert listening() - before <= {HOST}
        tensors = [torch.full((3,), float(rank)) for rank in range(size)]
        list(pool.map(lambda part, t: part.finish([part.allreduce(t)]), parts, tensors))
    assert all(t.tolist() == [sum(range(size))] * 3 for t in tensors)
    assert all(len(part.peer_ports) == size - 1 for part in parts)
    for part in parts:
        part.leave()
    wait_for_reaped_groups(30)


def test_a_failed_exchange_breaks_the_world_and_a_refused_one_is_an_error() -> None:
    def lost(world: World, keys: dict[str, bytes]) -> Any:
        raise WorldBroken("the master was restarted")

    def refused(world: World, keys: dict[str, bytes]) -> Any:
        raise InvalidRequest("too large")

    with pytest.raises(WorldBroken, match="the master was restarted"):
        connect(world(0, 2), HOST, lost)
    with pytest.raises(InvalidRequest, match="too large"):  # it would be refused again
        connect(world(0, 2), HOST, refused)


def test_who_waits_for_a_peer_that_never_publishes_is_interrupted() -> None:
    waiting, release = threading.Event(), threading.Event()
    broken = world(0, 2)

    def hang(world: World, keys: dict[str, bytes]) -> Any:
        waiting.set()
        assert release.wait(MAX_WAIT_S)
        raise WorldBroken("too late")

    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(connect, broken, HOST, hang)
        assert waiting.wait(MAX_WAIT_S)
        broken.break_up()
        with pytest.raises(WorldBroken, match="a peer was lost"):
            connecting.result(MAX_WAIT_S)
        release.set()


def test_the_store_answers_from_what_was_exchanged_and_takes_nothing_afterwards() -> None:
    store = AddressStore(lambda keys: [keys, {"theirs": b"2"}])
    store.set("mine", "1")
    assert store.get("mine") == b"1"
    assert not store.published, "its own key needs no exchange"
    store.wait(["mine", "theirs"])
    assert (store.get("theirs"), store.check(["mine", "theirs"]), store.check(["none"])) == (b"2", True, False)
    with pytest.raises(RuntimeError, match="no member published 'none'"):
        store.get("none")
    with pytest.raises(RuntimeError, match="after the members"):
        store.set("late", b"3")
