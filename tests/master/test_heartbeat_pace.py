"""How often agents send heartbeats: every second in a small job, and less often the more nodes a job has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.master import controller
from pliant.testing import FakeAgent, RunningMaster, wait_until


def spec(nodes: int, timeout: float) -> dict[str, object]:
    return {
        "roles": {"worker": {"replicas": nodes, "command": ["true"]}},
        "fault": {"heartbeat_timeout": timeout},
    }


def test_agents_of_a_small_job_send_one_every_second(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, spec(2, 15.0)) as master:
        agent = FakeAgent(master.client, "worker-0")
        wait_until(lambda: "worker-0" in master.platform.nodes)
        agent.starts()
        assert agent.beats().heartbeat_seconds == 1.0


@pytest.mark.parametrize(("timeout", "seconds"), [(100.0, 4.0), (5.0, 2.0)], ids=["by number", "by the time-out"])
def test_many_agents_send_fewer_each_within_the_time_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout: float, seconds: float
) -> None:
    monkeypatch.setattr(controller, "MAX_HEARTBEATS_PER_S", 2)
    with RunningMaster(tmp_path, spec(8, timeout)) as master:
        wait_until(lambda: len(master.platform.nodes) == 8)
        agent = FakeAgent(master.client, "worker-0").starts()
        wait_until(lambda: agent.beats().heartbeat_seconds == seconds)
