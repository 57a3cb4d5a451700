from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command_line import CommandLine

from pliant.cli.commands import run as run_module
from pliant.core.job import Phase
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.launch.job_folder import PreparedJob
from pliant.platforms.gpus import Gpu
from pliant.spec import JobSpec, load_spec


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
        (["--platform", "moon", "--", "true"], "unknown platform 'moon'"),
        (["--env", "=X", "--", "true"], "neither NAME=VALUE nor NAME"),
        (["--env", "NOT_SET_HERE", "--", "true"], "--env NOT_SET_HERE: the variable is not set here"),
        (["--checkpoint-every", "soon", "--", "true"], "for example: 90s, 10m, 1h30m, or 100steps"),
        (["--checkpoint-on-failure", "cry", "--", "true"], "allowed: warn, fail"),
        (["--nnodes", "x", "--", "true"], "--nnodes"),
        (["--workers", "2", "--nnodes", "2", "--", "true"], "mutually exclusive"),
        (["--summary", "/proc/s.json", "--", "true"], "--summary /proc/s.json cannot be written: /proc: "),
        (["--summary", "/proc", "--", "true"], "--summary /proc is a directory"),
        (["missing.yaml"], "cannot be read"),
        (["missing.py"], "file missing.py not found"),
        (["--", "python", "missing.py"], "file missing.py not found"),
        (["--", "nosuchprogram"], "program 'nosuchprogram' not found"),
        (["--", "./nosuchprogram"], "program './nosuchprogram' not found"),
        ([], "no program is given"),
        (["--resume"], "give its --name or --job-dir"),
        (["--detach", "--summary", "s.json", "--", "true"], "--summary is written by a command that follows"),
        (["--bogus", "--", "true"], "--bogus"),
        (["--resume", "--name", "x", "--", "true"], "to resume"),
        (["--gpu", "100", "--", "true"], "each worker node requests 100 GPUs; this machine has "),
        (["--gpus", "-1", "--", "true"], "--gpu"),
    ],
)
def test_a_mistake_is_told_in_one_message_and_leaves_no_job_behind(
    command_line: CommandLine, args: list[str], told: str
) -> None:
    result = command_line("run", *args)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert not command_line.home.exists()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            ["-n", "1", "--gpu", "3"],
            "each worker node requests 3 GPUs; this machine has 2",
        ),
        (["-n", "3", "--gpu", "1"], "the job needs at least 3 GPUs (3 worker nodes with 1 each); this machine has 2"),
        (["-n", "1:2", "--gpu", "1"], ""),
        (["-n", "1:8", "--gpu", "2"], ""),
    ],
)
def test_gpus_that_can_never_be_had_are_refused_before_the_job_exists(
    command_line: CommandLine, launched: list[JobSpec], monkeypatch: pytest.MonkeyPatch, asked: list[str], told: str
) -> None:
    monkeypatch.setattr("pliant.platforms.gpus.usable_gpus", lambda: (Gpu("0"), Gpu("1")))
    result = command_line("run", *asked, "--", "true")
    if told:
        assert (result.exit_code, launched) == (2, [])
        assert told in " ".join(result.stderr.split())
        assert not command_line.home.exists()
    else:
        assert result.exit_code == 0
        assert launched[0].roles["worker"].resources.gpu == int(asked[-1])


