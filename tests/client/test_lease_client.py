from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from pliant.client.lease_client import LeaseClient
from pliant.client.session import Session
from pliant.core.shards.datasets import DatasetSpec
from pliant.core.shards.leases import Availability
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.enums import AVAILABILITY
from pliant.testing.waiting import MAX_WAIT_S


class AnsweredAtOnce:
    """A call whose answer is there before anyone could ask to be told of it."""

    def add_done_callback(self, told: Callable[[Any], None]) -> None:
        told(self)

    def cancel(self) -> None: ...


class ScriptedSession:
    """Answers exchanges one after the other; the last answer is given for ever."""

    def __init__(self, *replies: pb.ExchangeReply | None) -> None:
        self._replies = list(replies)
        self.master = SimpleNamespace(stubs=SimpleNamespace(shards=SimpleNamespace(WaitForShards=None)))
        self.name = "worker-0/0/first"
        self.generation = 1

    def exchange(self, request: pb.ExchangeRequest, generation: int) -> pb.ExchangeReply | None:
        request.session = self.name
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if reply is None:
            self.generation += 1
            self.name = "worker-0/0/second"
        return reply

    def start(self, _method: object, _request: object, _timeout: float) -> AnsweredAtOnce:
        return AnsweredAtOnce()


def reply(availability: Availability, *leases: int, refused: tuple[int, ...] = ()) -> pb.ExchangeReply:
    shards = [pb.Shard(lease=n, name="train", start=10 * n, end=10 * n + 10) for n in leases]
    return pb.ExchangeReply(availability=AVAILABILITY.to_wire[availability], shards=shards, refused=refused)


def source(*replies: pb.ExchangeReply | None) -> LeaseClient:
    session = cast(Session, ScriptedSession(*replies))
    return LeaseClient(session, DatasetSpec("train", 10, size=1000), prefetch=1)


def in_time(action: Callable[[], object]) -> list[object]:
    """What the action gave; nothing if it hangs."""
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(action()), daemon=True)
    thread.start()
    thread.join(MAX_WAIT_S)
    return got


def test_a_wait_for_shards_that_is_over_at_once_is_not_waited_for() -> None:
    shards = source(reply(Availability.WAIT), reply(Availability.WAIT), reply(Availability.END))
    assert in_time(shards.take) == [None]
    shards.close()


def test_a_refused_report_is_told_to_who_commits_and_to_nobody_else() -> None:
    shards = source(
        reply(Availability.MORE, 1),
        reply(Availability.MORE, 2, refused=(1,)),
        reply(Availability.MORE, 3),
        reply(Availability.END),
    )
    first, second = shards.take(), shards.take()
    assert first is not None
    assert second is not None
    shards.done(first)
    shards.done(second)
    assert in_time(lambda: shards.flush(second)) == [True]
    assert in_time(lambda: shards.flush(first)) == [False]
    shards.close()


def test_what_was_held_under_a_session_that_is_no_more_is_lost_once() -> None:
    shards = source(reply(Availability.MORE, 1), None, reply(Availability.END))
    held = shards.take()
    assert held is not None
    assert held.session == "worker-0/0/first"
    assert in_time(shards.take) == [None]
    assert held.lost
    shards.done(held)
    assert in_time(lambda: shards.flush(held)) == [False]
    assert shards.lost_shards == 1
    shards.close()
