from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command_line import CommandLine

from pliant.cli.commands.train import choose_strategy, fitting_parts, open_workers
from pliant.cli.options.native import ServerOptions, WorkerOptions
from pliant.native.model_file.description import Description
from pliant.native.zoo import models
from pliant.spec import JobSpec


def test_a_model_of_the_zoo_is_listed_and_started_once(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = command_line("zoo", "list")
    assert [line.split()[0] for line in listed.output.splitlines()] == sorted(models())
    assert [row["name"] for row in json.loads(command_line("zoo", "list", "--json").stdout)] == sorted(models())
    monkeypatch.chdir(tmp_path)
    assert command_line("zoo", "init", "my_model.py").exit_code == 0
    assert (tmp_path / "my_model.py").read_text() == models()["blank"].read_text()
    assert command_line("zoo", "init", "deepfm", "new/folder/net.py").exit_code == 0
    assert (tmp_path / "new/folder/net.py").read_text() == models()["deepfm"].read_text()
    for args, told in (
        (["my_model.py"], "my_model.py already exists"),
        (["deepfn"], "model 'deepfn' not found in the zoo"),
        (["blank", "my_model.py/net.py"], "my_model.py/net.py cannot be written"),
    ):
        result = command_line("zoo", "init", *args)
        assert result.exit_code == 2
        assert told in result.output
    assert command_line("zoo", "init", "my_model.py", "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (WorkerOptions(), (1, 1)),
        (WorkerOptions(workers="4"), (4, 4)),
        (WorkerOptions(workers="1:4"), (1, 4)),
        (WorkerOptions(max_workers=4), (1, 4)),
        (WorkerOptions(max_workers=4, min_workers=2), (2, 4)),
    ],
)
def test_the_number_of_workers_is_given_as_for_run(options: WorkerOptions, expected: tuple[int, int]) -> None:
    assert options.range() == expected


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--strategy", "magic"], "allowed: local, allreduce, ps-sync, ps-async"),
        (["--strategy", "local", "--max-workers", "2"], "trains in one process"),
        (["--strategy", "local", "--num-ps", "1"], "has no parameter servers"),
        (["--max-ps", "2", "--strategy", "allreduce"], "--max-ps 2 with --strategy allreduce, which has no parameter"),
        (["--min-ps", "3", "--num_ps", "2"], "--min-ps 3 is more than --num-ps 2"),
        (["--min-ps", "3", "--max_ps", "2"], "--min-ps 3 is more than --max-ps 2"),
        (["--num-ps", "3", "--max-ps", "2"], "--num-ps 3 is more than --max-ps 2"),
        (["--num_epoch", "0"], "greater than or equal to 1"),
        (["--batch_size", "0"], "greater than or equal to 1"),
        (["--min-workers", "3", "--max-workers", "2"], "is more than --max-workers"),
        (["-n", "2", "--max-workers", "2"], "cannot be combined with --min-workers or --max-workers"),
        (["-n", "3:2"], "--workers '3:2' is neither N nor MIN:MAX"),
        (["-n", "few"], "--workers 'few' is neither N nor MIN:MAX"),
        (["--strategy", "allreduce", "--max-workers", "2", "--batch-size", "1"], "is too small for 2 parts"),
        (["--eval-every-steps", "5"], "need evaluation data"),
        (["--best-mode", "middle"], "--best-mode"),
        (["--model-params", "width"], "is not name=value"),
        (["--ps-options", "max_staleness=2"], "--ps-options with --strategy local, which has no parameter servers"),
        (["--data-options", "delimiter=5"], "--data cannot be opened with --data-options delimiter=5: "),
        (["--model-class", ""], "pass a class with --model-class; classes in it: Net"),
        (["--model", "."], "--model . is a directory"),
        (["--summary", "/proc/s.json"], "--summary /proc/s.json cannot be written: /proc: "),
        (["--output", "/proc/out"], "--output /proc/out cannot be written: /proc: "),
        (["--model-class", "Nut"], "class Nut not found; classes in it: Net"),
        (["--data", "nothing*.csv"], "no file found at"),
        (["--trained", "nowhere"], "no trained model in"),
        (["--output", "net.py"], "is not a directory"),
        (["--output", "s3://bucket/out"], "--output s3://bucket/out is a URL"),
    ],
)
def test_a_mistake_in_training_is_told_in_one_message_and_leaves_no_job_behind(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(models()["blank"].read_text())
    (tmp_path / "train.csv").write_text("x0,x1,label\n0.5,0.5,1\n")
    given = ["--model", "net.py", "--model-class", "Net"] + ([] if "--data" in args else ["--data", "train.csv"])
    result = command_line("train", *given, *args)
    assert result.exit_code == 2, result.output
    assert told in result.output
    assert not command_line.home.exists()


@pytest.mark.parametrize(
    ("given", "replicas"),
    [
        ({}, (1, 1, 8)),
        ({"num_ps": 2}, (1, 2, 8)),
        ({"num_ps": 5}, (1, 5, 20)),
        ({"max_ps": 3}, (1, 1, 3)),
        ({"min_ps": 2, "max_ps": 2}, (2, 2, 2)),
    ],
)
def test_a_job_starts_with_the_servers_asked_for_and_may_be_scaled(
    given: dict[str, Any], replicas: tuple[int, int, int]
) -> None:
    made = ServerOptions(**given).replicas()
    assert (made["min"], made["wanted"], made["max"]) == replicas


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (WorkerOptions(), (1, 16)),
        (WorkerOptions(workers="4"), (1, 4)),
        (WorkerOptions(workers="2:4"), (2, 4)),
        (WorkerOptions(max_workers=4), (1, 4)),
        (WorkerOptions(max_workers=4, min_workers=2), (2, 4)),
        (WorkerOptions(min_workers=20), (20, 20)),
    ],
)
def test_numbers_of_workers_are_bounds_for_a_job_that_plans(options: WorkerOptions, expected: tuple[int, int]) -> None:
    assert options.bounds(16) == expected


