from __future__ import annotations

import os
from pathlib import Path

from pliant.agent.limits import NodeLimits
from pliant.core.nodes.environment import LimitMode, NodeEnvironment
from pliant.core.resources import Resources
from pliant.files.atomic import write_json


def test_an_agent_takes_over_what_the_platform_wrote_down_while_its_program_runs(tmp_path: Path) -> None:
    """Without a cgroup it is the agent's watchdog that enforces it."""
    environment = NodeEnvironment(node="worker-0", node_dir=tmp_path, memory_mb=100, cpu=1.0, limits=LimitMode.OFF)
    limits = NodeLimits(environment)
    limits.apply()
    watchdog = limits.make_watchdog(os.getpid())
    assert watchdog is not None
    assert limits.memory_limit_mb() == watchdog.limit_mb == 100
    write_json(tmp_path / "agent.json", {"pid": 1, "resources": Resources(2.0, 1).to_json()})
    limits.refresh()
    assert (limits.resources, limits.memory_limit_mb()) == (Resources(2.0, 1), 1)
    watchdog.limit_mb = limits.resources.memory_mb
    assert "the node's limit is 1 MB" in (watchdog.check() or "")
