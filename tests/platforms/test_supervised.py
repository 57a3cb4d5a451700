"""A platform that Pliant does not know: one module and one entry point."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.platforms.conformance import SLEEP, SMALL, PlatformConformance, Site

from pliant.core.job import Phase
from pliant.core.resources import Resources
from pliant.platforms.base import JobContext, NodeLaunch, NodeWatcher, Platform, Scaler
from pliant.platforms.local import LocalPlatform
from pliant.platforms.registry import make_platform, platform_names, platform_traits
from pliant.rpc.identity import create_token_file
from pliant.testing import FakePlatform, RunningMaster, SupervisedPlatform

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux", reason="agents are tested on Linux")]

NOBODY = "127.0.0.1:9"  # no master listens there: agents retry, and are alive


class SupervisedSite(Site):
    def __init__(self, folder: Path) -> None:
        create_token_file(folder / "token")
        self.context = JobContext("tested", folder, NOBODY, folder / "token", None, {"options": {"cpu": 4}})

    def open(self) -> tuple[Platform, Scaler, NodeWatcher]:
        platform = SupervisedPlatform()
        return (platform, *platform.open(self.context))

    async def kill(self, node: str) -> None:
        await asyncio.to_thread(SupervisedPlatform.supervisor_of(self.context.job_dir).kill_node, node)

    def launch(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", SMALL, SLEEP)

    def too_large(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", Resources(cpu=5), SLEEP)


class TestSupervisedPlatform(PlatformConformance):
    @pytest.fixture
    def site(self, tmp_path: Path) -> Iterator[SupervisedSite]:
        yield SupervisedSite(tmp_path)
        SupervisedPlatform.supervisor_of(tmp_path).close()


@pytest.fixture
def entry_point(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an installed package of another team has it."""
    folder = tmp_path_factory.mktemp("site-packages")
    info = folder / "supervised-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: supervised\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pliant.platforms]\nsupervised = pliant.testing.supervised_platform:SupervisedPlatform\n"
    )
    monkeypatch.syspath_prepend(str(folder))


def test_it_is_no_relative_of_the_other_platforms() -> None:
    assert not issubclass(SupervisedPlatform, (LocalPlatform, FakePlatform))


@pytest.mark.usefixtures("entry_point")
def test_an_entry_point_makes_it_known() -> None:
    assert "supervised" in platform_names()
    assert isinstance(make_platform("supervised"), SupervisedPlatform)
    assert platform_traits("supervised").is_single_machine


@pytest.mark.usefixtures("entry_point")
def test_a_job_of_a_new_platform_runs_to_its_end(tmp_path: Path) -> None:
    words = "import os; print(os.environ['PLIANT_NODE'], os.environ['PLIANT_STRATEGY'])"
    job = {
        "platform": {"kind": "supervised"},
        "roles": {"worker": {"command": [sys.executable, "-c", words], "replicas": 2}},
        "components": {"need_task_manager": False},
    }
    with RunningMaster(tmp_path, job, platform="spec") as master:
        assert master.join() is Phase.SUCCEEDED
        for node in ("worker-0", "worker-1"):
            assert (master.job_dir.path / f"{node}.log").read_text().split() == [node, "none"]