@pytest.mark.parametrize(
    ("strategy", "batch", "parts", "workers"),
    [
        (None, 32, None, 16),
        (None, 10, None, 10),
        (None, 97, None, 1),
        (None, 64, 8, 8),
        ("local", 32, None, 1),
        ("ps-async", 7, None, 16),
    ],
)
def test_a_job_that_plans_may_have_as_many_workers_as_can_share_a_batch(
    strategy: str | None, batch: int, parts: int | None, workers: int
) -> None:
    assert open_workers(strategy, batch, parts) == workers


def test_with_auto_all_that_is_given_bounds_the_plans(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr("pliant.cli.launch.native.run_native", lambda *_, **more: asked.append(more))
    given = ["--model", "net.py", "--data", "train.csv", "--auto"]
    options = ["--max-workers", "6", "--num-ps", "3", "--min-ps", "2", "--ps-memory", "1Gi", "--deadline", "2h"]
    assert command_line("train", *given, *options).exit_code == 0
    [made] = asked
    assert (made["workers"], made["strategy"]) == ((1, 6), "ps-async")
    changes = made["spec_changes"]
    assert changes["optimize"] == {"mode": "single-job", "deadline": "2h"}
    servers = changes["roles"]["ps"]
    assert (servers["replicas"], servers["max_resources"]) == ({"min": 2, "max": 3}, {"memory": "1Gi"})


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--auto", "--num-ps", "2", "--max-ps", "4"], "--num-ps and --max-ps are both maximums with --auto"),
        (["--auto", "--num-ps", "2", "--min-ps", "3"], "--min-ps 3 is more than --num-ps 2"),
        (["--deadline", "2h"], "--deadline requires --auto"),
    ],
)
def test_contradictions_of_a_job_that_plans_are_refused(command_line: CommandLine, args: list[str], told: str) -> None:
    result = command_line("train", "--model", "net.py", "--data", "train.csv", *args)
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.parametrize(
    ("given", "workers", "servers", "chosen"),
    [
        (None, 1, "", "local"),
        (None, 3, "", "allreduce"),
        (None, 1, "--num-ps 2", "ps-async"),
        (None, 3, "--num-ps 2", "ps-async"),
        ("ps-sync", 3, "", "ps-sync"),
    ],
)
def test_the_strategy_follows_from_the_numbers_of_workers_and_servers(
    given: str | None, workers: int, servers: str, chosen: str
) -> None:
    assert choose_strategy(given, workers, servers) == chosen


