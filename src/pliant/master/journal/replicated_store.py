"""The journal in the Brain's database, with a copy in the job's folder: a master that lost its disk continues its job.

The truth is in the database. A batch is committed there first and then added to the copy (``local_copy``), so the copy is a prefix
of the truth, and ``load`` reads only what it lacks. Invariants:

- What was answered is in the database: nothing is answered while the Brain or its database is away (``brain_caller``).
- One master writes. Each is a *writer* of its own, and opening the journal fences off whoever wrote before. A master that is fenced
  off says so in its copy, so it does not come back by a mere restart and fence off its successor.
- Never back in time. A copy that is ahead of the database means that the database was restored from a backup: the copy wins, and
  all that the database lacks is sent again, as one snapshot. Two copies that went different ways (``lineage``) are not merged: a
  person chooses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from secrets import token_hex
from typing import TypeVar

from pliant.core.errors import (
    BrainUnavailable,
    Conflict,
    CorruptData,
    FencedOff,
    MasterUnavailable,
    NotFound,
    PliantError,
    Unauthenticated,
)
from pliant.core.job_state import JobSnapshot
from pliant.core.planning.cluster.report import JobIdentity
from pliant.master.journal.brain_caller import ANSWERS, BrainCaller
from pliant.master.journal.lineage import Lineage
from pliant.master.journal.local_copy import LocalCopy, Position
from pliant.master.journal.store import Batch, JournalStore, Recovered
from pliant.master.journal.wire_batch import BatchHeader, Definitions, WireBatch, decode, encode
from pliant.rpc import brain_pb2 as bp
from pliant.rpc.brain.access import BrainAccess
from pliant.rpc.brain.channel import BrainClient
from pliant.rpc.brain.identity import PROTOCOL
from pliant.rpc.brain.journal_parts import split
from pliant.rpc.brain.messages import identity_message

log = logging.getLogger(__name__)

T = TypeVar("T")

START_OUTAGE_S = 5.0  # then this master ends, and says why; whoever started it starts it again
COMMIT_S = 10.0
CHECK_S = 5.0
READ_S = 600.0
BYTES_PER_S = 1 << 20  # of a large batch, on a slow day
NOTHING = 1 << 62  # a number that no batch has
FILE_WRITER = "file"  # of a journal that was a file only, until now


class ReplicatedStore(JournalStore):
    check_every_s = CHECK_S

    def __init__(self, copy: LocalCopy, access: BrainAccess, job: JobIdentity, *, takes_back: bool = False) -> None:
        """``takes_back``: a person wants the job to continue here, although another master took it over."""
        self._copy = copy
        self._job = job
        self._brain = BrainCaller(access)
        self._takes_back = takes_back
        self._writer = ""
        self._fence = 0
        self._number = 0
        self._lineage = Lineage()
        self._events = self._audit = 0
        self._defined: set[tuple[str, str]] = set()

    # --- writing

    def commit(self, batch: Batch) -> None:
        number = self._number + 1
        is_first = self._lineage.writer_of(number) != self._writer
        lineage = self._lineage.with_writer(self._writer, number) if is_first else self._lineage
        events = batch.events[-1].number if batch.events else self._events
        audit = self._audit + len(batch.audit)
        header = BatchHeader(self._writer, events, audit, lineage if is_first or batch.snapshot is not None else None)
        new = _not_yet(batch.snapshot, self._defined)
        self._send(WireBatch(number, batch.snapshot is not None, header, batch, new))
        self._copy.add(batch, number, lineage)
        self._number, self._lineage, self._events, self._audit = number, lineage, events, audit
        self._defined.update((machine, name) for machine, values in new.items() for name in values)

    def _send(self, found: WireBatch) -> None:
        operations, lasting = encode(found)
        job = identity_message(self._job)
        requests = [
            bp.CommitRequest(
                job=job,
                fence=self._fence,
                number=found.number,
                is_snapshot=found.is_snapshot,
                operations=part,
                lasting=more,
            )
            for part, more, _ in split(operations, lasting)
        ]
        timeout = COMMIT_S + (len(operations) + len(lasting)) / BYTES_PER_S

        def attempt(client: BrainClient) -> None:
            journals = client.stubs.journals
            if len(requests) == 1:
                client.call(journals.Commit, requests[0], timeout=timeout)
            else:
                client.send_all(journals.CommitParts, requests, timeout=timeout)

        try:
            self._brain.call(attempt)
        except FencedOff as error:
            raise self._lost(error) from None
        except (Conflict, NotFound) as error:
            raise MasterUnavailable(
                f"the journal in the Brain's database is not what it was: {error.message}",
                hint="nothing to do if the database was restored: the next master sends it what it lacks",
            ) from None

    def check(self) -> None:
        """A master without anything to write learns that it was fenced off: a batch 0 is refused for its number only after that."""
        probe = bp.CommitRequest(job=identity_message(self._job), fence=self._fence, number=0)
        try:
            self._brain.try_once(lambda client: client.call(client.stubs.journals.Commit, probe, timeout=CHECK_S))
        except FencedOff as error:
            raise self._lost(error) from None
        except PliantError as error:
            log.debug("the fence could not be checked, or is ours: %s", error)

    def _lost(self, error: FencedOff) -> FencedOff:
        self._copy.set_fenced_off(error.message)
        return _taken_over(self._job, error.message)

    # --- reading

    def load(self) -> Recovered:
        mine = self._own_position()
        self._writer = _new_writer()
        last = self._open()
        if mine.sending is not None:
            mine = self._after_sending(mine, last)
        self._check_same_history(mine, last)
        if mine.number > last:
            mine = self._send_all(mine, last)
        elif mine.number < last:
            mine = self._take(mine)
        else:
            self._copy.set_position(mine)
        self._copy.clear_fenced_off()
        self._number, self._lineage = mine.number, mine.lineage
        self._events, self._audit = self._copy.totals()
        self._defined = self._copy.defined()
        return self._copy.load()

    def _own_position(self) -> Position:
        found = self._copy.position()
        if found is None:
            was_file = not self._copy.is_empty()
            return Position(self._job, int(was_file), Lineage(((FILE_WRITER, 1),) if was_file else ()))
        if found.job != self._job:
            raise Conflict(
                f"{self._copy.path} is the journal of another job: {found.job} with uid {found.job.uid}, not {self._job.uid}",
                hint="move the file away (with its -wal and -shm files); the job then continues from the Brain's database",
            )
        reason = self._copy.fenced_off()
        if reason and not self._takes_back:
            raise _taken_over(self._job, reason)
        return found

    def _take(self, mine: Position) -> Position:
        """What the copy lacks."""
        began = mine.number
        mine = self._copy_from(mine)
        log.info("read batches %d to %d of the journal from the Brain's database", began + 1, mine.number)
        return mine

    def _copy_from(self, mine: Position) -> Position:
        return self._ask(lambda client: self._copy.take(mine, self._batches(client, mine.number)))

    def _after_sending(self, mine: Position, last: int) -> Position:
        """A master ended while it sent all of its copy: either it is there as a whole, or nothing of it."""
        assert mine.sending is not None
        writer, number = mine.sending
        if number <= last and self._writer_of(number) == writer:
            return Position(mine.job, number, mine.lineage.with_writer(writer, number))
        return replace(mine, sending=None)

    def _check_same_history(self, mine: Position, last: int) -> None:
        shared = min(mine.number, last)
        if shared == 0:
            return
        own, theirs = mine.lineage.writer_of(shared), self._writer_of(shared)
        if own != theirs:
            raise Conflict(
                f"{self._copy.path} and the journal of job {self._job} in the Brain's database are two different histories: "
                f"batch {shared} was written by {own or 'nobody'} here and by {theirs or 'nobody'} there",
                hint="to continue from the database, move the file away (with its -wal and -shm files); "
                "to continue from the file, have the journal removed from the database",
            )

    def _send_all(self, mine: Position, last: int) -> Position:
        """The database has less than the copy: it was restored, or it is the first one that this job has."""
        header = self._header_at(last) if last else None
        events, audit = (header.events, header.audit) if header is not None else (0, 0)
        if mine.lineage.writer_of(mine.number) != FILE_WRITER:
            log.warning(
                "the Brain's database has %d batches of the journal, and %s has %d: it was restored from a backup, or is "
                "another one; what it lacks is sent again",
                last,
                self._copy.path,
                mine.number,
            )
        self._writer = (
            _new_writer()
        )  # numbers are used again: by another writer, so that nobody takes the one for the other
        self._fence = 0
        if self._open() != last:
            raise MasterUnavailable(f"another master writes the journal of job {self._job}")
        number = last + 1
        lineage = mine.lineage.with_writer(self._writer, number)
        self._copy.set_position(replace(mine, sending=(self._writer, number)))
        batch, definitions = self._copy.all_after(events, audit)
        found = WireBatch(number, True, BatchHeader(self._writer, *self._copy.totals(), lineage), batch, definitions)
        self._send(found)
        done = Position(mine.job, number, lineage)
        self._copy.set_position(done)
        return done

    # --- the Brain

    def _open(self) -> int:
        """Become the writer; returns the number of the last batch."""

        def first(client: BrainClient) -> bp.JournalPart:
            for part in self._parts(client, NOTHING, timeout=COMMIT_S):
                return part
            raise BrainUnavailable("the Brain has nothing to say about the journal")

        head = self._ask(first)
        self._fence = head.fence
        return int(head.last)

    def _header_at(self, number: int) -> BatchHeader:
        """Of this batch, or of the first one after it that has one: the last batch always has."""

        def first(client: BrainClient) -> WireBatch:
            for batch in self._batches(client, number - 1):
                if batch.header is not None:
                    return batch
            raise CorruptData(f"batch {number} of the journal of job {self._job} is missing in the Brain's database")

        found = self._ask(first)
        assert found.header is not None
        if found.number != number and found.header.lineage is not None:
            return replace(found.header, writer=found.header.lineage.writer_of(number) or "")
        return found.header

    def _writer_of(self, number: int) -> str:
        return self._header_at(number).writer

    def _batches(self, client: BrainClient, after: int) -> Iterator[WireBatch]:
        operations, lasting = b"", b""
        for part in self._parts(client, after):
            operations, lasting = operations + part.operations, lasting + part.lasting
            if part.number and not part.more:
                yield decode(part.number, part.is_snapshot, operations, lasting)
                operations, lasting = b"", b""

    def _parts(self, client: BrainClient, after: int, *, timeout: float = READ_S) -> Iterator[bp.JournalPart]:
        request = bp.OpenJournalRequest(
            protocol=PROTOCOL, job=identity_message(self._job), writer=self._writer, has=after
        )
        for part in client.stream(client.stubs.journals.Open, request, timeout=timeout):
            if part.fence and self._fence not in (0, part.fence):
                raise MasterUnavailable(f"another master is opening the journal of job {self._job}")
            yield part

    def _ask(self, attempt: Callable[[BrainClient], T]) -> T:
        answers = (*ANSWERS, Unauthenticated, MasterUnavailable)
        return self._brain.call(attempt, max_outage_s=START_OUTAGE_S, answers=answers)

    def limit_outage(self, seconds: float) -> None:
        self._brain.limit_outage(seconds)

    def close(self) -> None:
        self._brain.close()
        self._copy.close()


def _new_writer() -> str:
    return token_hex(8)


def _not_yet(snapshot: JobSnapshot | None, known: set[tuple[str, str]]) -> Definitions:
    """The definitions of a snapshot that are not known yet."""
    if snapshot is None:
        return {}
    return {
        machine: new
        for machine, values in snapshot.definitions.items()
        if (new := {name: value for name, value in values.items() if (machine, name) not in known})
    }


def _taken_over(job: JobIdentity, reason: str) -> FencedOff:
    return FencedOff(
        f"another master has taken over job {job}: {reason}",
        hint="nothing to do if that one runs; `pliant resume` takes the job back to this folder",
    )
