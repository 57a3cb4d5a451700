from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.platforms.conformance import SLEEP, SMALL, PlatformConformance, Site

from pliant.core.resources import Resources
from pliant.files.atomic import read_json
from pliant.platforms.base import JobContext, NodeLaunch, NodeWatcher, Platform, Scaler
from pliant.platforms.local import LocalPlatform, sweep_job
from pliant.platforms.processes import find_marked, when_gone
from pliant.rpc.identity import create_token_file
from pliant.testing import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux", reason="agents are tested on Linux")]

NOBODY = "127.0.0.1:9"  # no master listens there: agents try to reach it, and are alive


class LocalSite(Site):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "logs").mkdir()
        (folder / "nodes").mkdir()
        create_token_file(folder / "token")
        options = {"local": {"capacity": {"cpu": 4, "memory": 4000}, "limits": "off"}}
        self.context = JobContext("tested", folder, NOBODY, folder / "token", None, options)

    def open(self) -> tuple[Platform, Scaler, NodeWatcher]:
        platform = LocalPlatform()
        return (platform, *platform.open(self.context))

    async def kill(self, node: str) -> None:
        record = read_json(self.folder / "nodes" / node / "agent.json")
        assert record is not None
        os.kill(record["pid"], signal.SIGKILL)
        await when_gone(record["pid"])

    def launch(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", SMALL, SLEEP)

    def too_large(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", Resources(cpu=5), SLEEP)


class TestLocalPlatform(PlatformConformance):
    @pytest.fixture
    def site(self, tmp_path: Path) -> Iterator[LocalSite]:
        yield LocalSite(tmp_path)
        sweep_job(tmp_path)
        wait_until(lambda: not find_marked({"PLIANT_JOB_DIR": str(tmp_path)}), what="the end of the agents")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Resources(cpu=5), "5 CPUs asked for; 4 of 4 are left"),
        (Resources(memory_mb=5000), "5000 MB asked for; 4000 of 4000 MB are left"),
        (Resources(gpu=1), "1 GPUs asked for; the local platform gives out none"),
    ],
)
def test_a_refusal_says_what_was_asked_for_and_what_is_left(tmp_path: Path, asked: Resources, why: str) -> None:
    import asyncio

    from tests.platforms.conformance import opened

    async def scenario() -> None:
        site = LocalSite(tmp_path)
        async with opened(site) as there:
            (refusal,) = await there.launch(NodeLaunch("worker-0", "worker", asked, SLEEP))
            assert (refusal.message, refusal.unschedulable) == (why, True)

    asyncio.run(scenario())


def test_one_node_has_no_more_than_the_machine_but_all_together_may_ask_for_more_cpus(tmp_path: Path) -> None:
    import asyncio

    from tests.platforms.conformance import opened

    async def scenario() -> None:
        site = LocalSite(tmp_path)
        site.context = replace(site.context, options={"local": {"limits": "off"}})
        cores, memory = os.cpu_count() or 1, psutil.virtual_memory().total >> 20
        async with opened(site) as there:
            capacity = await there.platform.capacity()
            assert capacity is not None
            (machine,) = capacity.machines
            assert machine.cpu == cores
            assert machine.memory_mb is not None
            assert 0 < machine.memory_mb <= memory, "a container may have less"
            (refusal,) = await there.launch(NodeLaunch("worker-0", "worker", Resources(cpu=cores + 1), SLEEP))
            assert (refusal.message, refusal.unschedulable) == (
                f"{cores + 1} CPUs asked for; the machine has {cores}",
                True,
            )

    asyncio.run(scenario())
