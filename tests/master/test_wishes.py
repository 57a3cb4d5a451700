"""Wishes of people on a platform reach a real master: what they ask of parameter servers takes nothing that others need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tests.master.test_parameters import SPEC, begin

from pliant.platforms.base import Desk, JobReport, Wish
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakePlatform, RunningMaster, wait_until


class QueueDesk(Desk):
    """Says what a test puts to it, and gives the answers back."""

    def __init__(self) -> None:
        self.asked: Queue[Wish] = Queue()
        self.answers: Queue[str] = Queue()

    async def wishes(self) -> AsyncIterator[Wish]:
        while True:
            if self.asked.empty():
                await asyncio.sleep(0.01)
            else:
                yield self.asked.get()

    async def answer(self, wish: Wish, refusal: str) -> None:
        self.answers.put(refusal)

    async def report(self, report: JobReport) -> None:
        return

    async def finish(self, report: JobReport, summary: Mapping[str, Any]) -> None:
        return


class DeskPlatform(FakePlatform):
    def __init__(self) -> None:
        super().__init__()
        self.counter = QueueDesk()

    def desk(self) -> Desk:
        return self.counter

    def ask(self, wish: Wish) -> str:
        """Gives the refusal."""
        self.counter.asked.put(wish)
        return self.counter.answers.get(timeout=30)


@pytest.fixture
def platform() -> DeskPlatform:
    return DeskPlatform()


@pytest.fixture
def master(tmp_path: Path, platform: DeskPlatform) -> Iterator[RunningMaster]:
    servers = {"replicas": {"min": 1, "max": 3, "wanted": 2}, "command": "serve"}
    spec = {**SPEC, "roles": {"worker": {"command": "train"}, "ps": servers}}
    with RunningMaster(tmp_path, spec, platform=platform) as running:
        wait_until(lambda: {"ps-0", "ps-1"} <= set(platform.launched), what="the servers")
        begin(running)
        yield running


def seats(master: RunningMaster) -> dict[str, bool]:
    """By node, whether it is to go."""
    status = master.client.call(master.client.stubs.job.GetStatus, pb.Empty())
    return {seat.node: seat.leaving for seat in status.parameters.seats}


def test_a_server_that_a_wish_takes_away_gives_its_parameters_to_the_others_before_its_node_goes(
    master: RunningMaster, platform: DeskPlatform
) -> None:
    assert platform.ask(Wish("less", {"roles": {"ps": {"replicas": 1}}})) == ""
    assert seats(master) == {"ps-0": False, "ps-1": True}
    assert not platform.removed, "its node went with its parameters"
    assert platform.ask(Wish("more", {"roles": {"ps": {"replicas": 3}}})) == ""
    wait_until(lambda: "ps-2" in platform.launched, what="the third")
    assert seats(master) == {"ps-0": False, "ps-1": False, "": False}


def test_a_wish_that_would_lose_parameters_is_refused(master: RunningMaster, platform: DeskPlatform) -> None:
    assert "ps-1 holds parameters" in platform.ask(Wish("that one", {"remove": ["ps-1"]}))
    assert "1 to 3 are allowed" in platform.ask(Wish("none", {"roles": {"ps": {"replicas": 0}}}))
    edited = master.spec.wanted_state()
    edited["roles"]["ps"] |= {"max": 1, "wanted": 1}
    assert "there are 2 nodes of the role ps now" in platform.ask(Wish("less", edited, state=True))
    assert seats(master) == {"ps-0": False, "ps-1": False}
    assert not platform.removed
