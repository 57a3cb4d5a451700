"""What an ordinary training loop can do, the two loops can: alone as with many workers, and with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.torch.trainer_threads import TrainerThreads, Worker, alone, bits, digits
from torch import nn

from pliant.client.job import Job
from pliant.torch import Step, StepPlan, Trainer

pytestmark = pytest.mark.e2e  # a real master, and several workers around it

DATA = digits(44)  # three steps of 16 records, the last one short
LOSS = nn.functional.cross_entropy


class Net(nn.Module):
    """With a layer that is used only for some inputs, one that never is, and one without gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.rare = nn.Linear(8, 8)
        self.unused = nn.Linear(3, 3)
        self.fixed = nn.Parameter(torch.full((8,), 0.5), requires_grad=False)
        self.head = nn.Linear(8, 2)
        self.rarely = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.body(x)) + self.fixed
        if self.rarely:
            h = h + self.rare(h)
        out: torch.Tensor = self.head(h)
        return out


@dataclass
class Feature:
    """How to build the Trainer's options, and the same by hand."""

    optimizers: Callable[[Net], list[torch.optim.Optimizer]] = lambda net: [torch.optim.SGD(net.parameters(), lr=0.1)]
    options: Callable[[Net, list[torch.optim.Optimizer]], dict[str, Any]] = lambda net, made: {}
    before_step: Callable[[Net, int], None] = lambda net, index: None
    autocast: bool = False
    by_hand: bool = True  # whether a plain loop shows the same
    extra: dict[str, Any] = field(default_factory=dict)


def schedule(made: list[torch.optim.Optimizer]) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.SequentialLR(
        made[0],
        [
            torch.optim.lr_scheduler.LinearLR(made[0], total_iters=3),
            torch.optim.lr_scheduler.LambdaLR(made[0], lambda step: 0.9**step),
        ],
        milestones=[3],
    )


def two(net: Net) -> list[torch.optim.Optimizer]:
    shared = [*net.body.parameters(), *net.rare.parameters(), *net.unused.parameters()]
    return [torch.optim.AdamW(shared, lr=0.01), torch.optim.SGD(net.head.parameters(), lr=0.1, momentum=0.9)]


def freeze_late(net: Net, index: int) -> None:
    net.body.requires_grad_(index < 3)


def use_late(net: Net, index: int) -> None:
    net.rarely = index in (3, 4)


FEATURES: dict[str, Feature] = {
    "sgd": Feature(),
    "momentum": Feature(lambda net: [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)]),
    "adam": Feature(lambda net: [torch.optim.Adam(net.parameters(), lr=0.01)]),
    "a scheduler for each step": Feature(options=lambda net, made: {"scheduler": schedule(made)}),
    "a scheduler for each epoch": Feature(
        options=lambda net, made: {
            "scheduler": torch.optim.lr_scheduler.StepLR(made[0], 1, gamma=0.5),
            "scheduler_every": "epoch",
        }
    ),
    "clipping by norm": Feature(options=lambda net, made: {"clip_grad_norm": 0.05}),
    "clipping by value": Feature(options=lambda net, made: {"clip_grad_value": 0.01}),
    "accumulation": Feature(extra={"virtual_workers": 2, "accumulate": 2}),
    "several optimizers": Feature(two),
    "a parameter of two optimizers": Feature(
        lambda net: [
            torch.optim.SGD(net.parameters(), lr=0.05),
            torch.optim.SGD(net.head.parameters(), lr=0.05, momentum=0.5),
        ]
    ),
    "layers frozen half-way": Feature(
        lambda net: [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)], before_step=freeze_late
    ),
    "layers used only in some steps": Feature(
        lambda net: [torch.optim.Adam(net.parameters(), lr=0.01)], before_step=use_late
    ),
    "a gradient scaler": Feature(
        options=lambda net, made: {"scaler": torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)}
    ),
    "autocast and a gradient scaler": Feature(
        options=lambda net, made: {"scaler": torch.amp.GradScaler("cpu", init_scale=1024.0)},
        autocast=True,
        by_hand=False,
    ),
    "a hook on the gradients": Feature(
        options=lambda net, made: {"on_gradients": partial(halve, net)},
    ),
}


def halve(net: Net) -> None:
    for param in net.parameters():
        if param.grad is not None:
            param.grad.mul_(0.5)


