"""Training loops of transformers, Lightning and Accelerate: as they are, and with the callbacks."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pliant.handles.local import LocalJob as Handle
from pliant.testing.jobs import LocalJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
LONG = 400.0  # seconds that a failure takes: these packages are slow to import
LOOPS = ("hf_training.py", "lightning_training.py")


def started(folder: Path, python: str, script: str, workers: int, env: dict[str, str], *options: str) -> LocalJob:
    command = [python, str(HERE / script), str(folder / "out"), *options]
    return LocalJob(folder, command, workers=workers, env=env, spec={"fault": {"grace": 60}})


def outputs(job: LocalJob) -> str:
    return "\n".join(path.read_text() for path in sorted(job.home.logs.glob("worker-*.log")))


@pytest.mark.parametrize("script", LOOPS)
def test_unmodified_scripts_train_with_two_workers(
    tmp_path: Path, python: str, environment: dict[str, str], script: str
) -> None:
    with started(tmp_path, python, script, 2, environment, "20") as job:
        assert job.wait(LONG) == 0, job.report()
        assert outputs(job).count("done 20") == 2


def test_unmodified_scripts_of_accelerate_train_with_two_workers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "accelerate.test_utils.scripts.test_ops"]
    with LocalJob(tmp_path, command, workers=2, env={"ACCELERATE_USE_CPU": "true"}) as job:
        assert job.wait(LONG) == 0, job.report()


@pytest.mark.parametrize("script", [*LOOPS, "accelerate_training.py"])
def test_a_preempted_program_leaves_a_checkpoint_and_the_next_one_continues(
    tmp_path: Path, python: str, environment: dict[str, str], script: str
) -> None:
    options = ["100"] if script.startswith("accelerate") else ["100", "--callback"]
    with started(tmp_path, python, script, 2, environment, *options) as job:
        job.wait_for(lambda status: status.global_step >= 10, "some steps", LONG)
        job.preempt("worker-1")
        assert job.wait(LONG) == 0, job.report()
        series = Handle(job.home).series()
        text = outputs(job)
        summary = job.summary()
    resumed = re.findall(r"resumes from (?!None)\S+", text)
    assert resumed, text
    assert text.count("done 100") == 2
    first = [int(step) for step in re.findall(r"^step (\d+)$", text, re.MULTILINE)]
    assert len(first) < 100 * 2 + 20, "the second run begins where the first one left"
    assert series.metrics["loss"][-1].step >= 95
    assert summary["progress"]["total_steps"] in (0, 100)
    assert "first_failure" not in summary
