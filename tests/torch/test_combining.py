"""A program that trains is recognised by what torch does, and a Trainer by its world."""

from __future__ import annotations

from pathlib import Path

import torch
from tests.torch.trainer_threads import TrainerThreads, digits

from pliant.client.combining import TrainingObserver


def test_the_first_step_of_any_optimizer_is_noticed_and_a_forward_pass_is_not() -> None:
    observer, model = TrainingObserver(), torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    observer.watch()
    model(torch.zeros(1, 2)).sum().backward()
    assert not observer.trains_alone()
    optimizer.step()
    assert observer.trains_alone()


def test_a_job_with_a_trainer_combines(tmp_path: Path) -> None:
    with TrainerThreads(tmp_path, workers=2, data=digits(24)) as threads:
        assert not any(worker.trainer._job.combines for worker in threads.workers if worker.trainer._job)
        threads.work()
        assert all(worker.trainer._job.combines for worker in threads.workers if worker.trainer._job)