def build(feature: Feature, job: Job) -> Trainer:
    torch.manual_seed(1)
    net = Net()
    made = feature.optimizers(net)
    options = {"virtual_workers": 4, **feature.options(net, made), **feature.extra}
    return Trainer(net, made, job=job, **options)


def run(feature: Feature, trainer: Trainer) -> Iterator[Step]:
    net = trainer.model
    assert isinstance(net, Net)
    for step in trainer.steps(DATA, micro_batch=4, epochs=2):
        feature.before_step(net, step.index)
        for x, y in step:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=feature.autocast):
                step.backward(LOSS(net(x), y))
        yield step


def plainly(feature: Feature) -> Net:
    """An ordinary loop with batches of N times b."""
    torch.manual_seed(1)
    net = Net()
    optimizers = feature.optimizers(net)
    options = feature.options(net, optimizers)
    plan = StepPlan(len(DATA), 4, 4, epochs=2)
    for index in range(plan.steps):
        feature.before_step(net, index)
        records = [DATA[r] for unit in range(4) for r in plan.indices(index, unit)]
        x, y = torch.stack([r[0] for r in records]), torch.stack([r[1] for r in records])
        net.zero_grad()
        torch.autograd.backward(LOSS(net(x), y))
        if "on_gradients" in options:
            options["on_gradients"]()
        if "clip_grad_norm" in options:
            nn.utils.clip_grad_norm_(net.parameters(), options["clip_grad_norm"])
        if "clip_grad_value" in options:
            nn.utils.clip_grad_value_(net.parameters(), options["clip_grad_value"])
        for optimizer in optimizers:
            optimizer.step()
        ends_epoch = plan.epoch_and_step(index)[1] == plan.steps_per_epoch - 1
        if "scheduler" in options and (ends_epoch or "scheduler_every" not in options):
            options["scheduler"].step()
    return net


@pytest.mark.parametrize("name", [name for name, feature in FEATURES.items() if feature.by_hand])
def test_it_trains_as_an_ordinary_loop_with_large_batches_does(name: str) -> None:
    trainer = build(FEATURES[name], alone())
    losses = [step.loss for step in run(FEATURES[name], trainer)]
    assert len(losses) == 6
    expected = plainly(FEATURES[name]).state_dict()
    for key, value in trainer.model.state_dict().items():
        torch.testing.assert_close(value, expected[key], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("name", FEATURES)
def test_it_gives_the_same_bits_with_three_workers_one_death_and_one_joiner(tmp_path: Path, name: str) -> None:
    feature = FEATURES[name]
    trainer = build(feature, alone())
    expected_losses = [step.loss for step in run(feature, trainer)]
    losses: dict[str, list[float]] = {}

    def program(worker: Worker) -> None:
        losses[worker.name] = [step.loss for step in run(feature, worker.trainer)]

    with (
        TrainerThreads(tmp_path, workers=3, data=DATA, build=partial(build, feature)) as threads,
        threads.points(),
    ):
        joiner = threads.add_worker(program)
        for worker in threads.workers:
            worker.program = program

        def let_it_in() -> None:
            threads.start(joiner)
            threads.wait_for_joiner(threads.workers[0])

        threads.workers[0].does(let_it_in, "before the collective", step=1)
        threads.workers[1].dies("before the optimizer", step=3)
        threads.start(*threads.workers[:3])
        threads.finish()
        threads.assert_all_equal(bits(trainer.model))
    assert losses["worker-0"] == expected_losses


def test_the_loss_of_a_step_is_the_mean_over_all_its_records() -> None:
    trainer = build(FEATURES["sgd"], alone())
    net = trainer.model
    plan = StepPlan(len(DATA), 4, 4, epochs=2)
    for step in trainer.steps(DATA, micro_batch=4, epochs=2):
        records = [DATA[r] for unit in range(4) for r in plan.indices(step.index, unit)]
        with torch.no_grad():
            expected = LOSS(net(torch.stack([r[0] for r in records])), torch.stack([r[1] for r in records])).item()
        for x, y in step:
            step.backward(LOSS(net(x), y))
        assert step.loss == pytest.approx(expected, rel=1e-5)
        assert step.records == len(records)


def test_a_scaler_skips_a_step_that_overflowed_on_every_worker_alike(tmp_path: Path) -> None:
    data = [(x * (float("inf") if i == 5 else 1.0), y) for i, (x, y) in enumerate(DATA)]
    feature = FEATURES["a gradient scaler"]

    def program(worker: Worker) -> None:
        for step in worker.trainer.steps(data, micro_batch=4):
            worker.learn(step)

    with TrainerThreads(tmp_path, workers=2, data=data, build=partial(build, feature)) as threads:
        for worker in threads.workers:
            worker.program = program
        threads.work()
        first, second = (worker.trainer for worker in threads.workers)
        assert first.scaler.get_scale() == second.scaler.get_scale()
        assert bits(first.model) == bits(second.model)
        assert all(p.isfinite().all() for p in first.model.parameters())


def test_a_worker_without_a_micro_batch_has_the_scaler_of_the_others(tmp_path: Path) -> None:
    feature = FEATURES["a gradient scaler"]
    alike = Feature(options=feature.options, extra={"virtual_workers": 2})

    def program(worker: Worker) -> None:
        for step in worker.trainer.steps(DATA, micro_batch=4):
            worker.learn(step)

    with TrainerThreads(tmp_path, workers=3, data=DATA, build=partial(build, alike)) as threads:
        for worker in threads.workers:
            worker.program = program
        threads.work()
        assert not all(worker.computed for worker in threads.workers), "three workers share two micro-batches"
        assert len({worker.trainer.scaler.get_scale() for worker in threads.workers}) == 1
        first, *others = (bits(worker.trainer.model) for worker in threads.workers)
        assert all(other == first for other in others)


def test_parameters_of_half_precision_are_trained(tmp_path: Path) -> None:
    def half(job: Job) -> Trainer:
        torch.manual_seed(1)
        net = nn.Linear(6, 2).to(torch.bfloat16)
        return Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), virtual_workers=4, job=job)

    data = [(x.to(torch.bfloat16), y) for x, y in DATA]
    with TrainerThreads(tmp_path, workers=2, data=data, build=half) as threads:
        threads.work()
        assert bits_of_half(threads.workers[0]) == bits_of_half(threads.workers[1])


