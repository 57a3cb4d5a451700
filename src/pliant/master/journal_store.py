"""Where a journal is kept. The store is an interface, so that a cluster can keep it elsewhere; here it is SQLite.

A store takes *batches*: all that was decided since the last one, in one transaction. What ``commit`` returned from is
there after a crash of the process at any instant, and with ``sync="full"`` of the machine too.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pliant.core.errors import CorruptData, MasterUnavailable, PliantError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a state machine's method."""

    machine: str
    method: str
    now: float
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventRecord:
    number: int
    time: float
    kind: str
    node: str
    message: str


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Records ``[begin, end)`` of one shard, in the shard's order, that were accepted."""

    dataset: str
    epoch: int
    ordinal: int
    name: str
    start: int
    shard_end: int
    begin: int
    end: int
    node: str
    session: str
    lease: int


@dataclass(slots=True)
class Batch:
    operations: list[Operation] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    audit: list[AuditRow] = field(default_factory=list)
    snapshot: dict[str, Any] | None = None  # the state before this batch's operations; all earlier ones are dropped
    definitions: dict[str, Any] = field(default_factory=dict)

    def append(self, later: Batch) -> None:
        """Add what came later; its snapshot holds the operations of before."""
        if later.snapshot is not None:
            self.snapshot, self.definitions = later.snapshot, later.definitions
            self.operations = []
        self.operations += later.operations
        self.events += later.events
        self.audit += later.audit

    def __bool__(self) -> bool:
        return bool(self.operations or self.events or self.audit or self.snapshot is not None)


@dataclass(frozen=True, slots=True)
class Recovered:
    snapshot: dict[str, Any] | None
    definitions: dict[str, Any]
    operations: list[Operation]
    last_event: int


class JournalStore(ABC):
    @abstractmethod
    def load(self) -> Recovered: ...

    @abstractmethod
    def commit(self, batch: Batch) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS operations (
    seq INTEGER PRIMARY KEY, machine TEXT NOT NULL, method TEXT NOT NULL, now REAL NOT NULL, arguments TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS definitions (name TEXT PRIMARY KEY, definition TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, node TEXT NOT NULL, message TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS audit (
    dataset TEXT NOT NULL, epoch INTEGER NOT NULL, ordinal INTEGER NOT NULL, name TEXT NOT NULL,
    start INTEGER NOT NULL, shard_end INTEGER NOT NULL, begin INTEGER NOT NULL, end INTEGER NOT NULL,
    node TEXT NOT NULL, session TEXT NOT NULL, lease INTEGER NOT NULL);
"""


class SqliteStore(JournalStore):
    def __init__(self, path: Path, *, sync: str = "full") -> None:
        self.path = path
        # One thread writes (the journal's), after the loading thread is done with it: no two at a time.
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        except sqlite3.Error as error:
            raise _in_words(path, error) from error
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")
            self._db.executescript(_SCHEMA)
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),))
            (found,) = self._db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        except (sqlite3.Error, TypeError) as error:
            self._db.close()
            raise _in_words(path, error) from error
        if found != str(FORMAT):
            self._db.close()
            raise CorruptData(f"{path} has journal format {found}; this release reads {FORMAT}")

    def load(self) -> Recovered:
        try:
            return self._load()
        except (sqlite3.Error, ValueError) as error:
            raise _in_words(self.path, error) from error

    def _load(self) -> Recovered:
        row = self._db.execute("SELECT state FROM snapshot").fetchone()
        definitions = {n: json.loads(d) for n, d in self._db.execute("SELECT name, definition FROM definitions")}
        rows = self._db.execute("SELECT machine, method, now, arguments FROM operations ORDER BY seq")
        operations = [Operation(machine, method, now, json.loads(args)) for machine, method, now, args in rows]
        (last_event,) = self._db.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()
        return Recovered(json.loads(row[0]) if row else None, definitions, operations, last_event)

    def commit(self, batch: Batch) -> None:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            self._write(batch)
            db.execute("COMMIT")
        except Exception:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _write(self, batch: Batch) -> None:
        db = self._db
        if batch.snapshot is not None:
            db.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?)", (_compact(batch.snapshot),))
            db.executemany(
                "INSERT OR IGNORE INTO definitions VALUES (?, ?)",
                [(name, _compact(value)) for name, value in batch.definitions.items()],
            )
            db.execute("DELETE FROM operations")
        rows = [(o.machine, o.method, o.now, _compact(o.arguments)) for o in batch.operations]
        db.executemany("INSERT INTO operations (machine, method, now, arguments) VALUES (?, ?, ?, ?)", rows)
        if batch.events:
            rows_e = [(e.number, e.time, e.kind, e.node, e.message) for e in batch.events]
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows_e)
        if batch.audit:
            db.executemany(f"INSERT INTO audit VALUES ({', '.join('?' * 11)})", [_audit(r) for r in batch.audit])

    def close(self) -> None:
        self._db.close()


_PASSES = frozenset(  # what is wrong with the disk or the folder, not with the file
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
    }
)


def _in_words(path: Path, error: Exception) -> PliantError:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSES:  # the low byte: extended codes say more
        return MasterUnavailable(f"the journal {path} cannot be opened: {error}")
    return CorruptData(
        f"{path} is not a journal of Pliant, or is damaged: {error}",
        hint="put the file aside (and the files beside it, -wal and -shm) and start the job anew",
    )


def _audit(row: AuditRow) -> Sequence[Any]:
    return (
        row.dataset, row.epoch, row.ordinal, row.name, row.start, row.shard_end,
        row.begin, row.end, row.node, row.session, row.lease,
    )  # fmt: skip


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def read_events(path: Path, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
    """The events of a journal that nobody is writing, or somebody is: SQLite lets readers in."""
    with _reader(path) as db:
        rows = db.execute(
            "SELECT number, time, kind, node, message FROM events WHERE number > ? ORDER BY number LIMIT ?",
            (after, limit),
        ).fetchall()
    return [EventRecord(*row) for row in rows]


def read_audit(path: Path) -> list[AuditRow]:
    with _reader(path) as db:
        return [AuditRow(*row) for row in db.execute("SELECT * FROM audit ORDER BY dataset, epoch, start, begin")]


class _reader:
    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)

    def __enter__(self) -> sqlite3.Connection:
        return self._db

    def __exit__(self, *_: object) -> None:
        self._db.close()
