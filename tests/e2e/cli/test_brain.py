"""A Brain and a job on this machine: both sides say who plans, and the database stays readable without the Brain."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from tests.cli.command_line import CommandLine

from pliant.testing.waiting import wait_until

pytestmark = pytest.mark.e2e
PATIENCE = 120  # seconds


def test_a_job_says_that_the_brain_leads_and_the_brain_what_it_knows_of_the_job(command_line: CommandLine) -> None:
    def shown(*args: str) -> Any:
        result = command_line(*args, "--json")
        return json.loads(result.stdout) if result.exit_code == 0 else None

    program, gate = command_line.program(), command_line.folder / "gate"
    brain = command_line.start("brain", "serve")
    wait_until((command_line.home / "brain/brain.json").exists, PATIENCE, "the Brain")
    job = command_line.start(
        *("run", "--auto", "--brain", "local", "--name", "digits", "-n", "2"),
        *("--", sys.executable, str(program), str(gate)),
    )
    led = wait_until(
        lambda: (found := shown("status", "digits")) and found.get("planner", {}).get("brain") == "leads" and found,
        PATIENCE,
        "a status that says that the Brain leads",
    )
    assert led["optimize"] == "cluster"
    for command in ("plans", "explain"):
        found = shown(command, "digits")
        assert (found["optimize"], found["planner"]["brain"]) == ("cluster", "leads")
        assert "planned by the Brain" in command_line(command, "digits").stdout
    [listed] = wait_until(lambda: shown("brain", "jobs"), PATIENCE, "the job's first report")
    assert (listed["namespace"], listed["name"], listed["mode"]) == ("local", "digits", "cluster")
    gate.touch()
    assert job.wait(PATIENCE) == 0
    brain.terminate()
    assert brain.wait(PATIENCE) == 0
    assert shown("brain", "jobs") == []
    ended = shown("brain", "show", "digits")
    assert (ended["phase"], ended["records"]) == ("Succeeded", 400)
    assert "resources: planned by the Brain (cluster)" in command_line("status", "digits").stdout
