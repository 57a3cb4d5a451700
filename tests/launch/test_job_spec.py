"""From options to the job's spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.cli.options.checkpoints import CheckpointOptions
from pliant.cli.options.planning import PlanningOptions
from pliant.core.errors import InvalidRequest
from pliant.launch.intervals import interval
from pliant.launch.job_spec import make_spec
from pliant.spec.sections import CheckpointSpec


def test_a_script_means_the_same_with_and_without_its_interpreter() -> None:
    short, long = (make_spec(command, "j", {"workers": 2}) for command in (["ddp.py"], ["python", "ddp.py"]))
    assert short == long
    assert short.components().rendezvous


@pytest.mark.parametrize(
    ("text", "steps", "seconds"),
    [
        ("10m", 0, 600),
        ("90s", 0, 90),
        ("1.5h", 0, 5400),
        ("1h30m", 0, 5400),
        ("2d", 0, 172_800),
        ("0.5s", 0, 0.5),
        ("100steps", 100, 0),
        ("100 steps", 100, 0),
        ("1step", 1, 0),
        (" 10M ", 0, 600),
    ],
)
def test_an_interval_is_a_time_or_a_number_of_steps(text: str, steps: int, seconds: float) -> None:
    assert interval(text) == {"every_steps": steps, "every_seconds": seconds}


@pytest.mark.parametrize(
    "text", ["", "10", "0m", "0steps", "-5m", "1.5steps", "m", "10 minutes", "5m100steps", "9" * 30 + "d"]
)
def test_what_is_no_interval_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidRequest, match="--checkpoint-every") as error:
        interval(text)
    assert "10m" in error.value.hint
    assert "100steps" in error.value.hint


def section(options: CheckpointOptions, **more: object) -> CheckpointSpec:
    return make_spec(["train.py"], "j", {**options.changes(), **more}).checkpoint


def test_options_of_checkpoints_set_the_section_of_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = section(CheckpointOptions("saved", "10m", "fail"))
    assert (made.dir, made.every_steps, made.every_seconds) == (str(tmp_path / "saved"), 0, 600.0)
    assert made.on_failure == "fail"
    assert section(CheckpointOptions("s3://bucket/j", "5steps")).dir == "s3://bucket/j"
    assert section(CheckpointOptions()) == CheckpointSpec()
    with pytest.raises(InvalidRequest, match="allowed: warn, fail"):
        CheckpointOptions(checkpoint_on_failure="panic").changes()


def test_an_interval_replaces_that_of_the_file_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "roles: {worker: {command: python train.py}}\n"
        "checkpoint: {dir: /there, every_steps: 500, keep_last: 7, on_failure: fail}\n"
    )
    made = make_spec([str(file)], "j", CheckpointOptions(checkpoint_every="10m").changes()).checkpoint
    assert (made.every_steps, made.every_seconds) == (0, 600.0)
    assert (made.dir, made.keep_last, made.on_failure) == ("/there", 7, "fail")


def test_on_kubernetes_a_relative_directory_is_of_the_claim_and_what_would_be_lost_is_refused() -> None:
    cluster = {"platform": "kubernetes"}
    assert section(CheckpointOptions("saved"), **cluster, claim="team").dir == "/pliant/shared/saved"
    assert section(CheckpointOptions("s3://bucket/j"), **cluster).dir == "s3://bucket/j"
    with pytest.raises(InvalidRequest, match="--checkpoint-dir"):
        section(CheckpointOptions("saved"), **cluster)


AUTO = {"optimize": {"mode": "single-job"}}


@pytest.mark.parametrize(("given", "expected"), [("4", (1, 4)), ('"2:8"', (2, 8)), (None, (1, 16))])
def test_numbers_of_a_file_become_bounds_of_a_job_that_plans(
    tmp_path: Path, given: str | None, expected: tuple[int, int]
) -> None:
    path = tmp_path / "job.yaml"
    replicas = f", replicas: {given}" if given else ""
    path.write_text(f"roles: {{worker: {{command: [python, train.py]{replicas}}}}}\n")
    found = make_spec([str(path)], "job", dict(AUTO)).roles["worker"].replicas
    assert (found.min, found.max) == expected


def test_given_amounts_are_maximums_of_a_job_that_plans() -> None:
    spec = make_spec(["train.py"], "job", {**AUTO, "cpu": 2, "memory": "1Gi", "workers": "3"})
    worker = spec.roles["worker"]
    assert (worker.max_resources.cpu, worker.max_resources.memory) == (2.0, 1024)
    assert (worker.replicas.min, worker.replicas.max) == (1, 3)


@pytest.mark.parametrize("deadline", ["7200", "2h"])
def test_a_deadline_is_a_time_or_a_number_of_seconds(deadline: str) -> None:
    changes = PlanningOptions(auto=True, deadline=deadline).changes()
    assert make_spec(["train.py"], "job", changes).optimize.deadline == 7200.0
