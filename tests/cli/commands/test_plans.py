"""``pliant plans`` and ``pliant explain`` of a job without a master."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.cli.command_line import CommandLine
from tests.core.planning.records import NOW, RECORDS

from pliant.core.job import Phase
from pliant.core.planning.planner_state import PlannerState
from pliant.core.status import JobStatus, PlannerStatus
from pliant.core.summary import JobSummary


@pytest.fixture
def ended(command_line: CommandLine) -> CommandLine:
    """With the job ``digits``, which planned its own resources, and ``plain``, which did not."""
    planner = PlannerStatus(PlannerState.OBSERVING)
    for name, status, plans in (
        ("digits", JobStatus("digits", Phase.SUCCEEDED, "done", started_at=NOW, planner=planner), RECORDS),
        ("plain", JobStatus("plain", Phase.SUCCEEDED, "done", started_at=NOW), ()),
    ):
        folder = command_line.job(name)
        folder.mkdir(parents=True, mode=0o700)
        (folder / "job.yaml").write_text(f"name: {name}\nroles: {{worker: {{command: ['true']}}}}\n")
        (folder / "summary.json").write_text(json.dumps(JobSummary(status, plans=plans).to_json()))
    return command_line


def test_the_plans_of_an_ended_job_are_read_from_its_summary(ended: CommandLine) -> None:
    shown = ended("plans", "digits")
    assert shown.exit_code == 0, shown.output
    assert "the job has ended (Succeeded: done)" in shown.output
    assert all(record.id in shown.output for record in RECORDS)
    value = json.loads(ended("plans", "digits", "--json").stdout)
    assert [plan["id"] for plan in value["plans"]] == [record.id for record in RECORDS]
    assert (value["optimize"], value["name"]) == ("single-job", "digits")


def test_the_explanation_of_an_ended_job_is_a_sentence_and_its_last_plans(ended: CommandLine) -> None:
    shown = ended("explain", "digits").output
    assert "the job has ended (Succeeded: done)" in shown
    assert "last plans" in shown
    assert json.loads(ended("explain", "digits", "--json").stdout)["explanation"] is None


def test_of_a_job_that_planned_nothing_it_is_said_how_to_switch_that_on(ended: CommandLine) -> None:
    for command in ("plans", "explain"):
        shown = ended(command, "plain")
        assert shown.exit_code == 0
        assert "nothing is planned (optimize: manual)" in shown.output
    assert json.loads(ended("plans", "plain", "--json").stdout)["optimize"] == "manual"


@pytest.mark.parametrize("command", ["plans", "explain"])
def test_a_job_that_does_not_exist_is_not_found(command_line: CommandLine, command: str) -> None:
    result = command_line(command, "nothing")
    assert result.exit_code == 2
    assert "not found" in result.output


def test_without_numpy_a_job_that_plans_is_not_started(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pliant.launch.job_spec.find_spec", lambda name: None if name == "numpy" else find_spec(name))
    result = command_line("run", "--auto", "--name", "a", "--", "true")
    assert result.exit_code == 2
    assert "numpy" in result.output
    assert "pip install 'pliant[auto]'" in result.output
    assert not command_line.home.exists()
