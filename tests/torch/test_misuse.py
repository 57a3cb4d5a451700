"""Mistakes in a training program are told apart from faults of machines, with a hint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.torch.trainer_threads import TrainerThreads, alone, bits, digits, make_trainer, net
from torch import nn

from pliant.core.errors import InvalidRequest, PliantError
from pliant.torch import Step, Trainer
from pliant.torch.worlds.membership import TrainingOver

DATA = digits(24)
RECORDS: Any = DATA  # a list will do as a dataset, for torch as well


def trainer(**options: Any) -> Trainer:
    return make_trainer(alone(), **options)


def loss_of(made: Trainer, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(made.model(batch[0]), batch[1])


@pytest.mark.parametrize(
    "wrong",
    [
        {"virtual_workers": 0},
        {"accumulate": 0},
        {"scheduler_every": "year"},
        {"virtual_workers": 1 << 10, "accumulate": 1 << 10},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        trainer(**wrong)


def skip(made: Trainer, step: Step) -> None:
    for _ in step:
        pass


def ask_twice(made: Trainer, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(made, batch))
        step.backward(loss_of(made, batch))


def ask_outside(made: Trainer, step: Step) -> None:
    step.backward(torch.zeros(1, requires_grad=True))


def ask_for_many(made: Trainer, step: Step) -> None:
    for x, _ in step:
        step.backward(made.model(x))


def leave_early(made: Trainer, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(made, batch))
        break


def leave_and_return(made: Trainer, step: Step) -> None:
    leave_early(made, step)
    leave_early(made, step)


def do_nothing(made: Trainer, step: Step) -> None:
    pass


def use_plain_backward(made: Trainer, step: Step) -> None:
    for batch in step:
        loss_of(made, batch).backward()  # type: ignore[no-untyped-call]


def step_inside(made: Trainer, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(made, batch))
        made.optimizers[0].step()


def step_after(made: Trainer, step: Step) -> None:
    for batch in step:
        step.backward(loss_of(made, batch))
    made.optimizers[0].step()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (skip, r"step\.backward was not called for a micro-batch of step 0; "),
        (use_plain_backward, r"loss\.backward\(\) was called instead; .*step\.backward\(loss\)"),
        (step_inside, r"optimizer\.step\(\) was called in a loop of the Trainer"),
        (step_after, r"optimizer\.step\(\) was called in a loop of the Trainer"),
        (ask_twice, "called twice"),
        (ask_outside, "call step.backward inside"),
        (ask_for_many, "must be a scalar"),
        (leave_early, "not iterated to its end"),
        (leave_and_return, "iterated only once"),
        (do_nothing, "was not iterated; "),
    ],
)
def test_a_body_that_breaks_the_rules_of_a_step_is_told_which(body: Callable[[Trainer, Step], None], told: str) -> None:
    made = trainer()
    steps = made.steps(DATA, micro_batch=3)

    def run() -> None:
        for step in steps:
            body(made, step)

    with pytest.raises(PliantError) as caught:
        run()
    assert re.search(told, f"{caught.value.message}; {caught.value.hint}")


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_in_a_loop_changes_nothing(set_to_none: bool) -> None:
    plain, zeroing = trainer(), trainer()
    zeroing.model.load_state_dict(plain.model.state_dict())
    for made in (plain, zeroing):
        for step in made.steps(DATA, micro_batch=3):
            for batch in step:
                if made is zeroing:
                    made.optimizers[0].zero_grad(set_to_none=set_to_none)
                step.backward(loss_of(made, batch))
                if made is zeroing:
                    made.optimizers[0].zero_grad(set_to_none=set_to_none)
    assert bits(plain.model) == bits(zeroing.model)


def test_outside_of_a_loop_the_optimizer_is_the_programs_own() -> None:
    made = trainer()
    made.fit(lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]), DATA, micro_batch=3)
    made.optimizers[0].zero_grad()
    loss_of(made, next(iter(torch.utils.data.DataLoader(RECORDS, 4)))).backward()  # type: ignore[no-untyped-call]
    made.optimizers[0].step()


class Stream(torch.utils.data.IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (torch.utils.data.DataLoader(RECORDS, batch_size=6), "DataLoader; .*loader.dataset, micro_batch=6"),
        (Stream(), "map-style dataset.*Stream is not one"),
        (iter([1, 2]), "map-style dataset"),
        (torch.utils.data.Subset(RECORDS, []), "is empty"),
    ],
)
def test_what_is_not_a_dataset_with_records_is_refused_with_what_to_pass(given: Any, told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        next(iter(trainer().steps(given, micro_batch=3)))
    assert re.search(told, f"{caught.value.message}; {caught.value.hint}")


def test_parameters_that_no_optimizer_has_are_named(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    Trainer(model, torch.optim.SGD(model[0].parameters(), lr=1.0), virtual_workers=2)
    assert "2 parameters of the model are in no optimizer and stay as they are: 1.weight, 1.bias" in caplog.text
    caplog.clear()
    model[1].requires_grad_(False)
    Trainer(model, torch.optim.SGD(model[0].parameters(), lr=1.0), virtual_workers=2)
    assert not caplog.text


def test_another_loop_after_a_step_that_was_left_is_an_error() -> None:
    made = trainer()
    for step in made.steps(DATA, micro_batch=3):
        leave_early(made, step)
        break
    with pytest.raises(PliantError, match="not iterated to its end"):
        next(iter(made.steps(DATA, micro_batch=3)))


def test_an_error_of_the_program_is_its_own() -> None:
    def loss_fn(model: nn.Module, batch: Any) -> torch.Tensor:
        raise ZeroDivisionError

    made = trainer()
    with pytest.raises(ZeroDivisionError):
        made.fit(loss_fn, DATA, micro_batch=3)


def test_parameters_outside_the_model_are_refused_since_joiners_would_not_get_them() -> None:
    model, centres = net(), nn.Parameter(torch.zeros(3))
    with pytest.raises(InvalidRequest, match="not in the model"):
        Trainer(model, torch.optim.SGD([*model.parameters(), centres], lr=1.0), virtual_workers=2)


def test_a_scheduler_that_needs_a_metric_is_refused() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(InvalidRequest, match="ReduceLROnPlateau"):
        Trainer(model, optimizer, virtual_workers=2, scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))


def test_a_state_of_another_training_is_refused() -> None:
    state = trainer(virtual_workers=4).state_dict()
    with pytest.raises(InvalidRequest, match="virtual_workers"):
        trainer(virtual_workers=2).load_state_dict(state)


def test_a_worker_with_another_dataset_is_refused_instead_of_trained_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIANT_ORPHAN_TIMEOUT", "2")  # of the other one, which no agent ends here
    with TrainerThreads(tmp_path, workers=2, data=DATA) as threads:
        threads.workers[0].data = digits(36)
        with pytest.raises((PliantError, TrainingOver)):  # the one who sees it, the other when the job has failed
            threads.work()
        shown = "records 36 on worker-0, 24 on worker-1"
        errors = [str(worker.error) for worker in threads.workers]
        assert any(shown in error for error in errors), errors
        assert threads.master.join() == "Failed"


def test_a_second_trainer_in_a_job_is_refused_since_joiners_could_not_tell_them_apart(tmp_path: Path) -> None:
    with TrainerThreads(tmp_path, workers=1, data=DATA) as threads:
        threads.work()
        second = make_trainer(threads.workers[0].trainer._job)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="already has a Trainer"):
            next(iter(second.steps(DATA, micro_batch=3)))


def test_a_gradient_that_changes_after_it_was_sent_is_an_error_and_not_a_wrong_sum(tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.detach().requires_grad_()
            x = checkpoint(self.layer, x, use_reentrant=True)
            out: torch.Tensor = checkpoint(self.layer, x, use_reentrant=True)
            return out

    def build(job: Any) -> Trainer:
        model = Twice()
        return Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), virtual_workers=2, job=job)

    with (
        TrainerThreads(tmp_path, workers=2, data=DATA, build=build) as threads,
        pytest.raises(InvalidRequest, match="after it was sent"),
    ):
        threads.work()
