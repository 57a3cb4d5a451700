"""Where a journal is stored: an interface, so that a cluster can store it elsewhere, and its implementation in SQLite.

A store takes *batches*: all that was decided since the last one, in one transaction. What ``commit`` returned from is
there after a crash of the process at any instant, and with ``sync="full"`` of the machine too.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pliant.core.errors import CorruptData, MasterUnavailable, PliantError
from pliant.core.events import EventRecord, event_from_facts
from pliant.core.job_state import JobSnapshot, Operation
from pliant.core.shards.audit import AuditRow
from pliant.files.regular import open_regular

FORMAT = 1
DAMAGE = (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What reading a file raises that is no journal, or was edited."""


@dataclass(slots=True)
class Batch:
    operations: list[Operation] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    audit: list[AuditRow] = field(default_factory=list)
    snapshot: JobSnapshot | None = None  # the state before this batch's operations; all earlier ones are dropped

    def append(self, later: Batch) -> None:
        """Add what came later; its snapshot holds the operations of before."""
        if later.snapshot is not None:
            self.snapshot = later.snapshot
            self.operations = []
        self.operations += later.operations
        self.events += later.events
        self.audit += later.audit

    def __bool__(self) -> bool:
        return bool(self.operations or self.events or self.audit or self.snapshot is not None)


@dataclass(frozen=True, slots=True)
class Recovered:
    snapshot: JobSnapshot | None
    operations: list[Operation]
    last_event: int


class JournalStore(ABC):
    check_every_s: float | None = None  # between two calls of ``check`` while there is nothing to commit; None: none

    @abstractmethod
    def load(self) -> Recovered: ...

    @abstractmethod
    def commit(self, batch: Batch) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def check(self) -> None:
        """Raises whatever a commit would, if that is for good: another master has taken over."""
        return

    def limit_outage(self, seconds: float) -> None:
        """A commit that waits because its storage is away fails from now on once that has lasted as long. From any thread."""
        return


_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS operations (
    seq INTEGER PRIMARY KEY, machine TEXT NOT NULL, method TEXT NOT NULL, now REAL NOT NULL, arguments TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS definitions (
    machine TEXT NOT NULL, name TEXT NOT NULL, definition TEXT NOT NULL, PRIMARY KEY (machine, name));
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, node TEXT NOT NULL, facts TEXT NOT NULL);
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
            raise in_words(path, error) from error
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")
            self._db.executescript(_SCHEMA)
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),))
            (found,) = self._db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        except (sqlite3.Error, TypeError) as error:
            self._db.close()
            raise in_words(path, error) from error
        if found != str(FORMAT):
            self._db.close()
            raise CorruptData(f"{path} has journal format {found}; this release supports {FORMAT}")

    def load(self) -> Recovered:
        try:
            return load_from(self._db)
        except DAMAGE as error:
            raise in_words(self.path, error) from error

    def commit(self, batch: Batch) -> None:
        with self._transaction():
            self._write(batch)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it, or nothing."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _write(self, batch: Batch) -> None:
        db = self._db
        if batch.snapshot is not None:
            db.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?)", (_compact(batch.snapshot.state),))
            self._write_definitions(batch.snapshot.definitions)
            db.execute("DELETE FROM operations")
        rows = [(o.machine, o.method, o.now, _compact(o.arguments)) for o in batch.operations]
        db.executemany("INSERT INTO operations (machine, method, now, arguments) VALUES (?, ?, ?, ?)", rows)
        if batch.events:
            rows_e = [(e.number, e.time, e.kind.value, e.node, _compact(e.facts)) for e in batch.events]
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows_e)
        if batch.audit:
            db.executemany(f"INSERT INTO audit VALUES ({', '.join('?' * 11)})", [audit_values(r) for r in batch.audit])

    def _write_definitions(self, definitions: Mapping[str, Mapping[str, Any]]) -> None:
        """Only those that are new: they can be long, and do not change."""
        known = set(self._db.execute("SELECT machine, name FROM definitions"))
        new = [
            (machine, name, _compact(value))
            for machine, values in definitions.items()
            for name, value in values.items()
            if (machine, name) not in known
        ]
        self._db.executemany("INSERT INTO definitions VALUES (?, ?, ?)", new)

    def close(self) -> None:
        self._db.close()


def load_from(db: sqlite3.Connection) -> Recovered:
    """Raises what ``DAMAGE`` names."""
    row = db.execute("SELECT state FROM snapshot").fetchone()
    snapshot = JobSnapshot(_object(row[0]), _definitions_in(db)) if row else None
    rows = db.execute("SELECT machine, method, now, arguments FROM operations ORDER BY seq")
    operations = [
        Operation(str(machine), str(method), float(now), _object(args)) for machine, method, now, args in rows
    ]
    (last_event,) = db.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()
    return Recovered(snapshot, operations, int(last_event))


def _definitions_in(db: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for machine, name, text in db.execute("SELECT machine, name, definition FROM definitions"):
        found.setdefault(machine, {})[name] = json.loads(text)
    return found


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


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


def in_words(path: Path, error: Exception) -> PliantError:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSES:  # the low byte: extended codes say more
        return MasterUnavailable(f"the journal {path} cannot be opened: {error}")
    return CorruptData(
        f"{path} is not a Pliant journal, or is corrupt: {error}",
        hint="move the file away (with its -wal and -shm files) and start the job again",
    )


def audit_values(row: AuditRow) -> Sequence[Any]:
    return (
        row.dataset, row.epoch, row.ordinal, row.name, row.start, row.shard_end,
        row.begin, row.end, row.node, row.session, row.lease,
    )  # fmt: skip


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def read_events(path: Path, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
    """The events of a journal, which may be in use: SQLite allows readers."""
    with open_read_only(path) as db:
        rows = db.execute(
            "SELECT number, time, kind, facts FROM events WHERE number > ? ORDER BY number LIMIT ?",
            (after, limit),
        ).fetchall()
        return [
            EventRecord(int(n), float(time), event_from_facts(kind, json.loads(facts))) for n, time, kind, facts in rows
        ]


def read_audit(path: Path) -> list[AuditRow]:
    with open_read_only(path) as db:
        return [AuditRow(*row) for row in db.execute("SELECT * FROM audit ORDER BY dataset, epoch, start, begin")]


@contextmanager
def open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Whatever is wrong with the file comes as an error of ours."""
    open_regular(path).close()  # SQLite would wait at a FIFO
    try:
        db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None, timeout=10)
        try:
            yield db
        finally:
            db.close()
    except DAMAGE as error:
        raise in_words(path, error) from error
