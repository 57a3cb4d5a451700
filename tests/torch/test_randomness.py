"""Random numbers inside the inner loop depend on seed, step and virtual worker, and on nothing else."""

from __future__ import annotations

import random

import numpy as np
import torch
from tests.torch.trainer_threads import alone, digits, make_trainer
from torch import nn

Drawn = dict[tuple[int, int], tuple[float, float, float]]  # by step and unit


def draw(noise: int, **options: int) -> Drawn:
    """``noise``: what the generators have been used for before, and between micro-batches."""
    drawn: Drawn = {}
    trainer = make_trainer(alone(), **options)
    for step in trainer.steps(digits(), micro_batch=3):
        for x, y in step:
            drawn[step.index, step.unit] = (random.random(), float(np.random.rand()), float(torch.rand(())))
            step.backward(nn.functional.cross_entropy(trainer.model(x), y))
            random.seed(noise), np.random.seed(noise), torch.manual_seed(noise)
    return drawn


def test_generators_of_python_numpy_and_torch_begin_anew_in_each_micro_batch() -> None:
    drawn = draw(noise=1)
    assert drawn == draw(noise=2)
    assert len(set(drawn.values())) == len(drawn) > 12
    assert draw(noise=1, seed=9) != drawn


def test_exact_training_fixes_the_number_of_threads_inside_operators() -> None:
    torch.set_num_threads(2)
    make_trainer(alone(), deterministic=False)
    assert torch.get_num_threads() == 2
    make_trainer(alone())
    assert torch.get_num_threads() == 1
    make_trainer(alone(), threads=2)
    assert torch.get_num_threads() == 2
