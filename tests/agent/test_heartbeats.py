"""When an agent sends its heartbeats."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pliant.agent import master_link
from pliant.agent.master_link import HEARTBEAT_TIMEOUT_S, MasterLink
from pliant.core.errors import MasterUnavailable
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import ManualClock


class EnoughSeen(Exception):
    pass


class Master:
    """Of a large job: it wants a heartbeat every six seconds. The second one gets no answer."""

    def __init__(self, clock: ManualClock) -> None:
        self.stubs = SimpleNamespace(nodes=SimpleNamespace(Heartbeat=None))
        self.sent: list[float] = []
        self._clock = clock

    async def call(self, *_: Any, timeout: float) -> pb.HeartbeatReply:
        self.sent.append(self._clock.now())
        if len(self.sent) == 2:
            self._clock.advance(timeout)
            raise MasterUnavailable("no answer")
        if len(self.sent) == 4:
            raise EnoughSeen
        return pb.HeartbeatReply(heartbeat_seconds=6.0)


def test_a_heartbeat_without_an_answer_is_soon_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master gives the node up after 15 s of silence: one that is lost has to fit into that."""
    clock = ManualClock()
    master = Master(clock)

    async def pass_time(seconds: float, _interval: float) -> bool:
        clock.advance(seconds)
        return False

    slot = SimpleNamespace(until_heartbeat_due=pass_time, recall="")
    runner = SimpleNamespace(watch_memory=lambda: None, is_stopped=False)
    monkeypatch.setattr(master_link, "time", SimpleNamespace(monotonic=clock.now))
    other: Any = SimpleNamespace(job_dir=None, orphan_timeout=600.0)
    parts: list[Any] = [other, master, runner, None, slot, None]
    link = MasterLink(*parts)
    monkeypatch.setattr(link, "_heartbeat", pb.HeartbeatRequest)
    monkeypatch.setattr(link, "_obey", lambda *_: None)
    with pytest.raises(EnoughSeen):
        asyncio.run(link.send_heartbeats())
    first, second, third, fourth = master.sent
    assert 5.0 <= second - first <= 6.1
    assert third - second <= HEARTBEAT_TIMEOUT_S + 1.1
    assert 5.0 <= fourth - third <= 6.1