def test_a_broken_file_is_named_with_its_place(command_line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("roles:\n  worker:\n    comand: [true]\n")
    result = command_line("run", str(file))
    assert result.exit_code == 2
    assert "roles.worker.comand" in result.stderr
    assert not command_line.home.exists()


def test_a_job_file_takes_no_arguments_of_a_program(command_line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("roles: {worker: {command: ['true']}}\n")
    result = command_line("run", str(file), "--", "--epochs", "3")
    assert result.exit_code == 2
    assert "takes no arguments" in result.stderr


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[JobSpec]:
    """What would have been launched."""
    seen: list[JobSpec] = []

    def launch(job: PreparedJob, *_: Any, **__: Any) -> JobSummary:
        seen.append(load_spec(job.home.spec))
        return JobSummary(JobStatus("launched", Phase.SUCCEEDED))

    monkeypatch.setattr(run_module, "start", launch)
    return seen


def test_what_follows_the_dashes_reaches_the_program_untouched(
    command_line: CommandLine, launched: list[JobSpec]
) -> None:
    result = command_line("run", "-n", "2", "--", "echo", "--workers", "7", "-n", "--json", "--", "x")
    assert result.exit_code == 0
    worker = launched[0].roles["worker"]
    assert list(worker.command) == ["echo", "--workers", "7", "-n", "--json", "--", "x"]
    assert worker.replicas.max == 2


def test_what_follows_a_python_file_is_its_own_even_without_dashes(
    command_line: CommandLine, launched: list[JobSpec]
) -> None:
    program = command_line.program("")
    assert command_line("run", "-n", "2", str(program), "--epochs", "3", "-n", "5").exit_code == 0
    worker = launched[0].roles["worker"]
    assert list(worker.command) == ["python", str(program), "--epochs", "3", "-n", "5"]
    assert worker.replicas.max == 2


def test_options_after_a_job_file_are_those_of_run(
    command_line: CommandLine, launched: list[JobSpec], tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: filed\nroles: {worker: {command: ['true'], replicas: 3}}\n")
    assert command_line("run", str(file), "--workers", "2", "--max-restarts", "0").exit_code == 0
    assert launched[0].name == "filed"
    assert launched[0].roles["worker"].replicas.max == 2
    assert launched[0].fault.error.limit == 0


def test_a_job_that_ended_is_only_replaced_when_asked(command_line: CommandLine, launched: list[JobSpec]) -> None:
    assert command_line("run", "--name", "a", "--", "true").exit_code == 0
    (command_line.job("a") / "summary.json").write_text("{}")
    refused = command_line("run", "--name", "a", "--", "true")
    assert refused.exit_code == 2
    assert "--overwrite" in refused.stderr
    assert command_line("run", "--name", "a", "--overwrite", "--", "true").exit_code == 0


def test_options_of_run_reach_the_job(
    command_line: CommandLine, launched: list[JobSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(command_line.folder)
    options = ["--memory", "2Gi", "--cpu", "0.5", "--env", "A=1", "-e", "B=x=y", "--audit", "--tls"]
    assert command_line("run", *options, "--metrics-port", "9400", "--strategy", "local", "--", "true").exit_code == 0
    spec, worker = launched[0], launched[0].roles["worker"]
    assert (worker.resources.memory, worker.resources.cpu, worker.env) == (2048, 0.5, {"A": "1", "B": "x=y"})
    assert (spec.audit, spec.security.tls, spec.metrics_port, spec.strategy) == (True, True, 9400, "local")
    assert spec.working_dir == str(command_line.folder), "programs start where the job was started"


@pytest.mark.parametrize(
    ("options", "replicas"),
    [
        (["--nnodes", "3"], (3, 3)),
        (["--nproc-per-node", "4"], (4, 4)),
        (["--nnodes", "2:3", "--nproc-per-node", "4", "--standalone"], (8, 12)),
        (["--workers", "2:8"], (2, 8)),
    ],
)
def test_torchruns_options_say_how_many_workers_there_are(
    command_line: CommandLine, launched: list[JobSpec], options: list[str], replicas: tuple[int, int]
) -> None:
    assert command_line("run", *options, "--", "true").exit_code == 0
    found = launched[0].roles["worker"].replicas
    assert (found.min, found.max) == replicas


def test_logs_go_to_the_folder_that_is_named(command_line: CommandLine, launched: list[JobSpec]) -> None:
    folder = command_line.folder / "logs"
    assert command_line("run", "--name", "a", "--log-dir", str(folder), "--", "true").exit_code == 0
    (folder / "worker-0.log").write_text("hello\n")
    assert command_line("logs", "a").stdout == "worker-0 | hello\n"


@pytest.mark.parametrize(("tee", "shown"), [([], True), (["--tee", "0"], False), (["--tee", "3"], True)])
def test_the_output_of_workers_is_shown_unless_tee_is_0(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tee: list[str], shown: bool
) -> None:
    asked = []

    def launch(_job: PreparedJob, _options: Any, *, output: bool) -> JobSummary:
        asked.append(output)
        return JobSummary(JobStatus("launched", Phase.SUCCEEDED))

    monkeypatch.setattr(run_module, "start", launch)
    assert command_line("run", *tee, "--", "true").exit_code == 0
    assert asked == [shown]


def test_the_exit_code_and_the_summary_are_those_of_the_job(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = command_line.folder / "new" / "summary.json"
    for phase, code in ((Phase.SUCCEEDED, 0), (Phase.FAILED, 1), (Phase.STOPPED, 130)):
        summary = JobSummary(JobStatus("launched", phase, reason="why"))
        monkeypatch.setattr(run_module, "start", lambda *_, summary=summary, **__: summary)
        ended = command_line("run", "--json", "--summary", str(file), "--", "true")
        assert ended.exit_code == code
        assert json.loads(ended.stdout) == json.loads(file.read_text())
        assert json.loads(ended.stdout)["phase"] == phase
