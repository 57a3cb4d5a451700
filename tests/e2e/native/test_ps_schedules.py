"""A learning-rate schedule with parameter servers: the model of one process with the same schedule, whoever is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.e2e.native.native_job import NativeJob
from tests.native.points import make_points
from tests.native.scheduled_model import FILE
from torch import nn

from pliant.native.model_file.saved_models import load_state

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

RECORDS, EPOCHS = 64, 12  # an update is an epoch: so it has the same records, whoever computes them
LONG = 240.0  # seconds that a failure takes
LINEAR = "(predictions * labels).mean()"  # the same gradient on every model, however old


def reference(folder: Path, *, linear: bool) -> dict[str, torch.Tensor]:
    """By torch alone."""
    lines = [line.split(",") for line in (folder / "train.csv").read_text().split()[1:]]
    x, labels = (torch.tensor([float(line[at]) for line in lines]) for at in (1, 2))
    line, bias = nn.Linear(1, 1), nn.Parameter(torch.zeros(RECORDS))
    nn.init.constant_(line.weight, 0.5)
    nn.init.constant_(line.bias, 0.0)
    groups: list[dict[str, Any]] = [{"params": line.parameters()}, {"params": [bias], "lr": 0.2}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda k: 0.9**k, lambda k: 1 / (1 + k // 3)])
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        told = line(x[:, None]).squeeze(1) + bias
        loss = (told * labels).mean() if linear else nn.functional.mse_loss(told, labels)
        loss.backward()
        optimizer.step()
        schedule.step()
    return {"line.weight": line.weight.detach(), "line.bias": line.bias.detach(), "bias.rows": bias.detach()[:, None]}


@pytest.mark.parametrize("strategy", ["ps-sync", "ps-async"])
def test_the_model_is_that_of_one_process_although_worker_server_and_master_are_killed(
    tmp_path: Path, strategy: str
) -> None:
    make_points(tmp_path / "train.csv", RECORDS)
    linear = strategy == "ps-async"
    text = FILE.replace("nn.functional.mse_loss(predictions, labels.float())", LINEAR) if linear else FILE
    (tmp_path / "net.py").write_text(text)
    options = ["--data", "train.csv", "--eval-data", "train.csv", "--output", "out", "--num-epochs", str(EPOCHS)]
    options += ["--batch-size", str(RECORDS), "--num-ps", "2", "--max-workers", "2", "--strategy", strategy]
    options += ["--eval-every-epochs", "100"]  # no epoch begins before the one before is done
    with NativeJob(tmp_path, "train", options, model=tmp_path / "net.py", env={"PLIANT_TEST_PAUSE": "0.05"}) as job:
        job.wait_for_progress(3 * RECORDS, LONG)
        job.kill_program("ps-0")
        job.kill_program("worker-0")
        job.wait_for_progress(6 * RECORDS, LONG)
        job.kill_master()
        assert job.wait(LONG) == 0, job.report()
        summary = job.summary()
    assert summary["parameters"]["iteration"] == EPOCHS
    assert summary["parameters"]["examples"] == EPOCHS * RECORDS
    state, _ = load_state(tmp_path / "out")
    for name, expected in reference(tmp_path, linear=linear).items():
        torch.testing.assert_close(state[name], expected, rtol=1e-4, atol=1e-6)
