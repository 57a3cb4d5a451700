"""The master's Pod is lost: with a claim its journal is not; without one, the living workers know what it knew, or nobody does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.harness import Space, Testbed
from tests.kubernetes.jobs import LONG, SHARED, ClusterJob, ReadingClusterJob

from pliant.platforms.kubernetes.kinds import CLAIMS, STORAGE_CLASSES
from pliant.platforms.kubernetes.names import claim_name

pytestmark = pytest.mark.losses

STEPS = 40
HELD_AT = (10, 20)  # steps before which workers wait for the test
TRAIN = f"""
import hashlib, os, pathlib, time
import torch
import pliant.torch as elastic

shared = pathlib.Path("{SHARED}")
held = {HELD_AT} if shared.exists() else ()
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn({8 * STEPS}, 6), torch.randn({8 * STEPS}, 2))
model = torch.nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
trainer = elastic.Trainer(model, optimizer, virtual_workers=4)
if shared.exists():
    (shared / f"ready.{{os.environ['PLIANT_NODE']}}").touch()
for step in trainer.steps(data, micro_batch=2):
    if step.index in held:
        (shared / f"at-{{step.index}}.{{os.environ['PLIANT_NODE']}}").touch()
        while not (shared / f"gate-{{step.index}}").exists():
            time.sleep(0.02)
    for x, y in step:
        step.backward(torch.nn.functional.mse_loss(model(x), y))
    print("step:", step.index, flush=True)
state = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
print("weights:", hashlib.sha256(state).hexdigest(), flush=True)
"""


class TrainingClusterJob(ClusterJob):
    """Workers train together, and wait before two of the steps until the test opens a gate."""

    def __init__(self, space: Space, folder: Path) -> None:
        super().__init__(
            space,
            folder,
            ["python", "train.py"],
            files={"train.py": TRAIN},
            workers="1:3",
            role={"resources": {"memory": "1Gi"}},
            spec={"strategy": "allreduce", "audit": False},
            journal="auto",
        )
        self.spec["roles"]["worker"]["replicas"]["wanted"] = 2

    def open_gate(self, step: int) -> None:
        (self.shared / f"gate-{step}").touch()

    def wait_for_step(self, step: int, workers: int) -> None:
        self.wait_for(lambda: len(list(self.shared.glob(f"at-{step}.*"))) == workers, f"{workers} at step {step}")


def lines(text: str, word: str) -> list[str]:
    return [line.removeprefix(word).strip() for line in text.splitlines() if line.startswith(word)]


def test_living_workers_are_taken_over_by_a_master_that_lost_its_journal_and_not_a_step_is_lost(
    field: Space, tmp_path: Path
) -> None:
    job = TrainingClusterJob(field, tmp_path)
    job.submit()
    nodes = job.wait_for_workers(2)
    job.wait_for_step(HELD_AT[0], workers=2)
    condition = job.wait_for(lambda: job.condition("JournalDurable"), "what a lost machine would cost")
    assert (condition["status"], condition["reason"]) == ("False", "NoDefaultStorageClass")
    assert "takes over the running workers" in condition["message"]
    before = {node: job.pod(node)["metadata"]["uid"] for node in nodes}
    uid = job.delete_master(grace=0)
    job.open_gate(HELD_AT[0])
    job.wait_for_step(HELD_AT[1], workers=2)  # whether or not there is a master
    job.wait_for_another_master(uid)
    lost = job.wait_for(lambda: job.condition("JournalLost"), "the master's word")
    assert lost["reason"] == "TakenOver", job.report()
    field.kubectl("scale", "elasticjob/job", "--replicas=3")
    assert job.wait_for_workers(3) == [*nodes, "worker-2"], "numbers of nodes go on"
    job.wait_for((job.shared / "ready.worker-2").exists, "the new one to join")
    job.open_gate(HELD_AT[1])
    status = job.wait_for_phase("Succeeded", "Failed")
    assert status["phase"] == "Succeeded", job.report()
    assert {node: job.pod(node)["metadata"]["uid"] for node in nodes} == before
    (tmp_path / "train.py").write_text(TRAIN)
    alone = [sys.executable, str(tmp_path / "train.py")]
    expected = subprocess.run(alone, capture_output=True, text=True, check=True, timeout=LONG).stdout
    for node in nodes:
        said = field.logs(f"job-{node}")
        assert lines(said, "step:") == [str(number) for number in range(STEPS)], job.report()
        assert lines(said, "weights:") == lines(expected, "weights:")
    assert "TakingOver" in job.told()


def test_a_job_whose_records_only_the_journal_knew_starts_over_and_says_so(field: Space, tmp_path: Path) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=1, journal="auto", spec={"strategy": "allreduce"}).submit()
    job.wait_until_all_work(job.wait_for_workers(1))
    cost = job.wait_for(
        lambda: (
            found if "records of train" in (found := job.condition("JournalDurable") or {}).get("message", "") else 0
        ),
        "what a lost machine would cost",
    )
    assert cost["status"] == "False"
    uid = job.delete_master(grace=0)
    job.wait_for_another_master(uid)
    lost = job.wait_for(lambda: job.condition("JournalLost"), "the condition")
    assert lost["reason"] == "StartedOver"
    assert "which records of train are done" in lost["message"]
    assert "restarts from scratch" in job.told()
    job.open_gate()
    assert job.wait_for_phase("Succeeded", "Failed")["phase"] == "Succeeded", job.report()
    summary = job.summary()
    assert summary["records_done"] == job.size
    assert summary["audit"]["exact"], summary["audit"]


@pytest.fixture
def default_class(cluster: Testbed) -> Iterator[str]:
    """Volumes of it are made by hand."""
    name = "by-hand"
    marks = {"storageclass.kubernetes.io/is-default-class": "true"}
    body = {"metadata": {"name": name, "annotations": marks}, "provisioner": "kubernetes.io/no-provisioner"}
    cluster.kube.create(STORAGE_CLASSES, body)
    yield name
    cluster.kube.delete(STORAGE_CLASSES, name)


def test_with_a_default_storage_class_the_journal_is_on_a_claim_and_a_lost_master_costs_nothing(
    field: Space, tmp_path: Path, default_class: str
) -> None:
    job = ReadingClusterJob(field, tmp_path, workers=1, journal="auto", storage_class=default_class).submit()
    nodes = job.wait_for_workers(1)
    job.wait_until_all_work(nodes)
    assert field.get(CLAIMS, claim_name(job.name))["spec"]["storageClassName"] == default_class
    condition = job.wait_for(lambda: job.condition("JournalDurable"), "the condition")
    assert (condition["status"], condition["reason"]) == ("True", "Claim")
    uid = job.delete_master(grace=0)
    job.wait_for_another_master(uid)
    job.finish()
    assert job.nodes("Succeeded") == nodes, "its worker went on"
