"""What is handed to a store and taken from it: gradients on their way in, state on its way out or elsewhere.

The arrays are views wherever they can be: into a receive buffer (pushes) or into memory made for the occasion (exports).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pliant.core.parameters.orders import Contribution

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
Counters = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class RowGradients:
    """Gradients of rows of one table: ``gradients[i]`` belongs to ``ids[i]``. ``unique``: no id comes twice."""

    table: str
    ids: Ids
    gradients: Floats  # (ids, dim)
    unique: bool = False


@dataclass(frozen=True)
class BlockGradient:
    """The gradient of one block of a dense variable, or (``assign``) its new value."""

    variable: str
    block: int
    gradient: Floats
    assign: bool = False


@dataclass(frozen=True)
class Push:
    """What one worker sends to one seat for one batch. It is known by (session, sequence, part).

    The sequence numbers of a session rise, and are contributed in that order. ``part`` is 0 except for what a move
    forwards from one seat to another (``part`` = 1 + the seat it was first sent to).
    """

    session: str
    sequence: int
    examples: int = 1
    based_on: int = 0
    rows: tuple[RowGradients, ...] = ()
    blocks: tuple[BlockGradient, ...] = ()
    part: int = 0
    finite: bool = field(default=False, compare=False, repr=False)
    """The gradients were already looked at for NaN and infinity."""
    release: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    """Called once the arrays are no longer needed, so that their buffer can be used again."""
    void: tuple[int, ...] = field(default=(), compare=False)
    """Sequence numbers of the session that were refused: no order will name what the seat keeps of them."""


@dataclass(frozen=True)
class Applied:
    """What an apply order did here. ``missing``: contributions of which nothing was staged."""

    iteration: int
    rows: int
    seconds: float
    missing: tuple[Contribution, ...] = ()


@dataclass(frozen=True)
class RowBatch:
    """Rows of a table with everything that belongs to them. ``data[i]`` is the value (dim floats), then each state of the
    optimizer (dim floats each); ``counters[i]`` is (number of updates, iteration of the last update)."""

    table: str
    ids: Ids
    data: Floats  # (ids, dim * (1 + states))
    counters: Counters  # (ids, 2)


@dataclass(frozen=True)
class BlockState:
    """A block with everything that belongs to it: ``data[0]`` is the value, then each state of the optimizer."""

    variable: str
    block: int
    data: Floats  # (1 + states, length)
    changed: int  # iteration of the last update


@dataclass(frozen=True)
class Evicted:
    """Rows that were forgotten; in an increment they go before its rows come."""

    table: str
    ids: Ids


StateChunk = RowBatch | BlockState | Evicted


@dataclass(frozen=True)
class Ownership:
    """What a seat owns by the map of this version. ``blocks`` None: all."""

    map_version: int
    partitions: npt.NDArray[np.uint8]  # 1 where owned
    blocks: frozenset[tuple[str, int]] | None = None

    def owns_block(self, variable: str, block: int) -> bool:
        return self.blocks is None or (variable, block) in self.blocks
