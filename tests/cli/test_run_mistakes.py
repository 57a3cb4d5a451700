from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.cli import run as run_module
from pliant.master.job_dir import JobDir
from pliant.spec import JobSpec, load_spec

from .conftest import Cli


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--workers", "0", "--", "true"], "roles.worker.replicas"),
        (["--workers", "4:2", "--", "true"], "at most max, which is 2"),
        (["--workers", "x", "--", "true"], "a range such as 2:8"),
        (["--memory", "lots", "--", "true"], "512Mi"),
        (["--cpu", "-1", "--", "true"], "roles.worker.resources.cpu"),
        (["--name", "Bad Name", "--", "true"], "all lower case"),
        (["--strategy", "magic", "--", "true"], "one of none"),
        (["--platform", "moon", "--", "true"], "no platform 'moon'"),
        (["--env", "X", "--", "true"], "NAME=VALUE"),
        (["--nnodes", "x", "--", "true"], "--nnodes"),
        (["--workers", "2", "--nnodes", "2", "--", "true"], "give one"),
        (["--summary", "/proc/s.json", "--", "true"], "--summary /proc/s.json cannot be written: /proc: "),
        (["--summary", "/proc", "--", "true"], "--summary /proc is a directory"),
        (["missing.yaml"], "cannot be read"),
        (["missing.py"], "no file missing.py"),
        (["--", "python", "missing.py"], "no file missing.py"),
        (["--", "nosuchprogram"], "no program 'nosuchprogram'"),
        (["--", "./nosuchprogram"], "no program './nosuchprogram'"),
        ([], "Missing argument"),
        (["--bogus", "--", "true"], "--bogus"),
        (["--resume", "--name", "x", "--", "true"], "to resume"),
    ],
)
def test_a_mistake_is_told_in_one_message_and_leaves_no_job_behind(cli: Cli, args: list[str], told: str) -> None:
    result = cli("run", *args)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert not cli.home.exists()


def test_a_broken_file_is_named_with_its_place(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("roles:\n  worker:\n    comand: [true]\n")
    result = cli("run", str(file))
    assert result.exit_code == 2
    assert "roles.worker.comand" in result.stderr
    assert not cli.home.exists()


def test_a_job_file_takes_no_arguments_of_a_program(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("roles: {worker: {command: ['true']}}\n")
    result = cli("run", str(file), "--", "--epochs", "3")
    assert result.exit_code == 2
    assert "takes no arguments" in result.stderr


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[JobSpec]:
    """What would have been launched."""
    seen: list[JobSpec] = []

    def launch(home: JobDir, *_: Any, **__: Any) -> dict[str, Any]:
        seen.append(load_spec(home.spec))
        return {"exit_code": 0}

    monkeypatch.setattr(run_module, "launch", launch)
    return seen


def test_what_follows_the_dashes_reaches_the_program_untouched(cli: Cli, launched: list[JobSpec]) -> None:
    result = cli("run", "-n", "2", "--", "echo", "--workers", "7", "-n", "--json", "--", "x")
    assert result.exit_code == 0
    worker = launched[0].roles["worker"]
    assert list(worker.command) == ["echo", "--workers", "7", "-n", "--json", "--", "x"]
    assert worker.replicas.max == 2


def test_what_follows_a_python_file_is_its_own_even_without_dashes(cli: Cli, launched: list[JobSpec]) -> None:
    program = cli.program("")
    assert cli("run", "-n", "2", str(program), "--epochs", "3", "-n", "5").exit_code == 0
    worker = launched[0].roles["worker"]
    assert list(worker.command) == ["python", str(program), "--epochs", "3", "-n", "5"]
    assert worker.replicas.max == 2


def test_options_after_a_job_file_are_those_of_run(cli: Cli, launched: list[JobSpec], tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: filed\nroles: {worker: {command: ['true'], replicas: 3}}\n")
    assert cli("run", str(file), "--workers", "2", "--max-restarts", "0").exit_code == 0
    assert launched[0].name == "filed"
    assert launched[0].roles["worker"].replicas.max == 2
    assert launched[0].fault.error.limit == 0


def test_a_job_that_ended_is_only_replaced_when_asked(cli: Cli, launched: list[JobSpec]) -> None:
    assert cli("run", "--name", "a", "--", "true").exit_code == 0
    (cli.job("a") / "summary.json").write_text("{}")
    refused = cli("run", "--name", "a", "--", "true")
    assert refused.exit_code == 2
    assert "--overwrite" in refused.stderr
    assert cli("run", "--name", "a", "--overwrite", "--", "true").exit_code == 0
