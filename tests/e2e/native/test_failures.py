"""Failures that would repeat after a restart end the job at once, with their cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.native.native_job import MODEL, NativeJob
from tests.native.points import make_points

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LONG = 240.0  # seconds that a failure takes
RECORDS, BAD, BATCH = 96, 70, 16
STEP = BAD // BATCH + 1
PS_MODEL = Path(__file__).parent / "ps_model_file.py"


def make_bad_points(path: Path) -> Path:
    """One of them is not a number."""
    lines = make_points(path, RECORDS).read_text().splitlines()
    number, _, label = lines[BAD + 1].split(",")
    lines[BAD + 1] = f"{number},nan,{label}"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("strategy", ["local", "allreduce", "ps-sync"])
def test_training_fails_at_the_step_whose_loss_is_no_number(tmp_path: Path, strategy: str) -> None:
    make_bad_points(tmp_path / "train.csv")
    options = [
        "--data",
        "train.csv",
        "--no-shuffle",
        "--batch-size",
        str(BATCH),
        "--output",
        "out",
        "--num-epochs",
        "2",
    ]
    options += ["--strategy", strategy, "--max-workers", "2" if strategy == "allreduce" else "1"]
    model = PS_MODEL if strategy == "ps-sync" else MODEL
    with NativeJob(tmp_path, "train", options, model=model) as job:
        assert job.wait(LONG) == 1
    summary = job.summary()
    assert summary["phase"] == "Failed"
    assert f"the loss of step {STEP} is nan" in summary["reason"]
    assert "train.csv 64, 65," in summary["reason"]
    assert "what to do: lower the learning rate" in job.output()
    assert "Traceback" not in job.output()
    assert summary["restarts"] == summary["replacements"] == 0, "it was tried again"
    assert not (tmp_path / "out").exists(), "a model was exported"


def test_local_training_fails_at_the_step_whose_gradient_is_no_number(tmp_path: Path) -> None:
    make_points(tmp_path / "train.csv", 3 * BATCH)
    text = (
        MODEL.read_text()
        + """

def finite(labels, predictions):
    calls.append(1)
    strange = torch.sqrt((predictions * 0).sum()) if HOLDS and len(calls) == 3 else 0.0
    return nn.functional.cross_entropy(predictions, labels) + strange

calls, loss = [], finite
"""
    )
    (tmp_path / "net.py").write_text(text)
    options = ["--data", "train.csv", "--batch-size", str(BATCH), "--output", "out"]
    env = {"PLIANT_TEST_HOLDS": "1"}
    with NativeJob(tmp_path, "train", options, model=tmp_path / "net.py", env=env) as job:
        assert job.wait(LONG) == 1
    assert "the gradient of layers.0.weight in step 3 has NaN or infinity" in job.summary()["reason"]
    assert not (tmp_path / "out").exists(), "a model was exported"


METRICS = """

class Strange(Accuracy):
    def state(self, labels, predictions):
        if CASE == "update" and HOLDS:
            raise ZeroDivisionError("no positives")
        if CASE == "state" and HOLDS:
            return {"seen": {1, 2}}
        return super().state(labels, predictions)

    def merge(self, one, other):
        return one if CASE == "state" and HOLDS else super().merge(one, other)

    def value(self, state):
        if CASE == "result" and HOLDS:
            return float("much")
        return super().value(state)

def eval_metrics_fn():
    return {"accuracy": Accuracy(), "f1": Strange()}

"""


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("update", "metric 'f1' failed: ZeroDivisionError: no positives"),
        ("result", "metric 'f1' failed: ValueError: could not convert string to float: 'much'"),
        ("state", "metric 'f1' has a state that cannot be sent: {1, 2}"),
    ],
)
def test_a_metric_that_fails_in_a_round_of_evaluation_ends_the_job_with_its_name_and_version(
    tmp_path: Path, case: str, said: str
) -> None:
    make_points(tmp_path / "train.csv", 4 * BATCH)
    text = MODEL.read_text() + METRICS.replace("CASE", repr(case))
    (tmp_path / "net.py").write_text(text)
    options = ["--data", "train.csv", "--eval-data", "train.csv", "--batch-size", str(BATCH), "--num-epochs", "1000"]
    options += ["--eval-every-steps", "3", "--output", "out"]
    env = {"PLIANT_TEST_HOLDS": "1"}
    with NativeJob(tmp_path, "train", options, model=tmp_path / "net.py", env=env) as job:
        assert job.wait(LONG) == 1
    summary = job.summary()
    assert summary["phase"] == "Failed"
    assert "worker-0: the evaluation of version 3: " in summary["reason"]
    assert said in summary["reason"]
    assert "net.py:" in summary["reason"] or case == "state"
    assert summary["restarts"] == 0, "it was tried again"
    assert "Traceback" not in job.output()
    assert not (tmp_path / "out").exists()
