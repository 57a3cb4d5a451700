"""Dumps of all parameters, and the chain of them that a restarted server is restored from.

A dump holds the state after one order, in files that each seat writes for itself. It is complete when every seat has written
its part. A full dump holds everything, an incremental one what changed since the dump before it: to restore, a full one and
the increments after it are loaded. ``base``, the newest complete dump, is where replay of the log begins.

``DumpChain`` is a part of ``core/parameters/book.py``; ``ps/files.py`` knows where the files are, ``ps/recovery/dumps.py``
what is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pliant.core.errors import Conflict
from pliant.core.parameters.definitions import Definition
from pliant.core.parameters.partition_map import PartitionMap


@dataclass(frozen=True, slots=True)
class Dump:
    """All parameters as they were after one order, in files of the seats that existed then."""

    order: int
    iteration: int
    full: bool
    seats: tuple[int, ...]
    parameter_map: Mapping[str, Any]
    tables: tuple[Definition, ...]
    variables: tuple[Definition, ...]
    initialized: tuple[str, ...]
    begun: float = 0.0
    written: tuple[int, ...] = ()  # seats

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Dump:
        given = dict(value)
        for name in ("seats", "tables", "variables", "initialized", "written"):
            given[name] = tuple(given[name])
        return cls(**given)

    def with_written(self, seat: int) -> Dump:
        return self if seat in self.written else replace(self, written=(*self.written, seat))

    def waits_for(self, seat: int) -> bool:
        """The seat has not written its part yet."""
        return seat in self.seats and seat not in self.written

    @property
    def complete(self) -> bool:
        return set(self.seats) <= set(self.written)


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """Where the new holder of a seat begins: it restores the state after the order ``base``, then replays the log up to
    ``last``, and only then serves."""

    seat: int
    fencing_token: int
    base: int  # 0: there is no dump of this job
    last: int  # the newest order when the seat was taken
    restore_from: str  # base 0: the dump of another job to begin from, if any
    map: PartitionMap  # this and the rest: at the base
    tables: tuple[Definition, ...]
    variables: tuple[Definition, ...]
    iteration: int
    durable_log: bool = False


class DumpChain:
    """The complete dumps that are kept, oldest first, and the one that is being written."""

    def __init__(self, base: Dump) -> None:
        self.base = base
        self.open: Dump | None = None
        self._complete: list[Dump] = []
        self._increments = 0  # since the last full one

    def __bool__(self) -> bool:
        return bool(self._complete)

    def needs_full(self, full_every: int) -> bool:
        """Whether the next one has to be full: the first, and then one of ``full_every``."""
        return not self._complete or self._increments + 1 >= full_every

    def check_none_open(self) -> None:
        if self.open is not None:
            raise Conflict(f"dump {self.open.order} is still being written")

    def written(self, order: int, seat: int, *, keep: int) -> Dump | None:
        """A seat has written its part; returns the dump if that completes it. ``keep``: full dumps."""
        if self.open is None or self.open.order != order or seat not in self.open.seats:
            return None
        self.open = dump = self.open.with_written(seat)
        if not dump.complete:
            return None
        self.base, self.open = dump, None
        self._increments = 0 if dump.full else self._increments + 1
        self._complete.append(dump)
        full = [at for at, kept in enumerate(self._complete) if kept.full]
        if len(full) > keep:
            self._complete = self._complete[full[-keep] :]
        return dump

    def cancel(self, order: int) -> bool:
        if self.open is None or self.open.order != order:
            return False
        self.open = None
        return True

    def restore_chain(self) -> list[Dump]:
        """The dumps to load for the base, oldest first: a full one and the increments after it."""
        found: list[Dump] = []
        for dump in reversed(self._complete):
            found.append(dump)
            if dump.full:
                break
        return found[::-1]

    def kept(self) -> list[int]:
        """Orders of the dumps whose files are kept, including the one that is being written."""
        return [dump.order for dump in self._complete] + ([self.open.order] if self.open else [])

    # --- as JSON

    def snapshot(self) -> dict[str, Any]:
        return {
            "base": self.base.to_json(),
            "open": self.open.to_json() if self.open else None,
            "complete": [dump.to_json() for dump in self._complete],
            "increments": self._increments,
        }

    @classmethod
    def from_snapshot(cls, state: Mapping[str, Any]) -> DumpChain:
        chain = cls(Dump.from_json(state["base"]))
        chain.open = Dump.from_json(state["open"]) if state["open"] else None
        chain._complete = [Dump.from_json(dump) for dump in state["complete"]]
        chain._increments = state["increments"]
        return chain
