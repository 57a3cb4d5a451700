"""Native training with parameter servers: real masters, servers and workers, one of each killed on the way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.native.native_job import NativeJob
from tests.native.points import make_points

from pliant.native.click_log import write_click_log
from pliant.native.model_file.saved_models import load_state
from pliant.native.zoo import models
from pliant.testing.jobs import LocalJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MODEL = Path(__file__).parent / "ps_model_file.py"
TRAINED, EVALUATED, BATCH, EPOCHS = 480, 96, 16, 2
STEPS = EPOCHS * TRAINED // BATCH
LONG = 300.0  # seconds that a failure takes
OPTIONS = ["--data", "train.csv", "--eval-data", "test.csv", "--output", "out", "--num-epochs", str(EPOCHS)]
OPTIONS += ["--batch-size", str(BATCH), "--num-ps", "2", "--max-workers", "2", "--eval-shard-size", "32"]


def train(folder: Path, strategy: str, *, pause: float = 0.0) -> NativeJob:
    make_points(folder / "train.csv", TRAINED)
    make_points(folder / "test.csv", EVALUATED, first=1000)
    env = {"PLIANT_TEST_PAUSE": str(pause)}
    return NativeJob(folder, "train", [*OPTIONS, "--strategy", strategy], model=MODEL, env=env)


def check(job: LocalJob) -> dict[str, Any]:
    """By the audit, by the iterations, and by what the servers hold: every record counted once per epoch."""
    summary = job.summary()
    assert summary["phase"] == "Succeeded", job.report()
    accepted: dict[tuple[str, int], set[int]] = {}
    for row in job.audit():
        records = set(range(row.start + row.begin, row.start + row.end))
        seen = accepted.setdefault((row.dataset, row.epoch), set())
        assert not seen & records, f"{row} was accepted before"
        seen |= records
    versions = [result["version"] for result in summary["evaluations"]]
    assert versions == [STEPS // EPOCHS, STEPS]
    assert {key: len(records) for key, records in accepted.items() if key[0] != "train-end"} == {
        **{("train", epoch): TRAINED for epoch in range(EPOCHS)},
        **{(f"eval@{version}", 0): EVALUATED for version in versions},
    }
    assert [result["records"] for result in summary["evaluations"]] == [EVALUATED] * 2
    parameters = summary["parameters"]
    assert (parameters["iteration"], parameters["examples"]) == (STEPS, EPOCHS * TRAINED)
    state, about = load_state(job.folder / "out")
    assert about["version"] == STEPS
    assert sorted(state["seen.ids"].tolist()) == list(range(TRAINED))
    counted = state["seen.rows"] * BATCH
    assert counted.sub(EPOCHS).abs().max() < 1e-3, f"counted {counted.min()} to {counted.max()} times"
    assert state["groups.ids"].numel() == TRAINED
    told: dict[str, list[str]] = {}
    for line in (job.folder / "told.txt").read_text().splitlines():
        told.setdefault(line.split()[0], []).append(line.partition(" ")[2])
    epochs = [f"epoch {epoch}" for epoch in range(EPOCHS)]
    assert all(said == epochs[: len(said)] for said in told.values()), "each worker is told of each epoch, in order"
    assert epochs in told.values()
    return summary


@pytest.mark.parametrize("strategy", ["ps-sync", "ps-async"])
def test_each_record_counts_once_although_worker_server_and_master_are_killed(tmp_path: Path, strategy: str) -> None:
    with train(tmp_path, strategy, pause=0.03) as job:
        job.wait_for_progress(64, LONG)
        job.kill_program("worker-0")
        job.wait_for_progress(200, LONG)
        job.kill_program("ps-1")
        job.wait_for_progress(400, LONG)
        job.kill_master()
        assert job.wait(LONG) == 0, job.report()
    check(job)


@pytest.mark.parametrize(
    ("name", "kind", "strategy"),
    [
        ("deepfm", "DeepFM", ("local", "--max-steps", "8")),
        ("wide_and_deep", "WideAndDeep", ("ps-async", "--num-ps", "1")),
    ],
)
def test_a_model_of_the_zoo_trains_and_what_servers_export_is_what_was_evaluated(
    tmp_path: Path, name: str, kind: str, strategy: tuple[str, ...]
) -> None:
    write_click_log(tmp_path, 1280)
    options = ["--data", "train.parquet", "--eval-data", "test.parquet", "--batch-size", "64", "--output", "out"]
    path = models()[name]
    with NativeJob(tmp_path, "train", [*options, "--strategy", *strategy], model=path, model_class=kind) as job:
        assert job.wait(LONG) == 0, job.report()
        trained = job.summary()
    assert 0 <= trained["evaluation"]["auc"] <= 1
    if strategy[0] == "local":
        return
    options = ["--data", "test.parquet", "--trained", "out"]
    with NativeJob(tmp_path, "evaluate", options, model=path, model_class=kind, name="evaluate") as job:
        assert job.wait(LONG) == 0, job.report()
        again = job.summary()
    assert again["evaluation"]["auc"] == pytest.approx(trained["evaluation"]["auc"], abs=1e-4)


@pytest.mark.parametrize(
    ("optimizer", "strategy", "said"),
    [
        ("torch.optim.RMSprop(model.parameters())", "ps-async", "RMSprop"),
        ("torch.optim.SGD(model.parameters(), lr=0.1)", "allreduce", "the table 'seen'"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_launched(
    tmp_path: Path, optimizer: str, strategy: str, said: str
) -> None:
    make_points(tmp_path / "train.csv", 32)
    text = MODEL.read_text().replace("torch.optim.Adam(model.parameters(), lr=0.05)", optimizer)
    (tmp_path / "net.py").write_text(text)
    options = ["--data", "train.csv", "--strategy", strategy, "--max-workers", "2"]
    with NativeJob(tmp_path, "train", options, model=tmp_path / "net.py") as job:
        assert job.wait(LONG) == 2
        assert said in job.output()
    assert not job.home.path.exists()


def test_a_slow_worker_leaves_a_batch_when_a_newer_model_comes(tmp_path: Path) -> None:
    text = MODEL.read_text()
    slow = 'time.sleep(0.3 if os.environ.get("PLIANT_NODE") == "worker-1" else 0.02)'
    assert "time.sleep(PAUSE)" in text
    (tmp_path / "net.py").write_text(text.replace("time.sleep(PAUSE)", slow))
    make_points(tmp_path / "train.csv", TRAINED)
    make_points(tmp_path / "test.csv", EVALUATED, first=1000)
    with NativeJob(tmp_path, "train", [*OPTIONS, "--strategy", "ps-sync"], model=tmp_path / "net.py") as job:
        assert job.wait(LONG) == 0, job.report()
    check(job)
    restarts = re.search(r"restarted (\d+) batches", (job.home.path / "logs" / "worker-1.log").read_text())
    assert restarts is not None
    assert int(restarts[1]) > 0
