"""The global generators of random numbers that a program may draw from: Python's, PyTorch's and NumPy's.

Each unit begins with all of them seeded by its number (``plan.unit_seed``), so that what it draws, in its records and in its model
alike, does not depend on who computes it. If the records were made elsewhere, how far that moved the generators comes with them.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import torch


def seed_all(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class RandomState:
    python: Any
    torch: bytes
    numpy: Any  # None: NumPy is not imported

    @classmethod
    def now(cls) -> RandomState:
        numpy = sys.modules.get("numpy")
        drawn = numpy.random.get_state() if numpy is not None else None
        kept = None if drawn is None else (drawn[0], drawn[1].tobytes(), *drawn[2:])
        return cls(random.getstate(), torch.get_rng_state().numpy().tobytes(), kept)

    def restore(self) -> None:
        random.setstate(self.python)
        torch.set_rng_state(torch.frombuffer(bytearray(self.torch), dtype=torch.uint8))
        if self.numpy is not None:
            import numpy

            name, keys, *rest = self.numpy
            numpy.random.set_state((name, numpy.frombuffer(keys, numpy.uint32), *rest))
