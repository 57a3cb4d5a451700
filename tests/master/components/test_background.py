"""Work beside the ticks of a master: what its errors end, and what they do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pliant.core.changes import ChangeRequest
from pliant.core.status import JobStatus
from pliant.platforms.base import ControlChannel, JobContext, Measured, NodeEvent, NodeWatcher, Scaler
from pliant.testing import FakePlatform, RunningMaster, wait_until

SPEC = {"roles": {"worker": {"command": ["true"]}}}


class BrokenChannel(ControlChannel):
    """Fails as no platform should; ``used`` counts how often."""

    def __init__(self) -> None:
        self.used = 0

    async def requests(self) -> AsyncIterator[ChangeRequest]:
        self.used += 1
        raise RuntimeError("requests")
        yield  # an iterator

    async def answer(self, request: ChangeRequest, refusal: str) -> None:
        raise NotImplementedError

    async def report(self, status: JobStatus) -> None:
        self.used += 1
        raise RuntimeError("report")

    async def finish(self, status: JobStatus, summary: Mapping[str, Any]) -> None:
        return


class BrokenPlatform(FakePlatform):
    def __init__(self) -> None:
        super().__init__()
        self.channel = BrokenChannel()
        self.measured = 0

    def control_channel(self) -> ControlChannel:
        return self.channel

    async def usage(self) -> AsyncIterator[Sequence[Measured]]:
        self.measured += 1
        raise RuntimeError("usage")
        yield ()


class _BrokenWatcher(NodeWatcher):
    async def list(self) -> list[NodeEvent]:
        return []

    async def watch(self) -> AsyncIterator[NodeEvent]:
        await asyncio.sleep(0.2)
        raise RuntimeError("the nodes cannot be followed")
        yield


class BlindPlatform(FakePlatform):
    def open(self, context: JobContext) -> tuple[Scaler, NodeWatcher]:
        return super().open(context)[0], _BrokenWatcher()


def test_a_job_goes_on_without_reports_measurements_and_requests_of_its_platform(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    platform = BrokenPlatform()
    with RunningMaster(tmp_path, SPEC, platform=platform) as master:
        wait_until(lambda: platform.channel.used == 2 and platform.measured, what="their failure")
        wait_until(lambda: len([r for r in caplog.records if "continues without it" in r.message]) == 3, what="the log")
        for _ in range(3):  # ticks come and go
            assert master.run_inside(lambda controller: controller.status().phase) == "Running"
        wait_until(lambda: "worker-0" in platform.running(), what="its worker")


def test_a_master_that_cannot_follow_its_nodes_ends(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, SPEC, platform=BlindPlatform()) as master:
        wait_until(lambda: not master.alive, what="its end")
        assert "cannot be followed" in str(master.failure)
