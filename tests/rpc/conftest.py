from __future__ import annotations

from collections.abc import Iterator

import pytest

from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until

JOB = {
    "strategy": "allreduce",
    "roles": {"worker": {"command": ["true"], "replicas": "1:2"}},
    "datasets": [{"name": "train", "size": 100, "shard_size": 10}, {"name": "log", "stream": True, "shard_size": 10}],
}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningMaster]:
    """One with all its parts, for which time stands still; shared, so a test leaves it as good as it was."""
    with RunningMaster(tmp_path_factory.mktemp("master"), JOB, clock=ManualClock()) as running:
        nodes = ("worker-0", "worker-1")
        wait_until(lambda: running.platform.running() == list(nodes), what="the launch of two workers")
        for node in nodes:
            FakeAgent(running.client, node).starts()
        wait_until(lambda: not running.run_inside(lambda parts: parts.state.nodes and parts.state.nodes.due(1e18)))
        yield running
