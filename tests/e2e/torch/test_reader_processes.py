"""Records that are read ahead by processes: the same result to the last bit, and no process is left behind."""

from __future__ import annotations

import multiprocessing
import os

import pytest
import torch
from tests.torch.read_ahead_data import Augmented, Broken, Killing, Plain, Seldom, loaders, make, train, work
from tests.torch.trainer_threads import alone, bits
from torch import nn

from pliant.core.errors import PliantError
from pliant.testing import wait_until
from pliant.torch import Trainer
from pliant.torch.read_ahead import _begin_process

pytestmark = pytest.mark.e2e


def test_an_error_of_the_dataset_is_raised_where_its_record_is_wanted() -> None:
    trainer = make()
    with pytest.raises(ValueError, match="record 17 is poison"):
        work(trainer, Broken(), shuffle=False, num_workers=1)
    assert trainer.step == 1, "records 0 to 11 are trained"
    wait_until(lambda: not loaders())


@pytest.mark.parametrize("kind", [Augmented, Seldom])
def test_processes_do_not_change_a_bit(kind: type[Plain]) -> None:
    assert train(kind(), num_workers=1, prefetch=3) == train(kind())
    assert not loaders()


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
