"""The contract of a platform, on a Ray cluster."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.platforms.conformance import SLEEP, SMALL, PlatformConformance, Site
from tests.ray.conftest import RayTestCluster

from pliant.core.resources import Resources
from pliant.platforms.base import JobContext, NodeLaunch, NodeWatcher, Platform, Scaler
from pliant.platforms.processes import find_marked
from pliant.platforms.ray import RayPlatform
from pliant.platforms.ray.link import BridgeLink
from pliant.rpc.identity import create_token_file
from pliant.testing.waiting import wait_until

pytestmark = [pytest.mark.ray]

NOBODY = "127.0.0.1:9"  # no master listens there: agents retry, and are alive


class RaySite(Site):
    def __init__(self, folder: Path, address: str, job: str) -> None:
        create_token_file(folder / "token")
        self.context = JobContext(job, folder, NOBODY, folder / "token", None, {"ray": {"address": address}})
        self._address = address

    def open(self) -> tuple[Platform, Scaler, NodeWatcher]:
        platform = RayPlatform()
        return (platform, *platform.open(self.context))

    async def kill(self, node: str) -> None:
        """The actor's process, once its agent runs."""
        leashes = await asyncio.to_thread(self._wait_for_agent, node)
        for leash in leashes:
            os.kill(leash, signal.SIGKILL)

    def _wait_for_agent(self, node: str) -> list[int]:
        from pliant.core.nodes.environment import NodeEnvironment

        marks = NodeEnvironment.marks(job_dir=self.context.job_dir, node=node)
        agents = wait_until(lambda: find_marked(marks), what=f"the agent of {node} runs")
        workers = {
            parent.pid for agent in agents for parent in agent.parents() if parent.cmdline()[0].startswith("ray::")
        }
        assert workers, f"{node} has no actor"
        return sorted(workers)

    def launch(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", SMALL, SLEEP)

    def too_large(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", Resources(cpu=5), SLEEP)

    def close(self) -> None:
        async def kill_all() -> None:
            link = BridgeLink(self._address, self.context.job, self.context.job_dir, {})
            await link.call("kill_all")
            await link.close()

        asyncio.run(kill_all())


class TestRayPlatform(PlatformConformance):
    @pytest.fixture
    def site(self, tmp_path: Path, ray_cluster: RayTestCluster) -> Iterator[RaySite]:
        site = RaySite(tmp_path, ray_cluster.address, f"tested-{secrets.token_hex(4)}")
        yield site
        site.close()
