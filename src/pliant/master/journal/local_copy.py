"""The journal's file in the job's folder where the truth is in the Brain's database: a copy, and what it is a copy of.

It has the tables of ``SqliteStore``, so whoever reads a stopped job reads it as any other, and beside them: whose journal it is,
the number of the last batch that it has, and the lineage of those batches. A batch and its number are one transaction. It may be
older than the database (what is missing is read from there), never half way between two batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.shards.audit import AuditRow
from pliant.master.journal.lineage import Lineage
from pliant.master.journal.store import DAMAGE, Batch, SqliteStore, in_words, read_events
from pliant.master.journal.wire_batch import WireBatch

_KEY = "copy"
_FENCED = "fenced_off"
MAX_EVENTS = 1 << 40


@dataclass(frozen=True, slots=True)
class Position:
    """How far a copy is. ``sending``: the writer and number by which all of it is being sent to a database that has less."""

    job: JobIdentity
    number: int
    lineage: Lineage
    sending: tuple[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        job = [self.job.namespace, self.job.name, self.job.uid]
        return {"job": job, "number": self.number, "writers": self.lineage.to_json(), "sending": self.sending}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Position:
        sending = value["sending"]
        return cls(
            JobIdentity(*map(str, value["job"])),
            int(value["number"]),
            Lineage.from_json(value["writers"]),
            (str(sending[0]), int(sending[1])) if sending else None,
        )


class LocalCopy(SqliteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path, sync="normal")
        self._position: Position | None = None

    # --- what it is

    def position(self) -> Position | None:
        """None: it is a copy of nothing yet."""
        try:
            text = self._meta(_KEY)
            self._position = Position.from_json(json.loads(text)) if text else None
        except DAMAGE as error:
            raise in_words(self.path, error) from error
        return self._position

    def fenced_off(self) -> str:
        """Why its master may write no more; empty: it may."""
        return self._meta(_FENCED)

    def set_fenced_off(self, reason: str) -> None:
        """Outlives this process: a master that is simply started again would fence off its own successor."""
        with self._transaction():
            self._set_meta(_FENCED, reason)

    def is_empty(self) -> bool:
        tables = ("operations", "snapshot", "events", "audit")
        return not any(self._db.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0] for table in tables)

    def totals(self) -> tuple[int, int]:
        """The number of the last event, and how many rows the audit has."""
        (events,) = self._db.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()
        (audit,) = self._db.execute("SELECT coalesce(max(rowid), 0) FROM audit").fetchone()
        return int(events), int(audit)

    def defined(self) -> set[tuple[str, str]]:
        """Machine and name of each definition."""
        return set(self._db.execute("SELECT machine, name FROM definitions"))

    def all_after(self, events: int, audit: int) -> tuple[Batch, Mapping[str, Mapping[str, Any]]]:
        """The state, with all definitions, and what is lasting beyond so many events and rows."""
        found = self.load()
        rows = self._db.execute("SELECT * FROM audit WHERE rowid > ? ORDER BY rowid", (audit,))
        batch = Batch(
            operations=found.operations,
            events=read_events(self.path, after=events, limit=MAX_EVENTS),
            audit=[AuditRow(*row) for row in rows],
            snapshot=found.snapshot,
        )
        definitions: dict[str, dict[str, Any]] = {}
        for machine, name, text in self._db.execute("SELECT machine, name, definition FROM definitions"):
            definitions.setdefault(machine, {})[name] = json.loads(text)
        return batch, definitions

    # --- changing it

    def set_position(self, position: Position) -> None:
        with self._transaction():
            self._put(position)

    def add(self, batch: Batch, number: int, lineage: Lineage) -> None:
        """What this master has just committed to the database."""
        assert self._position is not None
        position = replace(self._position, number=number, lineage=lineage)
        with self._transaction():
            self._write(batch)
            self._put(position)

    def take(self, position: Position, batches: Iterable[WireBatch]) -> Position:
        """What others committed after ``position``, all of it or nothing; returns how far it is then."""
        with self._transaction():
            for found in batches:
                if found.is_snapshot:
                    self._db.execute("DELETE FROM snapshot")
                    self._db.execute("DELETE FROM operations")
                self._write_definitions(found.definitions)
                self._write(found.batch)
                header = found.header
                lineage = header.lineage if header is not None else None
                position = replace(position, number=found.number, lineage=lineage or position.lineage)
            self._put(position)
        return position

    def clear_fenced_off(self) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM meta WHERE key = ?", (_FENCED,))

    def _put(self, position: Position) -> None:
        self._set_meta(_KEY, json.dumps(position.to_json(), separators=(",", ":")))
        self._position = position

    def _meta(self, key: str) -> str:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""

    def _set_meta(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
