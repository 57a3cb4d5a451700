"""Workers that were given different things, and checkpoints that are continued with other numbers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.torch.trainer_threads import TrainerThreads, Worker, alone, bits, digits, make_trainer
from torch import nn

from pliant.core.errors import InvalidRequest, PliantError
from pliant.torch import Trainer
from pliant.torch.loop_terms import are_equal, digest
from pliant.torch.worlds.membership import TrainingOver

DATA = digits()


def learn(trainer: Trainer, **options: Any) -> int:
    """The number of steps that were done."""
    done = 0
    for step in trainer.steps(DATA, micro_batch=3, **options):
        for x, y in step:
            step.backward(nn.functional.cross_entropy(trainer.model(x), y))
        done += 1
    return done


def trained(folder: Path | None = None, *, every: int = 0, **options: Any) -> tuple[Trainer, int]:
    saving: dict[str, Any] = {"checkpoint_dir": folder, "checkpoint_every_steps": every} if folder is not None else {}
    with alone() as job:
        trainer = make_trainer(job, **saving)
        done = learn(trainer, **options)
        trainer.close()
        return trainer, done


@given(st.lists(st.integers(0, 2**24 - 1), min_size=1, max_size=6))
def test_digests_are_equal_exactly_if_their_sums_say_so(digests: list[int]) -> None:
    sums = sum(digests), sum(d * d for d in digests)
    assert are_equal(*sums, len(digests)) == (len(set(digests)) == 1)


def test_terms_that_differ_have_other_digests() -> None:
    assert digest({"records": 64, "epochs": 2}) != digest({"records": 80, "epochs": 2})


@pytest.mark.parametrize(
    ("options", "shown"),
    [({"epochs": 3}, "epochs 2"), ({"max_steps": 3}, "max_steps none"), ({"shuffle": False}, "shuffle True")],
)
def test_workers_with_other_options_in_a_later_loop_fail_the_job_and_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], shown: str
) -> None:
    monkeypatch.setenv("PLIANT_ORPHAN_TIMEOUT", "0.5")  # of those who see it later, which no agent ends here

    def program(worker: Worker) -> None:
        for step in worker.trainer.steps(worker.data, micro_batch=3):
            worker.learn(step)
        other = options if worker.name == "worker-1" else {}
        for step in worker.trainer.steps(worker.data, micro_batch=3, **{"epochs": 2, **other}):
            worker.learn(step)

    with TrainerThreads(tmp_path, workers=2, data=DATA) as threads:
        for worker in threads.workers:
            worker.program = program
        with pytest.raises((PliantError, TrainingOver)):
            threads.work()
        assert threads.master.join() == "Failed"
        errors = [worker.error for worker in threads.workers]
        assert None not in errors, "nobody trains on alone"
        named = [str(error) for error in errors if isinstance(error, InvalidRequest)]
        assert any(f"different settings: {shown} on worker-0" in text and "on worker-1" in text for text in named)


@pytest.mark.parametrize("every", [0, 1, 3])
@pytest.mark.parametrize(
    ("first", "longer"),
    [({"epochs": 2}, {"epochs": 3}), ({"epochs": 3, "max_steps": 5}, {"epochs": 3}), ({"max_steps": 2}, {"epochs": 2})],
)
def test_a_training_that_is_extended_is_the_same_as_one_that_was_as_long_from_the_start(
    tmp_path: Path, every: int, first: dict[str, Any], longer: dict[str, Any]
) -> None:
    whole, steps = trained(**longer)
    _, begun = trained(tmp_path, every=every, **first)
    extended, added = trained(tmp_path, every=every, **longer)
    assert begun + added == steps
    assert added > 0
    assert bits(extended.model) == bits(whole.model)


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_finished_training_says_that_nothing_is_left_to_do(
    tmp_path: Path, epochs: int, caplog: pytest.LogCaptureFixture
) -> None:
    trained(tmp_path, epochs=2)
    with caplog.at_level(logging.WARNING):
        _, done = trained(tmp_path, epochs=epochs)
    assert done == 0
    assert "nothing left to do" in caplog.text
    assert "raise epochs or max_steps" in caplog.text


def test_a_checkpoint_of_other_data_says_what_differs_and_what_to_do(tmp_path: Path) -> None:
    trained(tmp_path, every=1, max_steps=2)
    with alone() as job:
        trainer = make_trainer(job, checkpoint_dir=tmp_path)
        with pytest.raises(InvalidRequest) as error:
            next(iter(trainer.steps(DATA[:30], micro_batch=2)))
    assert error.value.message == "Checkpoint does not match: records 38, now 30, micro_batch 3, now 2"
    assert "another checkpoint_dir" in error.value.hint


def test_checkpoints_without_a_directory_go_into_that_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIANT_JOB_DIR", str(tmp_path))
    with alone() as job:
        trainer = make_trainer(job, checkpoint_every_steps=2)
        learn(trainer)
        trainer.close()
    assert list((tmp_path / "checkpoints").iterdir())


def test_checkpoints_without_a_directory_are_refused_where_there_is_no_job() -> None:
    with alone() as job, pytest.raises(InvalidRequest, match="without a directory"):
        make_trainer(job, checkpoint_every_seconds=60.0)


def two_loops(folder: Path | None, *, until: int = 0, micro_batch: int = 3) -> tuple[Trainer, list[tuple[int, int]]]:
    """Three epochs, then two; with ``until`` it ends after so many steps in all, with a checkpoint of the last one."""
    saving: dict[str, Any] = {"checkpoint_dir": folder, "checkpoint_every_steps": until} if folder is not None else {}
    done: list[tuple[int, int]] = []
    with alone() as job:
        trainer = make_trainer(job, **saving)
        for loop, epochs, size in ((0, 3, 3), (1, 2, micro_batch)):
            for step in trainer.steps(DATA, micro_batch=size, epochs=epochs):
                for x, y in step:
                    step.backward(nn.functional.cross_entropy(trainer.model(x), y))
                done.append((loop, step.index))
                if len(done) == until:
                    trainer.close()
                    return trainer, done
        trainer.close()
    return trainer, done


def test_a_training_that_ended_in_its_second_loop_continues_there_though_the_first_was_longer(tmp_path: Path) -> None:
    whole, steps = two_loops(None)
    _, begun = two_loops(tmp_path, until=15)
    assert begun[-1] == (1, 2), "the checkpoint is of the second loop"
    resumed, added = two_loops(tmp_path)
    assert begun + added == steps
    assert bits(resumed.model) == bits(whole.model)


def test_a_checkpoint_of_a_second_loop_of_other_numbers_is_refused_when_that_loop_begins(tmp_path: Path) -> None:
    two_loops(tmp_path, until=15)
    with pytest.raises(InvalidRequest, match="micro_batch 3, now 2"):
        two_loops(tmp_path, micro_batch=2)


def test_a_checkpoint_that_has_a_plan_instead_of_terms_is_continued() -> None:
    with alone() as job:
        trainer = make_trainer(job)
        learn(trainer, max_steps=2)
        state = trainer.state_dict()
        trainer.close()
    del state["terms_loop"], state["position"]["ended_at"]
    plan = {name: value for name, value in state.pop("terms").items() if name != "max_steps"}
    state["plan"] = {**plan, "units": 4}
    state["position"] |= {"loop": 0, "step": 2}
    with alone() as job:
        other = make_trainer(job)
        other.load_state_dict(state)
        assert learn(other) == 2
        other.close()
