"""Where training is: the loop, and its committed steps.

A *loop* is one call of ``Trainer.steps``. ``progress`` orders positions: in a new world the worker with the highest one leads,
and whoever has a lower one takes the leader's state (``elastic_world``).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Position:
    loop: int = 0  # loops that are over
    step: int = 0  # committed steps of this loop
    loss: float = math.nan  # of the last committed step
    total: int = 0  # committed steps of all loops: the number of a checkpoint
    stopped: bool = False  # all workers agreed that this loop ends after the last committed step
    ended_at: int = 0  # committed steps of the loop that ended last

    @property
    def progress(self) -> int:
        """The number of the step boundary that was reached last, over all loops."""
        return self.loop << 40 | self.step

    def commit_step(self) -> None:
        self.step += 1
        self.total += 1

    def end_loop(self) -> None:
        self.loop, self.step, self.ended_at = self.loop + 1, 0, self.step

    def reopen_loop(self) -> None:
        """Continue the loop that ended last."""
        self.loop, self.step, self.stopped = self.loop - 1, self.ended_at, False

    def state(self) -> dict[str, Any]:
        return asdict(self)

    def load_state(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
