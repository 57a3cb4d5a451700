"""How far a Trainer is, as a user sees it: while it runs, over a kill of the master, and when it has ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.command_line import CommandLine
from tests.e2e.torch.training_job import RECORDS, STEPS_PER_EPOCH, TrainingJob

from pliant.core.status import JobStatus

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
EPOCHS = 8
STEPS = EPOCHS * STEPS_PER_EPOCH


def test_a_training_shows_its_steps_records_and_loss_and_ends_with_the_last_of_them(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)

    def is_half_done(status: JobStatus) -> bool:
        return status.progress.step >= STEPS // 2

    with TrainingJob(tmp_path, workers=2, pace=0.05, gated=True, epochs=EPOCHS) as job:
        job.wait_for(lambda status: status.progress.step >= 2 or None, "the first steps")
        shown = cli("top", "--once").stdout
        assert f" of {STEPS}  loss " in shown
        assert " steps/s" in shown
        job.kill_master()
        half = job.wait_for(lambda status: status if is_half_done(status) else None, "steps at the next master")
        assert half.progress.total_steps == STEPS
        job.open_gate()
        job.ends_well()
    found = json.loads(cli("status", "--json").stdout)
    (row,) = json.loads(cli("jobs", "--json").stdout)
    for progress in (found["progress"], row, job.summary()["progress"]):
        assert (progress["step"], progress["total_steps"], progress["epoch"]) == (STEPS, STEPS, EPOCHS)
        assert (progress["records_done"], progress["records_total"]) == (EPOCHS * RECORDS, EPOCHS * RECORDS)
        assert (progress["percent"], progress["loss"]) == (100.0, found["metrics"]["loss"])
    assert found["records_done"] == EPOCHS * RECORDS
    assert all(node["records"] > 0 for node in found["nodes"])
    assert (row["workers"], row["workers_wanted"]) == (2, 2)
    head, line = cli("jobs").stdout.splitlines()
    assert max(len(head), len(line)) <= 100
    assert line.split()[:2] == ["job", "Succeeded"]
    assert " 2/2  " in line
    assert " 100 %  " in line
    assert f"training: step {STEPS} of {STEPS}, {EPOCHS * RECORDS} records, loss " in job.output()
