"""Input by TensorFlow, in an environment that has it: ``tools/tensorflow/build.sh`` makes one."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
from tests.native.running import NativeJob, make_points

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PROJECT = Path(__file__).parents[2]
LONG = 300.0  # seconds that a failure takes
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


def test_a_model_of_torch_learns_from_what_tensorflow_reads(tmp_path: Path, python: str) -> None:
    make_points(tmp_path / "train.csv", 64)
    make_points(tmp_path / "test.csv", 24)
    model = PROJECT / "tests" / "native" / "tf_model_file.py"
    training = ["--data", "train.csv", "--eval-data", "test.csv", "--batch-size", "16", "--output", "out"]
    with NativeJob(tmp_path, "train", training, model=model, model_class="", env=ENVIRONMENT, python=python) as job:
        assert job.wait(LONG) == 0, job.report()
        assert job.summary()["evaluation"]["count"] == 24
