"""Records that are read ahead, by processes or threads: the same result to the last bit, bounded, and nothing is left behind."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.torch.trainer_threads import alone, bits, digits
from torch import nn

from pliant.core.errors import InvalidRequest, PliantError
from pliant.testing import wait_until
from pliant.torch import Trainer
from pliant.torch.read_ahead import _begin_process

RECORDS = 38


class Plain:
    """Counts its reads, of all threads."""

    def __init__(self) -> None:
        self.rows = digits(RECORDS)
        self.reads = 0

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.reads += 1
        return self.rows[index]


class Augmented(Plain):
    """Draws from all three generators."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = super().__getitem__(index)
        return x + torch.rand(6) * random.random() + float(np.random.rand()), y


class Seldom(Plain):
    """Draws for some records only."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = super().__getitem__(index)
        return (x + torch.rand(6) if index % 5 == 0 else x), y


class Broken(Plain):
    def __getitem__(self, index: int) -> Any:
        if index == 17:
            raise ValueError("record 17 is poison")
        return super().__getitem__(index)


class Killing(Plain):
    """Reading record 17 is the end of the process."""

    def __getitem__(self, index: int) -> Any:
        if index == 17 and multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def make() -> Trainer:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Trainer(model, optimizer, virtual_workers=4, job=alone())


def train(dataset: Any, **options: Any) -> dict[str, bytes]:
    trainer = make()
    work(trainer, dataset, **options)
    return bits(trainer.model)


def work(trainer: Trainer, dataset: Any, **options: Any) -> None:
    for step in trainer.steps(dataset, micro_batch=3, epochs=2, **options):
        for x, y in step:
            step.backward(nn.functional.cross_entropy(trainer.model(x), y))


def loaders() -> Sequence[Any]:
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("pliant-records")]
    return [*threads, *multiprocessing.active_children()]


@pytest.mark.parametrize("kind", [Augmented, Seldom])
def test_processes_do_not_change_a_bit(kind: type[Plain]) -> None:
    assert train(kind(), num_workers=1, prefetch=3) == train(kind())
    assert not loaders()


@pytest.mark.parametrize("prefetch", [None, 1, 7])
def test_threads_do_not_change_a_bit(prefetch: int | None) -> None:
    assert train(Plain(), num_threads=2, prefetch=prefetch) == train(Plain())
    assert not loaders()


def test_a_dataset_that_draws_random_numbers_is_not_read_by_threads(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert train(Augmented(), num_threads=2) == train(Augmented())
    assert caplog.text.count("the dataset draws random numbers") == 1
    assert "num_workers" in caplog.text


def test_no_more_is_read_ahead_than_asked_for() -> None:
    trainer, dataset = make(), Plain()
    taken = 0
    for step in trainer.steps(dataset, micro_batch=1, epochs=1, num_threads=2, prefetch=3):
        for x, y in step:
            taken += 1
            due = min(taken + 3, RECORDS)
            wait_until(lambda due=due: dataset.reads >= due)  # type: ignore[misc]
            assert dataset.reads == due
            step.backward(nn.functional.cross_entropy(trainer.model(x), y))
    assert dataset.reads == RECORDS


@pytest.mark.parametrize("how", [{"num_workers": 1}, {"num_threads": 2}])
def test_an_error_of_the_dataset_is_raised_where_its_record_is_wanted(how: dict[str, int]) -> None:
    trainer = make()
    with pytest.raises(ValueError, match="record 17 is poison"):
        work(trainer, Broken(), shuffle=False, **how)
    assert trainer.step == 1, "records 0 to 11 are trained"
    wait_until(lambda: not loaders())


def test_the_end_of_a_process_that_reads_is_an_error_that_says_so() -> None:
    with pytest.raises(PliantError, match="a process that reads records ended while step 1 was read") as caught:
        train(Killing(), shuffle=False, num_workers=1, prefetch=1)
    assert "num_workers" in str(caught.value.hint)
    wait_until(lambda: not loaders())


def test_a_loop_that_is_left_leaves_no_readers() -> None:
    trainer = make()
    steps = trainer.steps(Plain(), micro_batch=1, epochs=9, num_workers=1)
    step = next(steps)
    for x, y in step:
        step.backward(nn.functional.cross_entropy(trainer.model(x), y))
    assert loaders()
    steps.close()  # type: ignore[attr-defined]
    assert not loaders()


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"num_threads": 1000},
        {"num_workers": 1, "num_threads": 1},
        {"prefetch": 2},
        {"num_workers": 1, "prefetch": 0},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        train(Plain(), **options)


@pytest.mark.parametrize("killed", [False, True])
def test_a_reader_whose_trainer_was_killed_while_it_started_ends(killed: bool) -> None:
    """It has no sign of that: it came too late to be told by the kernel, and holds its own queue open."""
    parent = os.getppid() if killed else os.getpid()  # whose child a reader is not
    reader = multiprocessing.get_context("spawn").Process(
        target=_begin_process, args=(None, None, parent, 1, torch.float32)
    )
    reader.start()
    reader.join(60)
    assert reader.exitcode == int(killed)


class Summed(Plain):
    """Computes with operators whose bits depend on the number of threads and on the type of new tensors."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(1 << 17, generator=torch.Generator().manual_seed(index))
        return torch.stack([x[first:].sum() for first in range(6)]).float(), self.rows[index][1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_processes_compute_with_the_threads_and_the_type_of_the_trainer(dtype: torch.dtype) -> None:
    data, threads = Summed(), torch.get_num_threads()
    results = []
    torch.set_default_dtype(dtype)
    try:
        for processes in (0, 1):
            torch.manual_seed(0)
            model = nn.Linear(6, 2).float()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            trainer = Trainer(model, optimizer, virtual_workers=2, threads=2, job=alone())
            for step in trainer.steps(data, micro_batch=3, max_steps=3, num_workers=processes):
                for x, y in step:
                    step.backward(nn.functional.cross_entropy(model(x), y))
            results.append(bits(model))
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(threads)
    assert results[0] == results[1]
