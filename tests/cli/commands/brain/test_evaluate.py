"""``pliant brain evaluate`` replays what was recorded, and shows how an algorithm fails."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.brain.executor.bad_algorithms import named
from tests.brain.store.reporting import identity, report
from tests.cli.commands.brain.conftest import BrainCommands
from tests.core.planning.recorded_jobs import KNEE, Doubles, recorded

from pliant.brain.store.database import Database
from pliant.brain.store.reports import write_reports
from pliant.core.planning.cluster.report import NumberedPeriod
from pliant.core.planning.evaluation import evaluate

pytestmark = pytest.mark.databases

DOUBLES = "tests.core.planning.recorded_jobs:Doubles"
JOBS = [recorded("team/up", KNEE, [1, 2, 4, 8]), recorded("team/down", KNEE, [32, 16])]


def fill(database: Database) -> None:
    """Two jobs that were measured, and one that was not."""
    for job in JOBS:
        name = job.name.partition("/")[2]
        periods = tuple(NumberedPeriod(number, each) for number, each in enumerate(job.history.periods, 1))
        sent = report(job=identity(name), history=replace(job.history, periods=()), periods=periods)
        write_reports(database, [sent], time.time())
    write_reports(database, [report(job=identity("silent"))], time.time())


@pytest.mark.parametrize("how", ["--in-process", "--algorithm-timeout=240"])
def test_recorded_jobs_are_judged_as_they_were_measured(brain: BrainCommands, how: str) -> None:
    fill(brain.database)
    found = brain.json("evaluate", "--algorithm", DOUBLES, how)
    assert found["evaluation"] == {**json.loads(json.dumps(evaluate(Doubles(), JOBS).to_json())), "algorithm": DOUBLES}
    assert found["evaluation"]["compared"] == 3
    assert (found["skipped"], found["failed_runs"]) == (1, [])


def test_the_table_has_a_row_per_job_and_a_summary(brain: BrainCommands) -> None:
    fill(brain.database)
    shown = brain("evaluate", "--algorithm", DOUBLES, "--in-process", "--jobs", "team/u*").stdout
    assert "team/up" in shown
    assert "team/down" not in shown
    assert "1 job, asked 4 times: 4 proposals; 3 compared with what was measured: median error 0 %" in shown
    left_out = brain("evaluate", "--algorithm", DOUBLES, "--in-process").stdout
    assert "left out: 1 job of which no period was measured" in left_out


@pytest.mark.parametrize("how", ["--in-process", "--algorithm-timeout=240"])
def test_how_an_algorithm_fails_is_shown_with_its_traceback(brain: BrainCommands, how: str) -> None:
    fill(brain.database)
    result = brain("evaluate", "--algorithm", named("Raises"), how)
    assert result.exit_code == 1
    assert "failed: raised (job team/up, period 0)" in result.stdout
    assert "Traceback (most recent call last)" in result.stdout
    assert 'bad_algorithms.py", line' in result.stdout
    assert "executor/child.py" not in result.stdout, "only the algorithm's own frames"
    found = json.loads(brain("evaluate", "--algorithm", named("Raises"), how, "--json").stdout)
    assert [each["result"] for each in found["failed_runs"]] == ["raised"]


def test_a_module_of_this_folder_is_found(
    brain: BrainCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(brain.database)
    text = "class Content:\n    name = 'content'\n    def __call__(self, history, now):\n        return None\n"
    (tmp_path / "content_algorithm.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    found = brain.json("evaluate", "--algorithm", "content_algorithm:Content", "--algorithm-timeout", "240")
    assert (found["evaluation"]["asked"], found["evaluation"]["proposals"]) == (6, 0)


def test_an_unknown_algorithm_and_a_pattern_that_nothing_matches_are_usage_errors(brain: BrainCommands) -> None:
    fill(brain.database)
    unknown = brain("evaluate", "--algorithm", "best")
    assert (unknown.exit_code, "plan_job" in unknown.stderr) == (2, True)
    nothing = brain("evaluate", "--algorithm", "plan_job", "--jobs", "audio-*")
    assert (nothing.exit_code, "--jobs" in nothing.stderr) == (2, True)
    silent = brain("evaluate", "--algorithm", "plan_job", "--jobs", "silent")
    assert (silent.exit_code, "1 were recorded" in silent.stderr) == (2, True)
