"""What a Trainer takes from its arguments and what from its job, and that a destination is tried before training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn

from pliant.checkpoint import find_latest
from pliant.client.job import Job
from pliant.core.errors import InvalidRequest, RetryableError
from pliant.core.nodes.environment import CheckpointSettings, NodeEnvironment
from pliant.torch import Trainer, checkpoints
from pliant.torch.checkpoints import check_destination, checkpoint_settings


@pytest.fixture
def in_job(monkeypatch: pytest.MonkeyPatch) -> Any:
    def enter(settings: CheckpointSettings | None, **more: Any) -> None:
        for name, value in NodeEnvironment(checkpoint=settings, **more).to_env().items():
            monkeypatch.setenv(name, value)

    return enter


def test_without_arguments_everything_is_as_the_job_says(in_job: Any) -> None:
    of_job = CheckpointSettings("s3://bucket/mine", every_seconds=600.0, keep_last=7, keep_every=100)
    in_job(of_job)
    assert checkpoint_settings() == of_job


def test_each_argument_wins_over_the_job_and_the_rest_stays(in_job: Any) -> None:
    in_job(CheckpointSettings("s3://bucket/mine", every_seconds=600.0, keep_last=7))
    assert checkpoint_settings("/own") == CheckpointSettings("/own", every_seconds=600.0, keep_last=7)
    by_steps = CheckpointSettings("s3://bucket/mine", every_steps=10, keep_last=7)
    assert checkpoint_settings(every_steps=10) == by_steps, "an interval replaces both of the job's"
    assert checkpoint_settings(keep_last=2).keep_last == 2


def test_an_interval_without_a_directory_is_of_the_jobs_folder_or_an_error(in_job: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="without a directory"):
        checkpoint_settings(every_steps=5)
    assert checkpoint_settings() == CheckpointSettings()
    in_job(None, job_dir=tmp_path)
    assert checkpoint_settings(every_steps=5).directory == str(tmp_path / "checkpoints")
    assert checkpoint_settings().directory == ""


def train(directory: Path) -> None:
    model = nn.Linear(2, 2)
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), virtual_workers=1, checkpoint_dir=directory)
    trainer.fit(lambda net, batch: net(batch).sum(), torch.ones(3, 2), micro_batch=1)
    trainer.close()


def test_a_script_alone_does_not_train_for_a_destination_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequest, match="checkpoints cannot be written to") as error:
        train(tmp_path / "file")
    assert error.value.hint
    train(tmp_path / "folder")
    found = find_latest(tmp_path / "folder", memory=False)
    assert found is not None
    assert found.step == 3


def a_job(*, proceed: bool) -> tuple[Job, list[str]]:
    asked: list[str] = []

    def unusable(directory: str, problem: str, hint: str) -> bool:
        asked.append(problem)
        return proceed

    fake = SimpleNamespace(name="job", node="worker-0", elastic=True, report_unusable_checkpoints=unusable)
    return cast(Job, fake), asked


def test_in_a_job_the_master_decides_and_what_the_agent_tried_is_not_tried_again(
    in_job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    directory = str(tmp_path / "file")
    job, asked = a_job(proceed=False)
    with pytest.raises(InvalidRequest):
        check_destination(directory, job)
    assert len(asked) == 1
    later, _ = a_job(proceed=True)
    check_destination(directory, later)
    problem = SimpleNamespace(text="no answer", hint="wait", is_permanent=False)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "try_destination", lambda directory, name: problem)
        with pytest.raises(RetryableError, match="no answer"):
            check_destination(directory, job)
    in_job(CheckpointSettings(directory), incarnation=0)
    check_destination(directory, job)
    assert len(asked) == 2
