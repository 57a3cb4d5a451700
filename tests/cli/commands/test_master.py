from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.command_line import CommandLine

from pliant.cli.launch.standalone_master import prepare
from pliant.core.errors import Conflict, SpecError
from pliant.spec import load_spec

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
        (6, {**COMMAND, "components": {"need_training_service": True}}),
        (7, ALLREDUCE),
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
