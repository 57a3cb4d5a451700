from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.platforms.conformance import SLEEP, SMALL, PlatformConformance, Site, opened, run

from pliant.core.resources import Resources
from pliant.files.atomic import read_json
from pliant.platforms.base import JobContext, NodeLaunch, NodeResize, NodeWatcher, Platform, Scaler
from pliant.platforms.gpus import Gpu
from pliant.platforms.local import LocalPlatform, sweep_job
from pliant.platforms.processes import find_marked, when_gone
from pliant.rpc.identity import create_token_file
from pliant.testing import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux", reason="agents are tested on Linux")]

NOBODY = "127.0.0.1:9"  # no master listens there: agents try to reach it, and are alive


class LocalSite(Site):
    def __init__(self, folder: Path, gpus: tuple[Gpu, ...] = ()) -> None:
        self.folder = folder
        self.gpus = gpus
        (folder / "logs").mkdir()
        (folder / "nodes").mkdir()
        create_token_file(folder / "token")
        options = {"local": {"capacity": {"cpu": 4, "memory": 4000}, "limits": "off"}}
        self.context = JobContext("tested", folder, NOBODY, folder / "token", None, options)

    def open(self) -> tuple[Platform, Scaler, NodeWatcher]:
        platform = LocalPlatform(gpus=lambda: self.gpus, gpu_locks=lambda: self.folder)
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
        (Resources(cpu=5), "5 CPUs requested; 4 of 4 available"),
        (Resources(memory_mb=5000), "5000 MB requested; 4000 of 4000 MB available"),
        (Resources(gpu=1), "1 GPU requested; the machine has none"),
    ],
)
def test_a_refusal_says_what_was_asked_for_and_what_is_left(tmp_path: Path, asked: Resources, why: str) -> None:
    async def scenario() -> None:
        site = LocalSite(tmp_path)
        async with opened(site) as there:
            (refusal,) = await there.launch(NodeLaunch("worker-0", "worker", asked, SLEEP))
            assert (refusal.message, refusal.unschedulable) == (why, True)

    run(scenario)


def test_one_node_has_no_more_than_the_machine_but_all_together_may_ask_for_more_cpus(tmp_path: Path) -> None:
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
                f"{cores + 1} CPUs requested; the machine has {cores}",
                True,
            )

    run(scenario)


def variables_of(folder: Path, node: str) -> dict[str, str]:
    record = read_json(folder / "nodes" / node / "agent.json")
    assert record is not None
    return psutil.Process(record["pid"]).environ()


def test_nodes_have_gpus_of_their_own_which_pass_to_their_replacements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also under a master that was restarted: it reads who has what from the records of the nodes."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    site = LocalSite(tmp_path, gpus=(Gpu("0"), Gpu("1"), Gpu("2")))

    def launch(number: int, gpu: int) -> NodeLaunch:
        return NodeLaunch(f"worker-{number}", "worker", Resources(gpu=gpu), SLEEP)

    async def scenario() -> None:
        async with opened(site) as there:
            capacity = await there.platform.capacity()
            assert capacity is not None
            assert capacity.machines[0].gpu == 3
            assert await there.launch(launch(0, 1), launch(1, 2), launch(2, 0)) == []
            assert variables_of(tmp_path, "worker-0")["CUDA_VISIBLE_DEVICES"] == "0"
            assert variables_of(tmp_path, "worker-1")["CUDA_VISIBLE_DEVICES"] == "1,2"
            assert "CUDA_VISIBLE_DEVICES" not in variables_of(tmp_path, "worker-2")
        async with opened(site) as there:
            assert await there.alive() == ["worker-0", "worker-1", "worker-2"]
            (refusal,) = await there.launch(launch(3, 1))
            assert (refusal.message, refusal.unschedulable) == ("1 GPU requested; 0 of 3 available", True)
            (refusal,) = there.scaler.check_resize([NodeResize("worker-0", Resources(gpu=2))])
            assert "cannot be changed" in refusal.message
            await site.kill("worker-1")
            await there.end_of("worker-1")
            assert await there.launch(launch(4, 1)) == []
            assert variables_of(tmp_path, "worker-4")["CUDA_VISIBLE_DEVICES"] == "1"

    try:
        run(scenario)
    finally:
        sweep_job(tmp_path)
        wait_until(lambda: not find_marked({"PLIANT_JOB_DIR": str(tmp_path)}), what="the end of the agents")
