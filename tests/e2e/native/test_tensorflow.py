"""Input by TensorFlow, in an environment that has it: ``tools/tensorflow/build.sh`` makes one."""

from __future__ import annotations

import csv
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.e2e.native.native_job import NativeJob
from tests.native.points import make_points
from torch import nn

from pliant.native.model_file.saved_models import load_state, save_model

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[3]
LONG = 500.0  # seconds that a failure takes
MODULES = os.pathsep.join([str(PROJECT / "src"), sysconfig.get_paths()["purelib"], str(PROJECT)])
ENVIRONMENT = {"PYTHONPATH": MODULES, "TF_CPP_MIN_LOG_LEVEL": "2"}


@pytest.fixture
def python() -> str:
    """One that can import TensorFlow, beside all that this one can."""
    find = [str(PROJECT / "tools" / "tensorflow" / "build.sh"), "--find"]
    found = subprocess.run(find, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    if not found and not os.environ.get("CI"):
        pytest.skip("TensorFlow is not there: make tensorflow-testbed")
    assert found, "TensorFlow is not there: make tensorflow-testbed"
    return found


def test_leased_shards_go_through_pipelines_of_tensorflow(python: str) -> None:
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/data/test_tf_dataset.py"]
    done = subprocess.run(
        tests, cwd=PROJECT, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=LONG, check=False
    )
    assert "2 passed, 1 skipped" in done.stdout, done.stdout + done.stderr


def test_a_model_of_torch_learns_from_what_tensorflow_reads_and_predicts_each_record_in_order(
    tmp_path: Path, python: str
) -> None:
    make_points(tmp_path / "train.csv", 64)
    make_points(tmp_path / "test.csv", 24)
    model = Path(__file__).with_name("tf_model_file.py")
    training = ["--data", "train.csv", "--eval-data", "test.csv", "--batch-size", "16", "--output", "out"]
    with NativeJob(tmp_path, "train", training, model=model, model_class="", env=ENVIRONMENT, python=python) as job:
        assert job.wait(LONG) == 0, job.report()
        assert job.summary()["evaluation"]["count"] == 24
    said = ["--data", "test.csv", "--trained", "out", "--output", "said.csv", "--batch-size", "5", "--shard-size", "10"]
    given: dict[str, Any] = {"model": model, "model_class": "", "env": ENVIRONMENT, "python": python}
    with NativeJob(tmp_path, "predict", said, name="saying", **given) as job:
        assert job.wait(LONG) == 0, job.report()
    state, _ = load_state(tmp_path / "out")
    with (tmp_path / "said.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == list(range(24))
    for row, line in zip(rows, (tmp_path / "test.csv").read_text().splitlines()[1:], strict=True):
        expected = nn.functional.linear(torch.tensor([float(line.split(",")[1])]), state["weight"], state["bias"])
        torch.testing.assert_close(torch.tensor([float(row[f"prediction_{i}"]) for i in range(2)]), expected)


def test_a_pipeline_of_tensorflow_that_drops_records_cannot_predict(tmp_path: Path, python: str) -> None:
    make_points(tmp_path / "test.csv", 24)
    model = tmp_path / "net.py"
    text = (Path(__file__).with_name("tf_model_file.py")).read_text()
    model.write_text(text.replace("dataset.map(parse)", "dataset.map(parse).take(3)"))
    save_model(tmp_path / "out", nn.Linear(1, 2).state_dict(), {})
    said = ["--data", "test.csv", "--trained", "out", "--output", "said.csv"]
    with NativeJob(tmp_path, "predict", said, model=model, model_class="", env=ENVIRONMENT, python=python) as job:
        assert job.wait(LONG) == 2
        assert "in mode predict it yielded 3 values for 4 records" in job.output()
