"""``pliant train``, ``evaluate`` and ``predict`` on real nodes, as a user types them.

Data and what comes out of it lie on a claim; in training each batch waits for the test once enough were done, so that a Pod is
always deleted in the middle.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.commands import Cli
from tests.kubernetes.harness import VOLUMES, Space
from tests.kubernetes.jobs import LONG
from tests.native.points import make_points

from pliant.native.model_file.saved_models import load_state
from pliant.platforms.kubernetes.kinds import CLAIMS, ELASTIC_JOBS, PODS
from pliant.platforms.kubernetes.names import SHARED_FOLDER, pod_name
from pliant.platforms.kubernetes.plans import status_of

TRAINED, EVALUATED, BATCH = 160, 48, 16
MODELS = Path(__file__).parents[1] / "e2e" / "native"
# The model file of other tests, but in workers the fourth batch and all later ones wait for the gate.
HELD = f"""
import os, pathlib, time
from {{module}} import *
from {{module}} import Net as Free
class Net(Free):
    batches = 0
    def forward(self, *inputs):
        Net.batches += self.training and "PLIANT_NODE" in os.environ
        while Net.batches > 3 and not pathlib.Path("{SHARED_FOLDER}/gate").exists():
            time.sleep(0.02)
        return super().forward(*inputs)
"""


@pytest.fixture
def shared(cli: Cli) -> Path:
    """The folder on the claim ``data``, with training and test data in it."""
    folder = cli.folder / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    make_points(folder / "train.csv", TRAINED)
    make_points(folder / "test.csv", EVALUATED, first=1000)
    bind(cli.space, folder)
    for module in ("model_file", "ps_model_file"):
        (cli.folder / f"{module}.py").write_bytes((MODELS / f"{module}.py").read_bytes())
        (cli.folder / f"held_{module}.py").write_text(HELD.format(module=module))
    return folder


def bind(space: Space, folder: Path) -> None:
    """As an administrator gives a team a volume."""
    size = {"storage": "1Gi"}
    volume = {
        "capacity": size,
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": str(folder), "type": "Directory"},
        "claimRef": {"namespace": space.name, "name": "data"},
    }
    name = f"{space.name}-data"
    space.kube.create(VOLUMES, {"metadata": {"name": name, "labels": {"test": space.name}}, "spec": volume})
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": size}, "volumeName": name}
    space.create(CLAIMS, {"metadata": {"name": "data"}, "spec": {**asked, "storageClassName": ""}})


def native(cli: Cli, command: str, name: str, *options: str, model: str = "model_file.py") -> Any:
    words = ("--platform", "kubernetes", "--claim", "data", "--model", model, "--model-class", "Net", "--name", name)
    return cli.start(command, *words, "--audit", "--memory", "512Mi", "--summary", f"{name}.json", *options)


def summary_of(cli: Cli, process: Any, name: str) -> dict[str, Any]:
    """Of a job that ended well, with an exact audit."""
    told, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0, told
    audit = cli("audit", name)
    assert audit.exit_code == 0, audit.output
    summary: dict[str, Any] = json.loads((cli.folder / f"{name}.json").read_text())
    assert summary["phase"] == "Succeeded"
    return summary


def wait_for_records(space: Space, name: str, records: int) -> None:
    def done() -> bool:
        progress = status_of(space.find(ELASTIC_JOBS, name) or {}).get("progress") or {}
        return (progress.get("records") or 0) >= records

    space.wait_for(done, f"{records} records of {name}", LONG)


def delete_in_the_middle(cli: Cli, shared: Path, name: str, successors: dict[str, str]) -> None:
    """Delete Pods, and let the job go on when others are there in their place."""
    wait_for_records(cli.space, name, BATCH)
    for node in successors:
        cli.space.delete(PODS, pod_name(name, node), grace=1)
    for node in successors.values():
        cli.space.wait_for(lambda node=node: cli.space.find(PODS, pod_name(name, node)), node, LONG)  # type: ignore[misc]
    (shared / "gate").touch()


def test_a_model_is_trained_by_allreduce_then_evaluated_and_asked_and_another_of_its_name_begins_anew(
    cli: Cli, shared: Path
) -> None:
    data = ("--data", "train.csv", "--eval-data", "test.csv", "--batch-size", str(BATCH), "--output", "trained")
    held = "held_model_file.py"
    job = native(cli, "train", "learns", *data, "--strategy", "allreduce", "--max-workers", "2", model=held)
    delete_in_the_middle(cli, shared, "learns", {"worker-1": "worker-2"})
    summary = summary_of(cli, job, "learns")
    assert {d["name"]: d["records_done"] for d in summary["datasets"]} == {
        "train": TRAINED,
        f"eval@{TRAINED // BATCH}": EVALUATED,
        "train-end": 1,
    }
    assert set(summary["evaluation"]) == {"accuracy", "auc", "count", "loss"}
    assert summary["evaluation"]["count"] == EVALUATED
    assert load_state(shared / "trained")[1]["version"] == TRAINED // BATCH

    options = ("--data", "test.csv", "--trained", "trained")
    evaluating = native(cli, "evaluate", "judges", *options)
    predicting = native(cli, "predict", "says", *options, "--output", "said.csv")
    again = native(cli, "train", "learns", "--data", "train.csv", "--batch-size", "32", "--overwrite")
    judged = summary_of(cli, evaluating, "judges")["evaluation"]
    assert judged == pytest.approx(summary["evaluation"])
    summary_of(cli, predicting, "says")
    with (shared / "said.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == list(range(EVALUATED))
    labels = [int(row["label"]) for row in csv.DictReader((shared / "test.csv").open())]
    right = sum(
        (float(row["prediction_1"]) > float(row["prediction_0"])) == label
        for row, label in zip(rows, labels, strict=True)
    )
    assert right / EVALUATED == pytest.approx(judged["accuracy"])
    assert summary_of(cli, again, "learns")["global_step"] == TRAINED // 32, (
        "it did not go on from the checkpoint of the first"
    )
    assert len(list((shared / "learns").iterdir())) == 2, "each has a folder of its own"


def test_each_record_counts_once_on_two_parameter_servers_although_a_worker_and_a_server_are_deleted(
    cli: Cli, shared: Path
) -> None:
    data = ("--data", "train.csv", "--eval-data", "test.csv", "--batch-size", str(BATCH), "--output", "trained")
    servers = ("--strategy", "ps-sync", "--num-ps", "2", "--max-workers", "2")
    job = native(cli, "train", "clicks", *data, *servers, model="held_ps_model_file.py")
    delete_in_the_middle(cli, shared, "clicks", {"worker-1": "worker-2", "ps-1": "ps-2"})
    summary = summary_of(cli, job, "clicks")
    done = {d["name"]: d["records_done"] for d in summary["datasets"]}
    assert done == {"train": TRAINED, f"eval@{TRAINED // BATCH}": EVALUATED, "train-end": 1}
    assert set(summary["evaluation"]) == {"accuracy", "loss"}
    assert summary["replacements"] == 2
    state, about = load_state(shared / "trained")
    assert about["version"] == TRAINED // BATCH
    counted = state["seen.rows"] * BATCH
    assert counted.numel() == TRAINED
    assert counted.sub(1).abs().max() < 1e-3, f"records counted {counted.min()} to {counted.max()} times"
