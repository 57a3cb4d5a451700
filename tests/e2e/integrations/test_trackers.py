"""MLflow and W&B get what programs report, as one run per job."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pliant.testing.jobs import LocalJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

LOOP = Path(__file__).with_name("tracked_loop.py")
LONG = 400.0  # seconds that a failure takes
READ = """
import sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
experiment = client.get_experiment_by_name("tests")
runs = client.search_runs([experiment.experiment_id])
print([run.info.run_name for run in runs])
for name in ("loss", "val_1"):
    print(name, [(metric.step, round(metric.value, 3)) for metric in client.get_metric_history(runs[0].info.run_id, name)])
"""


def test_restarted_programs_continue_one_run_of_mlflow(
    tmp_path: Path, python: str, environment: dict[str, str]
) -> None:
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    env = {**environment, "MLFLOW_TRACKING_URI": store}
    with LocalJob(tmp_path, [python, str(LOOP), "mlflow", str(tmp_path / "gate")], env=env, name="tracked") as job:
        assert job.wait(LONG) == 0, job.report()
    read = subprocess.run(
        [python, "-c", READ, store], env={**os.environ, **environment}, capture_output=True, text=True, timeout=LONG
    )
    assert read.stdout.splitlines() == [
        "['tracked']",
        "loss [(1, 1.0), (2, 0.5), (3, 0.333), (4, 0.25), (5, 0.2), (6, 0.167)]",
        "val_1 [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0), (6, 6.0)]",
    ], read.stderr


def test_restarted_programs_continue_one_run_of_wandb(tmp_path: Path, python: str, environment: dict[str, str]) -> None:
    with LocalJob(tmp_path, [python, str(LOOP), "wandb", str(tmp_path / "gate")], env=environment) as job:
        assert job.wait(LONG) == 0, job.report()
    runs = list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(runs) == 2, "a file for each program"
    assert len({path.name for path in runs}) == 1, "of one run"
    assert all(b"val@1" in path.read_bytes() for path in runs)
