from __future__ import annotations

import asyncio

import pytest
from tests.platforms.conformance import SLEEP, SMALL, PlatformConformance, Site

from pliant.core.nodes.capacity import Machine
from pliant.core.resources import Resources
from pliant.platforms.base import JobContext, NodeLaunch, NodeWatcher, Platform, Scaler
from pliant.testing import FakePlatform


class FakeSite(Site):
    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.platform = FakePlatform(largest=Machine(4.0, 4000, 0))

    def open(self) -> tuple[Platform, Scaler, NodeWatcher]:
        return (self.platform, *self.platform.open(self.context))

    async def kill(self, node: str) -> None:
        self.platform.kill_node(node)

    def launch(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", SMALL, SLEEP)

    def too_large(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", Resources(cpu=5), SLEEP)


class TestFakePlatform(PlatformConformance):
    @pytest.fixture
    def site(self, tmp_path_factory: pytest.TempPathFactory) -> FakeSite:
        folder = tmp_path_factory.mktemp("job")
        return FakeSite(JobContext("tested", folder, "127.0.0.1:1", folder / "token"))


def test_a_stubborn_node_is_asked_and_ends_when_it_is_forced(tmp_path_factory: pytest.TempPathFactory) -> None:
    site = FakeSite(JobContext("tested", tmp_path_factory.mktemp("job"), "", tmp_path_factory.mktemp("t")))

    async def scenario() -> None:
        from tests.platforms.conformance import opened

        async with opened(site) as there:
            await there.launch(site.launch("worker-0"))
            site.platform.make_stubborn("worker-0")
            await there.remove("worker-0", 10.0)
            assert (site.platform.running(), site.platform.nodes["worker-0"].asked_to_end) == (["worker-0"], True)
            await there.remove("worker-0", 0.0)
            assert site.platform.running() == []

    asyncio.run(scenario())
