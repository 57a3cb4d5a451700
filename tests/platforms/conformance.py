"""The contract of a platform as tests. One suite, run on every platform: subclass ``PlatformConformance`` and give it a
``site``, which knows how to break things there.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.resources import Resources
from pliant.platforms.base import (
    NodeEvent,
    NodeLaunch,
    NodeRemoval,
    NodeResize,
    NodeWatcher,
    Platform,
    Refusal,
    ScalePlan,
    Scaler,
)
from pliant.testing.waiting import MAX_WAIT_S


class Site(ABC):
    """One place where nodes can run, empty at first. It outlives the masters that open it."""

    @abstractmethod
    def open(self) -> tuple[Platform, Scaler, NodeWatcher]:
        """As a master does when it starts."""

    @abstractmethod
    async def kill(self, node: str) -> None:
        """``kill -9`` of whatever a node is there."""

    @abstractmethod
    def launch(self, node: str) -> NodeLaunch:
        """A node that would run for ever."""

    @abstractmethod
    def too_large(self, node: str) -> NodeLaunch:
        """A node that there is no room for."""


@dataclass
class Opened:
    platform: Platform
    scaler: Scaler
    watcher: NodeWatcher

    async def launch(self, *launches: NodeLaunch) -> list[Refusal]:
        return await self.scaler.scale(ScalePlan(launch=launches))

    async def remove(self, node: str, grace: float) -> None:
        await self.scaler.scale(ScalePlan(remove=(NodeRemoval(node, grace),)))

    async def alive(self) -> list[str]:
        return sorted(event.node for event in await self.watcher.list() if event.alive)

    async def end_of(self, node: str) -> NodeEvent:
        """The next event that tells of its end."""
        return await self.news_of(node, lambda event: not event.alive)

    async def news_of(self, node: str, wanted: Callable[[NodeEvent], bool]) -> NodeEvent:
        async with asyncio.timeout(MAX_WAIT_S):
            async for event in self.watcher.watch():
                if event.node == node and wanted(event):
                    return event
        raise AssertionError("a watcher does not stop by itself")


@asynccontextmanager
async def opened(site: Site) -> AsyncIterator[Opened]:
    platform, scaler, watcher = site.open()
    try:
        yield Opened(platform, scaler, watcher)
    finally:
        await platform.close()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * MAX_WAIT_S):
            await scenario()

    asyncio.run(bounded())


class PlatformConformance(ABC):
    @pytest.fixture
    @abstractmethod
    def site(self) -> Site: ...

    def test_a_running_node_is_resized_or_refused_where_the_platform_can(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                if not there.platform.traits.can_resize:
                    pytest.skip("this platform cannot resize a running node")
                await there.launch(site.launch("worker-0"))
                for node, refused in (("worker-0", []), ("worker-9", ["worker-9"])):
                    wanted = (NodeResize(node, SMALL),)
                    assert [refusal.node for refusal in there.scaler.check_resize(wanted)] == refused
                    assert [refusal.node for refusal in await there.scaler.scale(ScalePlan(resize=wanted))] == refused
                too_much = (NodeResize("worker-0", site.too_large("worker-0").resources),)
                [refusal] = there.scaler.check_resize(too_much)
                assert [refusal] == await there.scaler.scale(ScalePlan(resize=too_much))
                assert refusal.message
                assert await there.alive() == ["worker-0"]

        run(scenario)

    def test_an_empty_platform_has_no_nodes(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                assert await there.watcher.list() == []

        run(scenario)

    def test_a_launched_node_is_there(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                assert await there.launch(site.launch("worker-0"), site.launch("worker-1")) == []
                assert await there.alive() == ["worker-0", "worker-1"]

        run(scenario)

    def test_launching_what_is_there_does_nothing(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                await there.launch(site.launch("worker-0"))
                assert await there.launch(site.launch("worker-0")) == []
                assert await there.alive() == ["worker-0"]

        run(scenario)

    def test_a_node_that_is_killed_is_told_as_killed(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                await there.launch(site.launch("worker-0"), site.launch("worker-1"))
                await site.kill("worker-0")
                event = await there.end_of("worker-0")
                assert event.exit_reason is ExitReason.KILLED
                assert event.message
                assert await there.alive() == ["worker-1"]

        run(scenario)

    def test_a_node_is_removed_with_grace(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                await there.launch(site.launch("worker-0"))
                await there.remove("worker-0", 30.0)
                event = await there.end_of("worker-0")
                assert event.exit_reason in (ExitReason.PREEMPTED, ExitReason.KILLED, ExitReason.COMPLETED)
                assert await there.alive() == []

        run(scenario)

    def test_a_node_is_removed_at_once(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                await there.launch(site.launch("worker-0"))
                await there.remove("worker-0", 0.0)
                await there.end_of("worker-0")
                assert await there.alive() == []

        run(scenario)

    def test_removing_what_is_gone_tells_its_end_again(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                await there.launch(site.launch("worker-0"))
                for _ in range(2):
                    await there.remove("worker-0", 0.0)
                    await there.end_of("worker-0")

        run(scenario)

    def test_removing_what_never_was_tells_that_it_is_gone(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                await there.remove("worker-7", 5.0)
                assert not (await there.end_of("worker-7")).alive

        run(scenario)

    def test_a_name_is_used_once(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                await there.launch(site.launch("worker-0"))
                await site.kill("worker-0")
                await there.end_of("worker-0")
                assert await there.launch(site.launch("worker-0")) == []
                assert not (await there.end_of("worker-0")).alive
                assert await there.alive() == []

        run(scenario)

    def test_nodes_live_on_without_their_master_and_the_next_one_sees_them(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as before:
                await before.launch(site.launch("worker-0"), site.launch("worker-1"))
            async with opened(site) as after:
                assert await after.alive() == ["worker-0", "worker-1"]
                await site.kill("worker-0")
                assert not (await after.end_of("worker-0")).alive
                await after.remove("worker-1", 0.0)
                assert not (await after.end_of("worker-1")).alive

        run(scenario)

    def test_a_node_that_ended_while_no_master_was_there_is_listed_with_its_end(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as before:
                await before.launch(site.launch("worker-0"))
            await site.kill("worker-0")
            async with opened(site) as after:
                (event,) = await after.watcher.list()
                assert (event.node, event.alive) == ("worker-0", False)

        run(scenario)

    def test_a_node_without_room_is_refused_or_waits_and_others_are_not_kept_from_starting(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                refusals = await there.launch(site.too_large("worker-0"))
                if refusals:
                    (refusal,) = refusals
                    assert (refusal.node, refusal.unschedulable) == ("worker-0", True)
                    assert refusal.message
                    assert await there.alive() == []
                else:  # this platform queues it
                    event = await there.news_of("worker-0", lambda event: bool(event.unschedulable))
                    assert event.alive
                assert await there.launch(site.launch("worker-1")) == [], "others are not refused with it"

        run(scenario)

    def test_the_capacity_is_large_enough_for_what_runs_and_too_small_for_what_never_can(self, site: Site) -> None:
        async def scenario() -> None:
            async with opened(site) as there:
                capacity = await there.platform.capacity()
                assert capacity is not None
                assert capacity.problem(site.launch("worker-0").resources) == ""
                asked = site.too_large("worker-0").resources
                problem = capacity.problem(asked)
                assert f"{asked.cpu:g} CPU requested, the largest machine has" in problem

        run(scenario)


SLEEP = ("sleep", "3600")
SMALL = Resources()
