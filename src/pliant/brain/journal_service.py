"""The Brain's calls for masters that journal into its database (``service Journals`` of ``brain.proto``).

The numbers, the fence and durability are those of ``store/journals.py``; here is who may call, and how a batch that is larger than
a message travels: in parts, of which the last one to arrive makes it whole. Nothing of a batch is kept between two calls, so a
Brain that dies in the middle leaves nothing behind, and the master sends it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

import grpc.aio

from pliant.brain.callers import check_job
from pliant.brain.store import journals
from pliant.brain.store.database import Database
from pliant.brain.store.errors import LostLease
from pliant.brain.store.journals import MAX_BATCH_BYTES, JournalBatch
from pliant.core.errors import BrainUnavailable, InvalidRequest
from pliant.core.planning.cluster.report import JobIdentity
from pliant.rpc import brain_pb2 as bp
from pliant.rpc import brain_pb2_grpc as services
from pliant.rpc.brain.identity import check_name
from pliant.rpc.brain.journal_parts import MAX_PART_BYTES, split
from pliant.rpc.brain.messages import check_protocol, identity_from
from pliant.rpc.server import guarded

T = TypeVar("T")

BATCHES_PER_THREAD_CALL = 64


class JournalsServicer(services.JournalsServicer):
    def __init__(self, database: Database, term: Callable[[], int], clock: Callable[[], float]) -> None:
        """``term``: of this Brain, which every write is fenced by."""
        self._database, self._term, self._clock = database, term, clock

    async def Open(self, request: bp.OpenJournalRequest, context: Any) -> AsyncIterator[bp.JournalPart]:
        check_protocol(request.protocol)
        job = self._job_of(request.job, context)
        writer = check_name(request.writer, "writer of a journal")
        opened = await self._in_thread(
            lambda: journals.open_journal(self._database, job, writer, self._clock(), term=self._term())
        )
        yield bp.JournalPart(fence=opened.fence, last=opened.last)
        if request.has >= opened.last:
            return
        batches = journals.read_from(self._database, job, max(0, request.has))
        while found := await self._in_thread(lambda: list(islice(batches, BATCHES_PER_THREAD_CALL))):
            for batch in found:
                for part in _parts_of(batch, opened.last):
                    yield part

    async def Commit(self, request: bp.CommitRequest, context: Any) -> bp.CommitReply:
        return await self._commit(request, context, request.operations, request.lasting)

    async def CommitParts(self, requests: AsyncIterator[bp.CommitRequest], context: Any) -> Any:
        return await guarded(self._commit_parts, "CommitParts")(requests, context)

    async def _commit_parts(self, requests: AsyncIterator[bp.CommitRequest], context: Any) -> bp.CommitReply:
        first: bp.CommitRequest | None = None
        operations, lasting, size = list[bytes](), list[bytes](), 0
        async for part in requests:
            if first is None:
                first = part
                self._job_of(part.job, context)
            elif (part.fence, part.number) != (first.fence, first.number):
                raise InvalidRequest(f"a part of batch {part.number} among those of batch {first.number}")
            operations.append(part.operations)
            lasting.append(part.lasting)
            size += len(part.operations) + len(part.lasting)
            if size > MAX_BATCH_BYTES:
                raise InvalidRequest(f"a batch of more than {MAX_BATCH_BYTES:,} bytes")
        if first is None:
            raise InvalidRequest("a batch without any part")
        return await self._commit(first, context, b"".join(operations), b"".join(lasting))

    async def _commit(
        self, request: bp.CommitRequest, context: grpc.aio.ServicerContext[Any, Any], operations: bytes, lasting: bytes
    ) -> bp.CommitReply:
        job = self._job_of(request.job, context)
        number = await self._in_thread(
            lambda: journals.commit(
                self._database,
                job,
                request.fence,
                request.number,
                operations,
                lasting,
                is_snapshot=request.is_snapshot,
                now=self._clock(),
                term=self._term(),
            )
        )
        return bp.CommitReply(number=number)

    @staticmethod
    def _job_of(message: bp.JobIdentity, context: Any) -> JobIdentity:
        job = identity_from(message)
        check_job(context, job)
        return job

    @staticmethod
    async def _in_thread(work: Callable[[], T]) -> T:
        """A Brain that is not the active one any more is one that does not answer: the active one does."""
        try:
            return await asyncio.to_thread(work)
        except LostLease as error:
            raise BrainUnavailable(error.message, hint=error.hint) from error


def _parts_of(batch: JournalBatch, last: int) -> Iterator[bp.JournalPart]:
    for operations, lasting, more in split(batch.operations, batch.lasting, MAX_PART_BYTES):
        yield bp.JournalPart(
            number=batch.number,
            is_snapshot=batch.is_snapshot,
            last=last,
            operations=operations,
            lasting=lasting,
            more=more,
        )
