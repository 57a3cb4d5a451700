from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.e2e.native.native_job import MODEL, NativeJob
from tests.native.points import make_points

from pliant.core.events import EventKind
from pliant.master.offline import audit_of
from pliant.native.model_file.saved_models import load_state
from pliant.native.zoo import models

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LONG = 240.0  # seconds that a failure takes
RECORDS = 200


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that was trained for three steps by the short form of the options, and the summary of that."""
    folder = tmp_path_factory.mktemp("trained")
    make_points(folder / "train.csv", 64)
    short = ["--data=train.csv", "--batch_size=16", "--num_epoch=1", "--max_workers=1", "--output=out"]
    with NativeJob(folder, "train", [*short, "--max-steps", "3", "--summary", "trained.json"]) as job:
        assert job.wait(LONG) == 0
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_points(tmp_path / "new.csv", RECORDS)
    return tmp_path


def test_a_prediction_has_each_record_once_and_in_order_although_a_worker_is_killed(
    folder: Path, trained: Path
) -> None:
    options = ["--data", "new.csv", "--trained", str(trained / "out"), "--output", "said.csv", "--max-workers", "2"]
    options += ["--batch-size", "4", "--shard-size", "4"]
    with NativeJob(folder, "predict", options, env={"PLIANT_TEST_PAUSE": "0.1"}) as job:
        job.wait_for_progress(20, LONG)
        job.kill_program("worker-0")
        job.wait_for_progress(60, LONG)
        job.kill_master()
        assert job.wait(LONG) == 0
    with (folder / "said.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == list(range(RECORDS))
    assert list(rows[0]) == ["id", "prediction_0", "prediction_1"]
    assert [p.name for p in folder.iterdir() if "said" in p.name] == ["said.csv"], "no part is left"


def test_a_prediction_that_ctrl_c_stops_leaves_no_result_and_can_be_run_again(folder: Path, trained: Path) -> None:
    options = ["--data", "new.csv", "--trained", str(trained / "out"), "--output", "said.csv"]
    options += ["--batch-size", "4", "--shard-size", "4"]
    with NativeJob(folder, "predict", options, env={"PLIANT_TEST_PAUSE": "0.2"}) as job:
        job.wait_for_progress(12, LONG)
        assert any("said" in path.name for path in folder.iterdir()), "parts are beside the output"
        job.interrupt()
        assert job.wait(LONG) == 130
        assert job.summary()["phase"] == "Stopped"
    assert not (folder / "said.csv").exists(), "its parts wait for `pliant resume`"
    with NativeJob(folder, "predict", [*options, "--overwrite"]) as job:
        assert job.wait(LONG) == 0
    with (folder / "said.csv").open() as file:
        assert [int(row["id"]) for row in csv.DictReader(file)] == list(range(RECORDS))
    assert [p.name for p in folder.iterdir() if "said" in p.name] == ["said.csv"], "no part is left"


def test_evaluate_gives_the_metrics_of_all_records_by_name_although_a_worker_is_killed(
    folder: Path, trained: Path
) -> None:
    told = json.loads((trained / "trained.json").read_text())
    assert told["global_step"] == 3
    assert next(d["records_done"] for d in told["datasets"] if d["name"] == "train") == 48
    options = ["--data", "new.csv", "--trained", str(trained / "out"), "--batch-size", "4", "--shard-size", "4"]
    with NativeJob(folder, "evaluate", [*options, "--summary", "summary.json"]) as job:
        assert job.wait(LONG) == 0
        proof = audit_of(job.home).to_json()
    assert proof["exact"], proof
    assert [found["dataset"] for found in proof["datasets"]] == ["eval@3"], (
        "nobody trained, so nothing was to be exported"
    )
    summary = json.loads((folder / "summary.json").read_text())
    assert set(summary["evaluation"]) == {"accuracy", "auc", "count", "loss"}
    assert summary["evaluation"]["count"] == RECORDS
    assert summary["evaluations"][0]["version"] == 3

    more = ["--max-workers", "2", "--summary", "killed.json"]
    with NativeJob(folder, "evaluate", [*options, *more], name="killed", env={"PLIANT_TEST_PAUSE": "0.1"}) as job:
        job.wait_for_progress(20, LONG)
        job.kill_program("worker-0")
        assert job.wait(LONG) == 0
        proof = audit_of(job.home).to_json()
    assert proof["exact"], proof
    killed = json.loads((folder / "killed.json").read_text())
    assert killed["restarts"] == 1, "nobody was killed"
    assert killed["evaluations"][0]["records"] == RECORDS
    assert killed["evaluation"] == summary["evaluation"]


def test_a_callback_ends_training_early_and_the_best_model_is_exported_beside_the_last(folder: Path) -> None:
    text = MODEL.read_text().replace("def callbacks", "def other_callbacks")
    text += """

