"""A job whose state is a list of values, journaled into a Brain: what a test commits is what it finds again, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import delete, select, update
from tests.brain.journal_brain import JournalBrain

from pliant.brain.store.database import Database
from pliant.brain.store.tables import journal_batches, journal_chunks, journals
from pliant.core.events import EventRecord, TrainingStopped
from pliant.core.job_state import JobSnapshot, Operation
from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.shards.audit import AuditRow
from pliant.master.journal.local_copy import LocalCopy
from pliant.master.journal.replicated_store import ReplicatedStore
from pliant.master.journal.store import Batch, Recovered, read_audit, read_events
from pliant.rpc.brain.identity import LOCAL_NAMESPACE

DEFINITIONS = {"list": {"train": {"files": ["a", "b"]}}}


def identity(name: str = "job", uid: str = "uid-1") -> JobIdentity:
    return JobIdentity(LOCAL_NAMESPACE, name, uid)


def row(number: int) -> AuditRow:
    return AuditRow("train", 0, number, "train", number, number + 1, 0, 1, "worker-0", "s", number)


@dataclass
class ListMaster:
    """Each value is an operation, an event and a row of the audit."""

    folder: Path
    store: ReplicatedStore
    values: list[int] = field(default_factory=list)
    last_event: int = 0

    @classmethod
    def start(
        cls, brain: JournalBrain, folder: Path, *, job: JobIdentity | None = None, takes_back: bool = False
    ) -> ListMaster:
        folder.mkdir(exist_ok=True)
        job = job or identity()
        copy = LocalCopy(folder / "journal.db")
        store = ReplicatedStore(copy, brain.access(job.name), job, takes_back=takes_back)
        try:
            found = store.load()
        except BaseException:
            store.close()
            raise
        return cls(folder, store, state_of(found), found.last_event)

    def accept(self, *values: int, extra: dict[str, Any] | None = None) -> None:
        self._commit(values, extra or {}, None)

    def snapshot(self, *later: int, extra: dict[str, Any] | None = None) -> None:
        state = {"list": {"values": list(self.values), **(extra or {})}}
        self._commit(later, {}, JobSnapshot(state, DEFINITIONS))

    def _commit(self, values: tuple[int, ...], extra: dict[str, Any], snapshot: JobSnapshot | None) -> None:
        events = [
            EventRecord(self.last_event + at, 1.0, TrainingStopped(reason=str(value)))
            for at, value in enumerate(values, start=1)
        ]
        operations = [Operation("list", "add", 1.5, {"value": value, **extra}) for value in values]
        self.store.commit(Batch(operations, events, [row(value) for value in values], snapshot))
        self.values += values
        self.last_event += len(values)

    def end(self) -> ListMaster:
        self.store.close()
        return self

    # --- what its folder says to whoever reads it

    @property
    def told(self) -> list[int]:
        """Values of events, in order."""
        return [int(event.facts["reason"]) for event in read_events(self.folder / "journal.db", limit=100_000)]

    @property
    def audited(self) -> list[int]:
        return [found.ordinal for found in read_audit(self.folder / "journal.db")]

    def check(self, values: list[int]) -> None:
        """All of them, each once, everywhere."""
        assert self.values == values
        assert self.told == values
        assert self.audited == sorted(values)


def state_of(found: Recovered) -> list[int]:
    before = list(found.snapshot.state["list"]["values"]) if found.snapshot is not None else []
    if found.snapshot is not None:
        assert found.snapshot.definitions == DEFINITIONS
    return before + [operation.arguments["value"] for operation in found.operations]


@dataclass(frozen=True)
class Backup:
    """Of the journal of one job, as the database had it."""

    head: dict[str, Any]
    batches: list[dict[str, Any]]
    chunks: list[dict[str, Any]]

    @classmethod
    def take(cls, database: Database, job: JobIdentity) -> Backup:
        with database.reading() as connection:
            head = connection.execute(select(journals).where(journals.c.name == job.name)).mappings().one()
            tables = [
                [dict(found) for found in connection.execute(select(t).where(t.c.journal_id == head["id"])).mappings()]
                for t in (journal_batches, journal_chunks)
            ]
        return cls(dict(head), *tables)

    def restore(self, database: Database) -> None:
        remove_journal(database, int(self.head["id"]), keeps_head=True)
        with database.engine.begin() as connection:
            connection.execute(update(journals).where(journals.c.id == self.head["id"]).values(**self.head))
            for table, rows in ((journal_batches, self.batches), (journal_chunks, self.chunks)):
                if rows:
                    connection.execute(table.insert(), rows)


def remove_journal(database: Database, number: int, *, keeps_head: bool = False) -> None:
    with database.engine.begin() as connection:
        for table in (journal_chunks, journal_batches):
            connection.execute(delete(table).where(table.c.journal_id == number))
        if not keeps_head:
            connection.execute(delete(journals).where(journals.c.id == number))
