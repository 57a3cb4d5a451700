from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.native.native_job import NativeJob
from tests.native.points import make_points

from pliant.core.status import JobStatus
from pliant.native.model_file.saved_models import load_state

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TRAINED, EVALUATED = 480, 96
OPTIONS = [
    "--data",
    "train.csv",
    "--eval-data",
    "test.csv",
    "--batch-size",
    "16",
    "--num-epochs",
    "2",
    "--output",
    "out",
]
OPTIONS += ["--eval-every-steps", "20", "--eval-every-epochs", "1", "--eval-shard-size", "8"]
LONG = 240.0  # seconds that a failure takes
SLOW = {"PLIANT_TEST_PAUSE": "0.04"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_points(tmp_path / "train.csv", TRAINED)
    make_points(tmp_path / "test.csv", EVALUATED, first=1000)
    return tmp_path


def check(job: NativeJob) -> dict[str, Any]:
    """Every record of training and of each evaluation was accepted once, and the metrics are of all of them."""
    summary = job.summary()
    assert summary["phase"] == "Succeeded", job.report()
    done = {d["name"]: d["records_done"] for d in summary["datasets"]}
    assert done == {"train": 2 * TRAINED, "train-end": 1, **{f"eval@{v}": EVALUATED for v in (20, 30, 40, 60)}}
    accepted: dict[tuple[str, int], set[int]] = {}
    for row in job.audit():
        records = set(range(row.start + row.begin, row.start + row.end))
        seen = accepted.setdefault((row.dataset, row.epoch), set())
        assert not seen & records, f"{row} was accepted before"
        seen |= records
    assert {key: len(records) for key, records in accepted.items() if key[0] != "train-end"} == {
        ("train", 0): TRAINED,
        ("train", 1): TRAINED,
        **{(f"eval@{v}", 0): EVALUATED for v in (20, 30, 40, 60)},
    }
    assert [r["version"] for r in summary["evaluations"]] == [20, 30, 40, 60]
    for result in summary["evaluations"]:
        assert result["records"] == result["metrics"]["count"] == EVALUATED
    assert summary["evaluation"]["accuracy"] == summary["evaluations"][-1]["metrics"]["accuracy"]
    state, about = load_state(job.folder / "out")
    assert about["version"] == 60
    return {name: value.tolist() for name, value in state.items()}


def is_evaluating(status: JobStatus) -> bool:
    return any("@" in d.name and 0 < d.records_done < d.records_total for d in status.datasets)


def test_local_training_ends_with_the_same_model_whoever_is_killed(folder: Path) -> None:
    calm = NativeJob(folder, "train", OPTIONS, name="calm")
    with calm:
        assert calm.wait(LONG) == 0
    expected = check(calm)
    job = NativeJob(folder, "train", [*OPTIONS, "--checkpoint-every-steps", "5"], env=SLOW)
    with job:
        job.wait_for_progress(100, LONG)
        job.kill_program("worker-0")
        job.wait_for_progress(200, LONG)
        job.kill_master()
        job.wait_for(is_evaluating, "a round of evaluation", LONG)
        job.kill_program("worker-0")
        assert job.wait(LONG) == 0
    assert check(job) == expected
    assert (folder / "exports.txt").read_text().splitlines() == [str(folder / "out")] * 2  # one of each job


def test_allreduce_ends_with_the_model_of_one_worker_although_workers_and_master_are_killed(folder: Path) -> None:
    seats = [*OPTIONS, "--strategy", "allreduce", "--virtual-workers", "4"]
    calm = NativeJob(folder, "train", [*seats, "--max-workers", "1"], name="calm")
    with calm:
        assert calm.wait(LONG) == 0
    expected = check(calm)
    job = NativeJob(folder, "train", [*seats, "--max-workers", "2", "--min-workers", "1"], env=SLOW)
    with job:
        job.wait_for_progress(64, LONG)
        leader = job.wait_for(lambda s: s.world.members[0].name if s.world else None, "a world")
        job.kill_program(leader)
        job.wait_for(is_evaluating, "a round of evaluation", LONG)
        job.kill_program("worker-1")
        job.kill_master()
        assert job.wait(LONG) == 0
    assert check(job) == expected
    assert json.loads((folder / "out" / "model.json").read_text())["version"] == 60


def test_another_scores_the_round_and_exports_the_model_if_who_does_it_is_killed_in_the_middle(folder: Path) -> None:
    options = ["--data", "train.csv", "--eval-data", "test.csv", "--batch-size", "16", "--num-epochs", "1"]
    options += ["--strategy", "allreduce", "--max-workers", "2", "--output", "out"]
    with NativeJob(folder, "train", options, env={"PLIANT_TEST_HOLDS": "1"}) as job:
        for place in ("scoring", "exporting"):
            came = folder / place
            node = job.until(lambda came=came: came.exists() and came.read_text().split(), place, LONG)[0]  # type: ignore[misc]
            assert not (folder / "out" / "model.json").exists(), "it is whole before it is written"
            job.kill_program(node)
        assert job.wait(LONG) == 0, job.report()
    summary = job.summary()
    assert [r["metrics"]["count"] for r in summary["evaluations"]] == [EVALUATED]
    for place in ("scoring", "exporting"):
        assert len({line.split()[1] for line in (folder / place).read_text().splitlines()}) == 2, (
            "one was killed, one did it"
        )
    state, about = load_state(folder / "out")
    assert (about["version"], len(state)) == (TRAINED // 16, 4)
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["model.json", "model.safetensors"], "nothing is left"
    assert (folder / "exports.txt").read_text().splitlines() == [str(folder / "out")]
    assert len([row for row in job.audit() if row.dataset == "train-end"]) == 1
