"""Everything that one parameter server keeps, and the only way to change it.

The state is a function of the specs and of the orders: ``define``, ``apply``, ``import_``, ``drop``. A pull changes
nothing: the value of a row that does not exist yet is computed, and the row is made by its first update. So two stores
that executed the same orders are equal to the last bit, and a pull may be sent again without a thought.

Pushes are staged, and applied by an order that names them with weights: the gradient is the sum of weight times gradient over
the contributions, rows merged by id, then one step of the optimizer; so an order with all workers' contributions equals
one step on their common batch. Neighbours: ``server`` (requests), ``node`` (orders), ``table`` and ``dense`` (the state).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pliant.ps.pieces import Applied, Contribution, Floats, Ids, Ownership, Piece, Push
from pliant.ps.placement import PARTITIONS
from pliant.ps.specs import Spec


class ParameterStore:
    """Tables and variables of one seat. Every method may be called from any thread."""

    def __init__(self, *, partitions: int = PARTITIONS) -> None:
        raise NotImplementedError

    @property
    def iteration(self) -> int:
        """The iteration that the state is of."""
        raise NotImplementedError

    def wait_for(self, iteration: int, timeout: float) -> bool:
        """Wait until this iteration (or a later one) is applied; False after ``timeout`` seconds without it."""
        raise NotImplementedError

    def define(self, spec: Spec) -> None:
        """Make a table or variable. Again with the same spec: nothing happens; with another: ``Conflict``."""
        raise NotImplementedError

    def specs(self) -> tuple[Spec, ...]:
        raise NotImplementedError

    def own(self, ownership: Ownership) -> None:
        """From now on requests for anything else are answered with ``Moved``. A new store owns everything (version 0)."""
        raise NotImplementedError

    def pull_rows(self, table: str, ids: Ids, out: Floats) -> None:
        """Write the rows of these ids into ``out`` (ids, dim). Raises ``Moved`` if one of them is not owned."""
        raise NotImplementedError

    def blocks(self, wanted: Sequence[tuple[str, int]]) -> AbstractContextManager[list[Floats]]:
        """The values of these blocks, without a copy and unchanging inside the ``with``."""
        raise NotImplementedError

    def changed_blocks(self, since: int) -> list[tuple[str, int]]:
        """Owned blocks whose value changed after this iteration."""
        raise NotImplementedError

    def stage(self, push: Push) -> bool:
        """Keep a push until an order names it. Checked first: shapes, ids, NaN; a bad one changes nothing.
        False: it is already here, or its sequence number was already applied or discarded."""
        raise NotImplementedError

    def apply(self, contributions: Sequence[Contribution], scale: float, iteration: int) -> Applied:
        """One step of every optimizer concerned, with learning rates times ``scale``; then the store is at ``iteration``.
        Staged pushes of the same sessions with lower sequence numbers are let go (they were not accepted)."""
        raise NotImplementedError

    def apply_now(self, push: Push) -> Applied:
        """Without orders: check and apply at once as the next iteration. For loops without a master."""
        raise NotImplementedError

    def discard(self, session: str) -> int:
        """Let go of everything that a session staged; how many pushes that were."""
        raise NotImplementedError

    def staged(self) -> list[tuple[str, int, int]]:
        """(session, sequence, part) of what is staged."""
        raise NotImplementedError

    def export(
        self, partitions: Collection[int], blocks: Collection[tuple[str, int]], *, rows_per_piece: int = 65536
    ) -> Iterator[Piece]:
        """Copies of all rows of these partitions (of every table) and of these blocks, state and counters included."""
        raise NotImplementedError

    def export_staged(self, partitions: Collection[int], blocks: Collection[tuple[str, int]], part: int) -> list[Push]:
        """The share of staged pushes that goes with these partitions and blocks, as copies marked with ``part``."""
        raise NotImplementedError

    def import_(self, pieces: Iterable[Piece]) -> int:
        """Take state as it is, over what is there; how many rows and blocks that were."""
        raise NotImplementedError

    def drop(self, partitions: Collection[int], blocks: Collection[tuple[str, int]]) -> int:
        """Forget these partitions of every table and these blocks; how many rows and blocks that were."""
        raise NotImplementedError

    def snapshot(self, since: int | None = None) -> list[Piece]:
        """One consistent copy of all (or of what changed after iteration ``since``) while pulls go on."""
        raise NotImplementedError

    def reset(self, iteration: int) -> None:
        """After a restore: the state is of this iteration."""
        raise NotImplementedError

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, staged pushes, iteration, seconds in apply; a table's own under ``tables``."""
        raise NotImplementedError