def bits_of_half(worker: Worker) -> list[bytes]:
    return [p.detach().view(torch.int16).numpy().tobytes() for p in worker.trainer.model.parameters()]


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_dataset_smaller_than_a_step_is_trained_on(tmp_path: Path, records: int, workers: int) -> None:
    data = DATA[:records]
    build_one = partial(build, FEATURES["sgd"])
    trainer = build_one(alone())
    trainer.fit(lambda net, batch: LOSS(net(batch[0]), batch[1]), data, micro_batch=4, epochs=2)
    assert trainer.step == 0  # of the next loop
    with TrainerThreads(tmp_path, workers=workers, data=data, build=build_one) as threads:
        threads.work()
        threads.assert_all_equal(bits(trainer.model))
        threads.assert_each_record_once(records)


def test_fit_is_the_two_loops(tmp_path: Path) -> None:
    seen: list[int] = []
    one, other = (build(FEATURES["adam"], alone()) for _ in range(2))
    one.fit(
        lambda net, batch: LOSS(net(batch[0]), batch[1]),
        DATA,
        micro_batch=4,
        epochs=2,
        max_steps=5,
        on_step=lambda step: seen.append(step.index),
    )
    for step in other.steps(DATA, micro_batch=4, epochs=2, max_steps=5):
        for x, y in step:
            step.backward(LOSS(other.model(x), y))
    assert seen == [0, 1, 2, 3, 4]
    assert bits(one.model) == bits(other.model)


def test_a_state_restores_the_middle_of_a_training() -> None:
    whole = build(FEATURES["a scheduler for each step"], alone())
    saved: dict[str, Any] = {}
    for step in run(FEATURES["a scheduler for each step"], whole):
        if step.index == 2:
            from pliant.checkpoint.packing import pack, unpack

            packed = pack(whole.state_dict())
            buffer = torch.empty(packed.nbytes, dtype=torch.uint8)
            packed.copy_into(buffer)
            saved = unpack(packed.header, buffer)
    rest = build(FEATURES["a scheduler for each step"], alone())
    rest.load_state_dict(saved)
    assert [step.index for step in run(FEATURES["a scheduler for each step"], rest)] == [3, 4, 5]
    assert bits(rest.model) == bits(whole.model)
