from __future__ import annotations

import time

import pytest
from tests.brain.store.reporting import node, report
from tests.cli.commands.brain.conftest import BrainCommands

from pliant.brain.store.reports import write_reports

pytestmark = pytest.mark.databases


def test_limits_are_changed_one_by_one_and_shown_with_their_use(brain: BrainCommands) -> None:
    write_reports(brain.database, [report(nodes=(node("worker-0"), node("worker-1")))], time.time())
    [unknown] = brain.json("quota")
    assert (unknown["name"], unknown["exists"], unknown["used"]["cpu"]) == ("vision", False, 4.0)
    assert "does not exist: no limit" in brain("quota").stdout
    assert brain("quota", "set", "vision", "--cpu", "64", "--memory", "256Gi").stdout == (
        "quota vision: 64 CPU, 256Gi of memory\n"
    )
    brain("quota", "set", "vision", "--gpu", "8", "--nodes", "12")
    brain("quota", "set", "vision", "--cpu", "none")
    [row] = brain.json("quota")
    assert (row["exists"], row["jobs"]) == (True, 1)
    assert row["limit"] == {"cpu": None, "memory_mb": 256 * 1024.0, "gpu": 8, "nodes": 12}
    assert row["used"] == {"cpu": 4.0, "memory_mb": 4096.0, "gpu": 2, "nodes": 2}
    assert "4Gi of 256Gi" in brain("quota").stdout


def test_a_quota_is_removed_once(brain: BrainCommands) -> None:
    assert brain.json("quota", "set", "vision", "--cpu", "500m")["cpu"] == 0.5
    assert brain.json("quota", "remove", "vision") == {"removed": "vision"}
    assert brain("quota", "remove", "vision").exit_code == 2
    assert brain.json("quota") == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--memory", "64 GB"), "2Gi"),
        (("--gpu", "-1"), "whole number"),
        (("--nodes", "1.5"), "whole number"),
        ((), "no limit is given"),
    ],
)
def test_amounts_that_make_no_sense_are_refused(brain: BrainCommands, args: tuple[str, ...], said: str) -> None:
    result = brain("quota", "set", "vision", *args)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output
    assert brain.json("quota") == []
