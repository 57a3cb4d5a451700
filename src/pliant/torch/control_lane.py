"""The control lane: what all workers learn of each other in a step, as int64 sums that travel beside the gradients.

One vector: a head (one word per ``Word``), who brought which unit, how often each trained parameter was used, and the raw bits
of the module buffers. Since all workers see the same sums, all make the same decisions without another message.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum

import torch


class Word(IntEnum):
    REFORM = 0  # reasons for another world: joiners that wait, virtual workers that were assigned otherwise
    LOSS = 1
    LOST_LOSSES = 2
    LEAVING = 3  # workers that were asked to terminate
    SAVE = 4  # workers that ask for a checkpoint
    BUSY = 5  # workers that cannot take one now
    STOP = 6  # workers that want to end the loop
    TERMS = 7  # digests of the terms of the loop (``loop_terms``)
    TERMS_SQUARED = 8


class ControlLane:
    def __init__(self, units: int, params: int, buffer_words: int) -> None:
        first = len(Word)
        self.tensor = torch.zeros(first + units + params + buffer_words, dtype=torch.int64)
        self._units = slice(first, first + units)
        self._used = slice(first + units, first + units + params)
        self._buffers = slice(first + units + params, None)

    def __getitem__(self, word: Word) -> int:
        return int(self.tensor[word])

    def __setitem__(self, word: Word, value: int) -> None:
        self.tensor[word] = value

    def set_units(self, done: Collection[int]) -> None:
        self.tensor[self._units][torch.tensor(list(done), dtype=torch.int64)] = 1

    def set_used(self, used: Sequence[int]) -> None:
        self.tensor[self._used] = torch.tensor(used, dtype=torch.int64)

    def unit_counts(self) -> list[int]:
        """How many workers brought each unit."""
        counts: list[int] = self.tensor[self._units].tolist()
        return counts

    def used(self) -> list[int]:
        used: list[int] = self.tensor[self._used].tolist()
        return used

    @property
    def buffers(self) -> torch.Tensor:
        return self.tensor[self._buffers]
