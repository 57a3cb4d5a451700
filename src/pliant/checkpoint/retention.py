"""Retention: which checkpoints stay. The newest K, those of every n-th step, and always the newest good one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    last: int = 3
    every: int = 0  # steps; 0: none is kept forever

    def to_delete(self, good: Collection[int], bad: Collection[int]) -> list[int]:
        """Of the steps with a good checkpoint, and those whose checkpoint is incomplete or damaged.

        A bad one goes once a newer good one is there; before that it may still be in the making.
        """
        if not good:
            return []
        newest = sorted(good)[-max(self.last, 1) :]
        old = [step for step in good if step not in newest and not (self.every and step % self.every == 0)]
        return sorted([*old, *(step for step in bad if step < newest[-1] and step not in good)])
