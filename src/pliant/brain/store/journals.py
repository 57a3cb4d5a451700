"""Journals of masters: numbered batches, one writer at a time, durable when answered.

Opening a journal makes a writer its only one: the *fence* rises, and whoever has an older one is refused. A batch has two parts:
*operations*, which the next snapshot replaces, and what is *lasting* (events, the audit), which stays readable for as long as the
journal is there. A batch is stored in chunks, since servers limit the size of a statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, exists, func, insert, select, update

from pliant.brain.store import bounded
from pliant.brain.store.database import Database
from pliant.brain.store.errors import DatabaseBusy, FencedOff
from pliant.brain.store.leases import check_term
from pliant.brain.store.tables import journal_batches, journal_chunks, journals
from pliant.brain.store.upserts import upsert
from pliant.core.errors import Conflict, InvalidRequest, NotFound
from pliant.core.planning.cluster.report import JobIdentity

MAX_BATCH_BYTES = 256 << 20  # a snapshot of a very large job; a batch is in memory as a whole
CHUNK_BYTES = 1 << 20  # MariaDB takes statements of up to 16 MB, and a byte may be written as two
PAGE_BATCHES, PAGE_BYTES = 500, 4 << 20  # read at once
_OPERATIONS, _LASTING = 0, 1


@dataclass(frozen=True, slots=True)
class OpenedJournal:
    fence: int
    last: int  # number of the last batch; 0: there is none
    snapshot: int  # number of the last batch that is a snapshot; 0: there is none


@dataclass(frozen=True, slots=True)
class JournalBatch:
    number: int
    is_snapshot: bool
    operations: bytes  # empty if a later snapshot replaced them
    lasting: bytes


def open_journal(
    database: Database, job: JobIdentity, writer: str, now: float, *, term: int | None = None
) -> OpenedJournal:
    """The same writer again gets the same fence."""
    bounded.checked_name(writer, "writer")
    row = {
        "namespace": bounded.checked_name(job.namespace, "namespace"),
        "name": bounded.checked_name(job.name, "job"),
        "uid": bounded.checked_name(job.uid, "job"),
    }

    def take(connection: Connection) -> OpenedJournal:
        check_term(connection, term)
        upsert(connection, journals, [row])
        found = _locked(connection, job)
        fence = found.fence
        if found.writer != writer:
            fence += 1
            taken = {"writer": writer, "fence": fence, "opened_at": now}
            connection.execute(update(journals).where(journals.c.id == found.id).values(**taken))
        return OpenedJournal(fence, found.last_number, found.snapshot_number)

    return database.transaction(take)


def commit(
    database: Database,
    job: JobIdentity,
    fence: int,
    number: int,
    operations: bytes,
    lasting: bytes,
    *,
    is_snapshot: bool,
    now: float,
    term: int | None = None,
) -> int:
    """The number of the last batch. The last one again changes nothing if it is the same.

    Raises ``FencedOff`` for an older fence, ``Conflict`` for another number than the next, or other content under the last one.
    """
    if len(operations) + len(lasting) > MAX_BATCH_BYTES:
        raise InvalidRequest(f"a batch of {len(operations) + len(lasting):,} bytes; allowed: {MAX_BATCH_BYTES:,}")
    digest = _digest(operations, lasting, is_snapshot)

    def append(connection: Connection) -> int:
        check_term(connection, term)
        found = _locked(connection, job)
        if fence != found.fence:
            raise FencedOff(f"the journal of job {job} has another writer by now (fence {found.fence}, not {fence})")
        if number == found.last_number and number > 0:
            _check_same(connection, job, found.id, number, digest)
            return number
        if number != found.last_number + 1:
            raise Conflict(f"batch {number} of the journal of job {job}: expected {found.last_number + 1}")
        _insert(connection, found.id, JournalBatch(number, is_snapshot, operations, lasting), digest, now)
        if is_snapshot:
            _drop_operations(connection, found.id, number)
        changes = {"last_number": number, "written_at": now} | ({"snapshot_number": number} if is_snapshot else {})
        connection.execute(update(journals).where(journals.c.id == found.id).values(**changes))
        return number

    return database.transaction(append)


def read_from(database: Database, job: JobIdentity, after: int = 0) -> Iterator[JournalBatch]:
    """What is there of the batches with a higher number, in order; read in pages, so that little is in memory.

    Raises ``DatabaseBusy`` if a snapshot replaces operations meanwhile: what was read so far is to be dropped.
    """
    with database.reading() as connection:
        head = connection.execute(select(journals).where(*_of(job))).one_or_none()
        if head is None:
            raise NotFound(f"job {job} has no journal in {database.shown_url}")
        size = func.coalesce(func.sum(func.length(journal_chunks.c.data)), 0)
        same = and_(
            journal_chunks.c.journal_id == journal_batches.c.journal_id,
            journal_chunks.c.number == journal_batches.c.number,
        )
        query = (
            select(journal_batches.c.number, journal_batches.c.is_snapshot, size)
            .select_from(journal_batches.outerjoin(journal_chunks, same))
            .where(journal_batches.c.journal_id == head.id, journal_batches.c.number > after)
            .group_by(journal_batches.c.number, journal_batches.c.is_snapshot)
            .order_by(journal_batches.c.number)
        )
        listed = [
            (int(number), bool(is_snapshot), int(size)) for number, is_snapshot, size in connection.execute(query)
        ]
    for page in _pages(listed):
        with database.reading() as connection:
            parts = _parts(connection, head.id, page[0][0], page[-1][0])
            snapshot = connection.scalar(select(journals.c.snapshot_number).where(journals.c.id == head.id))
        if snapshot != head.snapshot_number:
            raise DatabaseBusy(f"the journal of job {job} was written while it was read; read it again")
        for number, is_snapshot, _ in page:
            found = parts.get(number, {})
            yield JournalBatch(number, is_snapshot, found.get(_OPERATIONS, b""), found.get(_LASTING, b""))


def _pages(listed: list[tuple[int, bool, int]]) -> Iterator[list[tuple[int, bool, int]]]:
    page: list[tuple[int, bool, int]] = []
    held = 0
    for batch in listed:
        if page and (len(page) == PAGE_BATCHES or held + batch[2] > PAGE_BYTES):
            yield page
            page, held = [], 0
        page.append(batch)
        held += batch[2]
    if page:
        yield page


def _parts(connection: Connection, journal: int, first: int, last: int) -> dict[int, dict[int, bytes]]:
    """By number and kind."""
    query = (
        select(journal_chunks.c.number, journal_chunks.c.kind, journal_chunks.c.data)
        .where(journal_chunks.c.journal_id == journal, journal_chunks.c.number.between(first, last))
        .order_by(journal_chunks.c.number, journal_chunks.c.kind, journal_chunks.c.part)
    )
    found: dict[int, dict[int, list[bytes]]] = {}
    for number, kind, data in connection.execute(query):
        found.setdefault(number, {}).setdefault(kind, []).append(bytes(data))
    return {number: {kind: b"".join(parts) for kind, parts in kinds.items()} for number, kinds in found.items()}


def _of(job: JobIdentity) -> tuple[ColumnElement[bool], ...]:
    return journals.c.namespace == job.namespace, journals.c.name == job.name, journals.c.uid == job.uid


def _locked(connection: Connection, job: JobIdentity) -> Row[Any]:
    found = connection.execute(select(journals).where(*_of(job)).with_for_update()).one_or_none()
    if found is None:
        raise NotFound(f"job {job} has no journal here", hint="open it first")
    return found


def _check_same(connection: Connection, job: JobIdentity, journal: int, number: int, digest: str) -> None:
    stored = connection.scalar(
        select(journal_batches.c.digest).where(
            journal_batches.c.journal_id == journal, journal_batches.c.number == number
        )
    )
    if stored != digest:
        raise Conflict(f"batch {number} of the journal of job {job} was committed before with another content")


def _insert(connection: Connection, journal: int, batch: JournalBatch, digest: str, now: float) -> None:
    key = {"journal_id": journal, "number": batch.number}
    connection.execute(
        insert(journal_batches).values(**key, is_snapshot=batch.is_snapshot, digest=digest, written_at=now)
    )
    for kind, content in ((_OPERATIONS, batch.operations), (_LASTING, batch.lasting)):
        for part, begin in enumerate(range(0, len(content), CHUNK_BYTES)):
            data = content[begin : begin + CHUNK_BYTES]
            connection.execute(insert(journal_chunks).values(**key, kind=kind, part=part, data=data))


def _drop_operations(connection: Connection, journal: int, snapshot: int) -> None:
    """Of the batches before the snapshot; a batch that has nothing lasting goes with them."""
    replaced = (journal_chunks.c.journal_id == journal, journal_chunks.c.number < snapshot)
    connection.execute(delete(journal_chunks).where(*replaced, journal_chunks.c.kind == _OPERATIONS))
    has_chunks = exists().where(
        journal_chunks.c.journal_id == journal_batches.c.journal_id, journal_chunks.c.number == journal_batches.c.number
    )
    before = (journal_batches.c.journal_id == journal, journal_batches.c.number < snapshot)
    connection.execute(delete(journal_batches).where(*before, ~has_chunks))


def _digest(operations: bytes, lasting: bytes, is_snapshot: bool) -> str:
    found = sha256(f"{len(operations)} {len(lasting)} {is_snapshot:d}\n".encode())
    found.update(operations)
    found.update(lasting)
    return found.hexdigest()
