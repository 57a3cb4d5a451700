"""Errors that a restart would only repeat end the job at once: one traceback, and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pliant.core.events import EventKind
from pliant.testing.jobs import LocalJob

pytestmark = pytest.mark.e2e

MISSING = "print('hello')\nimport nothing_like_this\n"
ARGUMENTS = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()\n"


def failed_at_once(job: LocalJob) -> str:
    assert job.wait() == 1
    summary, shown = job.summary(), job.output()
    assert (summary["phase"], summary["restarts"], summary["replacements"]) == ("Failed", 0, 0)
    assert not job.events(EventKind.RESTART)
    assert "not restarted, it would fail the same way" in summary["reason"]
    assert f"what to do: {summary['first_failure']['hint']}" in shown
    return shown


def test_a_missing_module_of_all_workers_is_shown_once_with_the_command_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MISSING)
    with LocalJob(tmp_path, ["python", "train.py"], workers=3) as job:
        shown = failed_at_once(job)
    assert shown.count("Traceback (most recent call last)") == 1
    assert "-m pip install nothing_like_this" in shown


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["python", "train.py"], "the following arguments are required: --data"),
        (["sh", "-c", "python trian.py"], "can't open file"),
        (["nothing-like-this"], "the command 'nothing-like-this' was not found; looked in"),
    ],
    ids=["missing argument", "missing script", "missing command"],
)
def test_a_command_that_cannot_work_is_run_once(tmp_path: Path, command: list[str], said: str) -> None:
    (tmp_path / "train.py").write_text(ARGUMENTS)
    role = {"env": {"PATH": os.environ["PATH"]}}  # of the job's own: then the launcher cannot look for the command
    with LocalJob(tmp_path, command, role=role) as job:
        shown = failed_at_once(job)
    assert said in shown