@pytest.mark.parametrize(("batch", "workers", "parts"), [(64, 4, 4), (60, 4, 4), (63, 4, 7), (64, 3, 4), (61, 4, 4)])
def test_a_batch_is_cut_into_as_many_parts_as_workers_or_a_few_more_if_that_divides_it(
    batch: int, workers: int, parts: int
) -> None:
    assert fitting_parts(batch, workers) == parts


@pytest.mark.parametrize(
    ("args", "saving"),
    [
        ([], {"every_steps": 0, "every_seconds": 30.0, "keep_last": 3}),
        (["--checkpoint-every-steps", "5"], {"every_steps": 5, "every_seconds": 0.0, "keep_last": 3}),
        (["--checkpoint_steps=5", "--checkpoint-every-seconds", "9"], {"every_steps": 5, "every_seconds": 9.0}),
    ],
)
def test_a_checkpoint_is_taken_every_30_seconds_unless_something_else_is_asked_for(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, args: list[str], saving: dict[str, float]
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "pliant.cli.launch.native.run_native", lambda *_, spec_changes, **__: asked.append(spec_changes)
    )
    command_line("train", "--model", "net.py", "--data", "train.csv", *args)
    assert asked[0]["checkpoint"].items() >= saving.items()


def test_options_have_the_names_of_the_original_launcher_too(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Description, dict[str, Any]]] = []
    monkeypatch.setattr("pliant.cli.launch.native.run_native", lambda about, *_, **more: asked.append((about, more)))
    words = [
        "--num_epoch=7",
        "--minibatch_size=12",
        "--num_workers=3",
        "--training_data=a.csv",
        "--validation_data=b.csv",
    ]
    words += ["--evaluation_steps=9", "--checkpoint_steps=8", "--distribution_strategy=allreduce", "--job_name=old"]
    told = command_line("train", "--model_def=net.py", *words)
    assert told.exit_code == 0, told.output
    ((about, more),) = asked
    assert (about.epochs, about.batch_size, about.data, about.eval_data) == (7, 12, ["a.csv"], ["b.csv"])
    assert (about.evaluation.every_steps, about.strategy, more["workers"]) == (9, "allreduce", (1, 3))
    assert more["spec_changes"]["checkpoint"]["every_steps"] == 8


def test_options_of_parameter_servers_are_those_of_the_section_parameters(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "pliant.cli.launch.native.run_native", lambda *_, spec_changes, **__: asked.append(spec_changes)
    )
    options = [
        "--num-ps",
        "2",
        "--batch-size",
        "256",
        "--max-steps",
        "9",
        "--ps-options",
        "max_staleness=8,dump_seconds=5",
    ]
    assert command_line("train", "--model", "net.py", "--data", "train.csv", *options).exit_code == 0
    worker = {"worker": {"command": ["x"]}}
    changes = {**asked[0], "roles": {**asked[0]["roles"], **worker}}
    spec = JobSpec.from_dict({"strategy": "ps-async", **changes})
    parameters = spec.parameters
    assert (parameters.batch_size, parameters.max_iterations) == (256, 9)
    assert (parameters.max_staleness, parameters.dump_seconds) == (8, 5)
    assert spec.roles["ps"].replicas.target == 2
