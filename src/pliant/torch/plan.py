"""Which records each micro-batch of each step has: a pure function, computed by every worker, never sent.

A step has ``units`` micro-batches (virtual workers, times accumulation). Unit ``u`` of step ``k`` of epoch ``e`` gets
``order(seed, e)[(k * units + u) * b : + b]``. Progress is one number, the count of committed steps, whatever happened
to the machines. The last step of an epoch may be short: then the last units have fewer records, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pliant.core.errors import InvalidRequest
from pliant.core.shards.permutation import Permutation, mix


@dataclass(frozen=True)
class StepPlan:
    records: int
    micro_batch: int
    units: int
    epochs: int = 1
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False

    def __post_init__(self) -> None:
        for name, minimum in (("records", 0), ("micro_batch", 1), ("units", 1), ("epochs", 1)):
            if getattr(self, name) < minimum:
                raise InvalidRequest(f"{name} is {getattr(self, name)}; the minimum is {minimum}")

    @property
    def steps_per_epoch(self) -> int:
        whole, rest = divmod(self.records, self.micro_batch * self.units)
        return whole + (1 if rest and not self.drop_last else 0)

    @property
    def steps(self) -> int:
        return self.steps_per_epoch * self.epochs

    def epoch_and_step(self, step: int) -> tuple[int, int]:
        """(epoch, step within it) of a global step."""
        return divmod(step, self.steps_per_epoch)

    def size(self, step: int) -> int:
        """Records of a whole step."""
        _, at = self.epoch_and_step(step)
        first = at * self.units * self.micro_batch
        return min(self.records - first, self.units * self.micro_batch)

    def records_of(self, steps: int) -> int:
        """Records of the first ``steps`` steps."""
        if not self.steps_per_epoch:
            return 0
        epochs, rest = divmod(steps, self.steps_per_epoch)
        per_step = self.units * self.micro_batch
        per_epoch = self.steps_per_epoch * per_step if self.drop_last else self.records
        return epochs * per_epoch + min(rest * per_step, per_epoch)

    def unit_size(self, step: int, unit: int) -> int:
        """Records of one unit."""
        _, at = self.epoch_and_step(step)
        first = (at * self.units + unit) * self.micro_batch
        return max(0, min(self.micro_batch, self.records - first))

    def indices(self, step: int, unit: int) -> Sequence[int]:
        """Records of one unit, in order; empty where the epoch's last step is short."""
        epoch, at = self.epoch_and_step(step)
        first = (at * self.units + unit) * self.micro_batch
        in_order = range(min(first, self.records), min(first + self.micro_batch, self.records))
        if not self.shuffle:
            return in_order
        order = _order(self.records, self.seed, epoch)
        return [order[i] for i in in_order]


@lru_cache(maxsize=4)
def _order(records: int, seed: int, epoch: int) -> Permutation:
    return Permutation(records, seed, "steps", epoch)


def unit_seed(seed: int, step: int, unit: int) -> int:
    """Seeds the randomness (dropout, augmentation) of one micro-batch, wherever it is computed."""
    return mix(mix(mix(seed & (1 << 64) - 1) ^ step) ^ (unit + 0x9E37)) >> 1
