from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from pliant.core.errors import InvalidRequest, NotFound, SessionExpired
from pliant.master.components.rendezvous import RendezvousServer
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, MasterClient
from pliant.testing import ManualClock, RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S

JOB = {
    "strategy": "allreduce",
    "roles": {"worker": {"command": ["true"], "replicas": "1:2"}},
    "rendezvous": {"min": 1, "max": 2},
}


class Members:
    """Two of a world."""

    def __init__(self, master: RunningMaster) -> None:
        self.master = master
        self.stubs = master.client.stubs.rendezvous

    def join(self, *names: str, after: int = 0) -> int:
        for name in names:
            request = pb.JoinRequest(member=name, incarnation="a", after=after)
            self.master.client.call(self.stubs.Join, request)
        asked = pb.GetWorldRequest(member=names[0], incarnation="a")
        reply = self.master.client.call(self.stubs.GetWorld, asked)
        assert reply.state == pb.WORLD_STATE_FORMED
        return int(reply.world.round)

    def start(self, name: str, round: int, **fields: Any) -> Any:
        fields = {"keys": {"0": name.encode()}, "incarnation": "a", **fields}
        request = pb.ExchangeAddressesRequest(round=round, member=name, **fields)
        return self.master.client.start(self.stubs.ExchangeAddresses, request, timeout=MAX_WAIT_S)

    def exchange(self, name: str, round: int, **fields: Any) -> pb.ExchangeAddressesReply:
        fields = {"keys": {"0": name.encode()}, "incarnation": "a", **fields}
        request = pb.ExchangeAddressesRequest(round=round, member=name, **fields)
        reply: pb.ExchangeAddressesReply = self.master.client.call(
            self.stubs.ExchangeAddresses, request, timeout=MAX_WAIT_S
        )
        return reply

    def hold_calls(self, seconds: float) -> None:
        """From now on the master answers a call that waits for something after this time."""
        self.master.run_inside(lambda parts: setattr(parts, "max_wait_s", seconds))

    def published(self) -> int:
        return self.master.run_inside(
            lambda parts: sum(
                len(group.published) for group in parts.require(RendezvousServer)._exchange._groups.values()
            )
        )


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    with RunningMaster(tmp_path, JOB, clock=ManualClock()) as master:
        wait_until(lambda: len(master.platform.running()) == 2)
        made = Members(master)
        made.hold_calls(MAX_WAIT_S)
        yield made


def test_one_call_publishes_and_brings_what_all_published(members: Members) -> None:
    round = members.join("worker-0", "worker-1")
    first = members.start("worker-0", round)
    reply = members.exchange("worker-1", round)
    assert reply.state == pb.EXCHANGE_STATE_COMPLETE
    assert [dict(each.keys) for each in reply.published] == [{"0": b"worker-0"}, {"0": b"worker-1"}]
    assert first.result(timeout=MAX_WAIT_S) == reply


def test_who_waits_longer_than_its_call_asks_again_without_its_keys(members: Members) -> None:
    round = members.join("worker-0", "worker-1")
    members.hold_calls(0.1)
    assert members.exchange("worker-0", round).state == pb.EXCHANGE_STATE_WAITING
    members.hold_calls(MAX_WAIT_S)
    again = members.start("worker-0", round, keys={})
    members.exchange("worker-1", round)
    assert again.result(timeout=MAX_WAIT_S).state == pb.EXCHANGE_STATE_COMPLETE


def test_a_death_ends_the_waiting(members: Members) -> None:
    round = members.join("worker-0", "worker-1")
    first = members.start("worker-0", round)
    wait_until(lambda: members.published() == 1)
    members.master.run_inside(lambda parts: parts.require(RendezvousServer).died("worker-1"))
    assert first.result(timeout=MAX_WAIT_S).state == pb.EXCHANGE_STATE_BROKEN
    assert members.exchange("worker-0", round).state == pb.EXCHANGE_STATE_BROKEN


def test_a_master_that_was_restarted_has_no_keys_and_says_so(members: Members) -> None:
    round = members.join("worker-0", "worker-1")
    first = members.start("worker-0", round)
    wait_until(lambda: members.published() == 1)
    members.master.restart()
    with pytest.raises(grpc.RpcError):
        first.result(timeout=MAX_WAIT_S)
    with pytest.raises(NotFound, match="published nothing"):
        members.exchange("worker-0", round, keys={})
    second = members.start("worker-1", round)
    wait_until(lambda: members.published() == 1)
    members.master.client.call(members.stubs.Join, pb.JoinRequest(member="worker-0", incarnation="a", after=round))
    assert second.result(timeout=MAX_WAIT_S).state == pb.EXCHANGE_STATE_BROKEN, "it learns that its peer joins again"
    assert members.join("worker-1", "worker-0", after=round) == round + 1


def test_only_members_of_the_round_may_publish(members: Members) -> None:
    round = members.join("worker-0", "worker-1")
    for stranger in ({"name": "worker-9"}, {"name": "worker-0", "incarnation": "older"}):
        with pytest.raises(SessionExpired, match="not a member"):
            members.exchange(**stranger, round=round)
    with pytest.raises(NotFound, match="never formed"):
        members.exchange("worker-0", round + 1)
    with pytest.raises(InvalidRequest, match="bytes"):
        members.exchange("worker-0", round, keys={"0": bytes(1 << 20)})
    outsider = MasterClient(Address(members.master.address.target, "f" * 64))
    request = pb.ExchangeAddressesRequest(round=round, member="worker-0", incarnation="a", keys={"0": b"evil"})
    with pytest.raises(grpc.RpcError) as refused:
        outsider.start(outsider.stubs.rendezvous.ExchangeAddresses, request, timeout=MAX_WAIT_S).result()
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    outsider.close()
    assert members.published() == 0


def test_keys_are_in_memory_only(members: Members) -> None:
    round = members.join("worker-0", "worker-1")
    first = members.start("worker-0", round, keys={"0": b"a secret address"})
    members.exchange("worker-1", round)
    first.result(timeout=MAX_WAIT_S)
    for file in members.master.job_dir.path.glob("journal.db*"):
        assert b"a secret address" not in file.read_bytes()
