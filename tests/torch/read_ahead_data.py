"""Datasets for tests of reading ahead: what they read is counted, and they draw, fail or die; and a training over them.

Processes that read import this module.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tests.torch.trainer_threads import alone, bits, digits
from torch import nn

from pliant.torch import Trainer

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
