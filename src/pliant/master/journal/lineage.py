"""Who wrote which batches of a journal: the proof that two copies have one history.

Batches are numbered, but numbers alone prove nothing: a database that was restored from a backup gives them out again. Every master
that opens a journal has a *writer* id that is never used again, so a batch is identified by its number and its writer, and a copy
whose last batch the other copy has too, by the same writer, is a prefix of it. Snapshots carry the lineage along, so that this can
be said of batches that are long gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import CorruptData

MAX_WRITERS = 200  # masters of one job, the last ones


@dataclass(frozen=True, slots=True)
class Lineage:
    """Each writer with the number of its first batch, rising."""

    writers: tuple[tuple[str, int], ...] = ()

    def writer_of(self, number: int) -> str | None:
        """None: nobody, or it is not known any more."""
        found = None
        for writer, first in self.writers:
            if first > number:
                break
            found = writer
        return found

    def with_writer(self, writer: str, first: int) -> Lineage:
        """From batch ``first`` on it is this one; what others wrote from there on is no part of this history."""
        before = [(other, began) for other, began in self.writers if began < first]
        return Lineage((*before, (writer, first))[-MAX_WRITERS:])

    def to_json(self) -> list[list[Any]]:
        return [[writer, first] for writer, first in self.writers]

    @classmethod
    def from_json(cls, value: Sequence[Sequence[Any]]) -> Lineage:
        lineage = cls(tuple((str(writer), int(first)) for writer, first in value))
        firsts = [first for _, first in lineage.writers]
        if firsts != sorted(set(firsts)):
            raise CorruptData("the lineage of a journal is not in order")
        return lineage
