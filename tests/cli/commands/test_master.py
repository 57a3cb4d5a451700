from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.command_line import CommandLine

from pliant.cli.commands import master as master_command
from pliant.cli.launch.standalone_master import prepare
from pliant.core.errors import Conflict, InvalidRequest, SpecError
from pliant.core.job import Phase
from pliant.files.locks import FileLock
from pliant.master.job_dir import JobDir
from pliant.spec import JobSpec, load_spec

ALONE = {"components": {"need_pod_manager": False}}
COMMAND = {"worker_command": ["true"]}
ALLREDUCE = {**COMMAND, "strategy": "allreduce"}
WITHOUT_SHARDS = {"components": {"need_task_manager": False, "need_training_service": False}}
WITHOUT_TRAINING = {"components": {"need_training_service": False}}


@pytest.mark.parametrize(
    ("case", "given"),
    [
        (1, ALONE),
        (2, {**COMMAND, "components": {"need_task_manager": False}}),
        (3, {**ALLREDUCE, **WITHOUT_SHARDS}),
        (4, COMMAND),
        (5, {**ALLREDUCE, **WITHOUT_TRAINING}),
        (6, {**COMMAND, "strategy": "ps-sync"}),
        (6, {**COMMAND, "strategy": "ps-async", "servers": "2"}),
        (7, ALLREDUCE),
        (7, {**COMMAND, "strategy": "local"}),
    ],
)
def test_each_of_the_seven_combinations_follows_from_the_flags(
    tmp_path: Path, case: int, given: dict[str, Any]
) -> None:
    home = prepare("m", tmp_path / "m", None, given)
    assert load_spec(home.spec).components().case == case


def test_a_second_start_goes_on_with_the_same_options_or_none(tmp_path: Path) -> None:
    first = prepare("m", tmp_path / "m", None, {**COMMAND, "workers": "2:3"})
    assert prepare(None, tmp_path / "m", None, {}) == first
    assert prepare("m", tmp_path / "m", None, {**COMMAND, "workers": "2:3"}) == first


def test_a_second_start_with_other_options_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    home = prepare("m", tmp_path / "m", None, COMMAND)
    before = home.spec.read_text()
    with pytest.raises(Conflict, match="other options"):
        prepare("m", tmp_path / "m", None, {**COMMAND, "workers": "5"})
    assert home.spec.read_text() == before


def test_flags_change_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: filed\nroles: {worker: {command: ['true'], replicas: 2}}\n")
    home = prepare(None, tmp_path / "m", file, {"workers": "4"})
    spec = load_spec(home.spec)
    assert spec.name == "filed"
    assert spec.roles["worker"].replicas.max == 4


def test_a_master_with_nodes_and_no_command_is_refused_and_leaves_nothing(command_line: CommandLine) -> None:
    result = command_line("master", "--name", "m")
    assert result.exit_code == 2
    assert "needs a command" in result.stderr
    assert not command_line.home.exists()


def test_contradicting_flags_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="nothing would run"):
        prepare("m", tmp_path / "m", None, {"components": {"need_pod_manager": False, "need_task_manager": False}})


@pytest.mark.parametrize("command", ["", "python 'unclosed"])
def test_a_worker_command_that_is_none_is_refused(command_line: CommandLine, command: str) -> None:
    result = command_line("master", "--worker-command", command)
    assert result.exit_code == 2
    assert "--worker-command" in result.stderr


@pytest.fixture
def started(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs ``pliant master`` with flags up to where it would serve, and returns the spec that it would serve."""
    served: list[JobSpec] = []

    def serve(home: JobDir, host: str, port: int, lock: FileLock, *, brain_dir: Path | None, as_json: bool) -> Phase:
        served.append(load_spec(home.spec))
        return Phase.SUCCEEDED

    monkeypatch.setattr(master_command, "serve", serve)

    def start(*flags: str) -> JobSpec:
        result = command_line("master", "--name", "m", *flags)
        assert result.exit_code == 0, result.stderr
        return served.pop()

    return start


PS_COMMAND = ("python", "-P", "-m", "pliant.ps")


@pytest.mark.parametrize(
    ("flags", "strategy", "servers"),
    [
        (["--need-training-service"], "ps-async", 1),
        (["--need-training-service", "--num-ps", "2"], "ps-async", 2),
        (["--distribution-strategy", "ps-sync"], "ps-sync", 1),
        (["--distribution-strategy", "ps-sync", "--num-ps", "3"], "ps-sync", 3),
        (["--distribution-strategy", "ParameterServerStrategy", "--num-ps", "1:4"], "ps-async", 4),
    ],
)
def test_native_training_with_parameter_servers_has_servers_and_a_coordinator(
    started: Any, flags: list[str], strategy: str, servers: int
) -> None:
    spec = started("--worker-command", "true", *flags)
    assert spec.strategy == strategy
    assert (spec.components().case, spec.components().parameters) == (6, True)
    assert (spec.roles["ps"].command, spec.roles["ps"].replicas.target) == (PS_COMMAND, servers)


def test_servers_of_another_framework_run_their_own_command(started: Any) -> None:
    flags = ["--worker-command", "true", "--num-workers", "2", "--no-need-task-manager"]
    spec = started(*flags, "--num-ps", "2", "--ps-command", "sleep 60")
    assert (spec.components().case, spec.components().parameters) == (2, False)
    assert {name: (role.command, role.replicas.max) for name, role in spec.roles.items()} == {
        "worker": (("true",), 2),
        "ps": (("sleep", "60"), 2),
    }


def test_a_sharding_service_keeps_serving_if_asked_to(started: Any) -> None:
    assert started("--no-need-pod-manager", "--keep-serving").components().keeps_serving


def test_servers_without_a_program_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="--num-ps needs a parameter server program"):
        prepare("m", tmp_path / "m", None, {**COMMAND, "servers": "2"})
    without_shards = {"components": {"need_task_manager": False}}
    with pytest.raises(SpecError, match=r"roles\.ps\.command: the program of another framework's servers"):
        prepare("m", tmp_path / "m", None, {**COMMAND, **without_shards, "strategy": "ps-sync"})
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("optimize: cluster", "no Brain was ever started here"),
        ("platform: slurm", "unknown platform 'slurm'"),
        ("roles: {worker: {command: nosuchprogram}}", "program 'nosuchprogram' not found"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_created(
    command_line: CommandLine, tmp_path: Path, line: str, told: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(line if line.startswith("roles") else f"{line}\nroles: {{worker: {{command: 'true'}}}}\n")
    result = command_line("master", "--name", "m", "--spec", str(file))
    assert result.exit_code == 2
    assert told in result.stderr
    assert not command_line.home.exists()