class Recorder:
    def tell(self, *what):
        with (FOLDER / "calls.txt").open("a") as file:
            print(*what, file=file)

    def on_train_begin(self, model):
        self.tell("begin", type(model).__name__)

    def on_step_end(self, step, loss):
        self.tell("step", step)

    def on_epoch_end(self, epoch):
        self.tell("epoch", epoch)

    def on_evaluation(self, version, metrics):
        self.tell("evaluation", version)

    def on_train_end(self, directory):
        self.tell("end", directory)

def callbacks():
    from pliant.native import EarlyStopping
    return [Recorder(), EarlyStopping("count", patience=1)]
"""
    (folder / "stopping.py").write_text(text)
    make_points(folder / "train.csv", 64)
    options = ["--data", "train.csv", "--eval-data", "train.csv", "--batch-size", "16", "--num-epochs", "500"]
    options += ["--output", "out", "--best-metric", "count"]
    with NativeJob(folder, "train", options, model=folder / "stopping.py") as job:
        assert job.wait(LONG) == 0
        summary = job.summary()
    assert len(summary["evaluations"]) >= 2
    assert summary["global_step"] < 2000
    assert any("count did not improve" in event.facts["reason"] for event in job.events(EventKind.TRAINING_STOPPED))
    last, best = (load_state(folder / "out" / name)[1]["version"] for name in ("", "best"))
    assert best == summary["best"]["version"] == summary["evaluations"][0]["version"], "none was better than the first"
    assert best < last

    calls = [line.split(maxsplit=1) for line in (folder / "calls.txt").read_text().splitlines()]
    assert calls[0] == ["begin", "Net"]
    assert calls[-1] == ["end", str(folder / "out")]
    told = {name: [int(value) for kind, value in calls if kind == name] for name in ("step", "epoch", "evaluation")}
    assert told["step"] == list(range(1, last + 1))
    assert told["epoch"] == list(range(last // 4)), "an epoch has four steps"
    assert told["evaluation"] == [result["version"] for result in summary["evaluations"]]


@pytest.mark.parametrize("name", ["blank", "digits_cnn", "keras_mlp", "small_transformer"])
def test_a_model_of_the_zoo_trains(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import runpy

    path = models()[name]
    monkeypatch.setattr("sys.argv", [str(path), str(tmp_path / "data")])
    runpy.run_path(str(path), run_name="__main__")  # as `python digits_cnn.py data`
    ending = {"blank": "csv", "digits_cnn": "parquet", "keras_mlp": "npz", "small_transformer": "jsonl"}[name]
    kind = {"blank": "Net", "digits_cnn": "DigitsCNN", "small_transformer": "SmallTransformer"}.get(name, "")
    options = ["--data", f"data/train.{ending}", "--eval-data", f"data/test.{ending}", "--batch-size", "64"]
    options += ["--max-steps", "10", "--output", "out"]
    with NativeJob(tmp_path, "train", options, model=path, model_class=kind) as job:
        assert job.wait(LONG) == 0
        summary = job.summary()
    assert 0 <= summary["evaluation"]["accuracy"] <= 1
    assert (tmp_path / "out" / "model.safetensors").exists()
