"""Calls of programs about data: datasets, sessions, leases and reports."""

from __future__ import annotations

import asyncio
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.shards.leases import Availability, Lease
from pliant.core.shards.queue import EpochShard
from pliant.master.components.shards import DataShardManager
from pliant.master.components.status_reporter import StatusReporter
from pliant.master.controller import JobController
from pliant.master.services.waiting import Context, at_most
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.checkpoints import checkpoint_from, checkpoint_message
from pliant.rpc.datasets import from_message, to_message
from pliant.rpc.enums import AVAILABILITY

MAX_NODE_CHARS = 256
NOTES_PER_REPLY = 4 << 20  # bytes


class ShardsServicer(services.ShardsServicer):
    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    @property
    def _shards(self) -> DataShardManager:
        return self._controller.require(DataShardManager)

    async def CreateDataset(self, request: pb.Dataset, context: Context) -> pb.CreateDatasetReply:
        created = self._shards.create_shards(from_message(request), request.defined_by[:MAX_NODE_CHARS])
        await self._controller.journal.durable()
        if (reporter := self._controller.find(StatusReporter)) is not None:
            await reporter.publish_datasets()
        return pb.CreateDatasetReply(created=created)

    async def GetDataset(self, request: pb.DatasetName, context: Context) -> pb.Dataset:
        spec = self._shards.book.queue(request.name).spec
        await self._controller.journal.durable()
        return to_message(spec)

    async def GrowStream(self, request: pb.GrowRequest, context: Context) -> pb.GrowReply:
        length = self._shards.grow_stream(
            request.dataset,
            request.records,
            request.close,
            request.producer,
            request.number,
            partition=request.partition if request.HasField("partition") else None,
            end=request.end if request.HasField("end") else None,
        )
        await self._controller.journal.durable()
        return pb.GrowReply(length=length)

    async def OpenSession(self, request: pb.OpenSessionRequest, context: Context) -> pb.OpenSessionReply:
        shards = self._shards
        if not shards.book.has_session(request.session):
            self._controller.check_run(request.node, request.incarnation)
        shards.open_session(request.session, request.node, request.incarnation)
        await self._controller.journal.durable()
        return pb.OpenSessionReply(beat_seconds=self._controller.beat_seconds)

    async def CloseSession(self, request: pb.CloseSessionRequest, context: Context) -> pb.Empty:
        self._shards.close_session(request.session)
        await self._controller.journal.durable()
        return pb.Empty()

    async def Beat(self, request: pb.BeatRequest, context: Context) -> pb.Empty:
        self._shards.beat(request.session)
        await self._controller.journal.durable()
        return pb.Empty()

    async def Exchange(self, request: pb.ExchangeRequest, context: Context) -> pb.ExchangeReply:
        notes = await self._keep_notes(request)
        answer = self._shards.get_shard(
            request.session,
            request.request,
            request.dataset or None,
            request.want,
            list(request.done),
            [[p.lease, p.records] for p in request.progress],
            [[f.lease, f.message[:2000]] for f in request.failed],
            list(request.released),
            notes,
            request.waiting,
            request.trains_alone,
        )
        await self._controller.journal.durable()
        reply = pb.ExchangeReply(refused=answer.refused, availability=AVAILABILITY.to_wire[answer.availability])
        for lease in answer.leases:
            _put_shard(reply, lease)
        return reply

    async def _keep_notes(self, request: pb.ExchangeRequest) -> list[list[Any]]:
        if not request.notes:
            return []
        store = self._shards.notes
        kept = [asyncio.to_thread(store.keep, request.dataset, note.data) for note in request.notes]
        return [[note.lease, text] for note, text in zip(request.notes, await asyncio.gather(*kept), strict=True)]

    async def GetNotes(self, request: pb.NotesRequest, context: Context) -> pb.NotesReply:
        queue = self._shards.book.queue(request.dataset)
        store = self._shards.notes
        numbered = sorted(queue.notes.items())
        await self._controller.journal.durable()
        reply, size = pb.NotesReply(complete=queue.complete), 0
        for (epoch, ordinal), text in numbered[max(0, request.skip) :]:
            extent = queue.extent(EpochShard(epoch, ordinal))
            data = await asyncio.to_thread(store.read, request.dataset, text)
            if reply.notes and size + len(data) > NOTES_PER_REPLY:
                reply.more = True
                break
            size += len(data)
            reply.notes.add(
                epoch=epoch, ordinal=ordinal, name=extent.name, start=extent.start, end=extent.end, data=data
            )
        return reply

    async def CommitPlan(self, request: pb.CommitPlanRequest, context: Context) -> pb.Empty:
        self._shards.commit_plan(request.dataset, request.shards, request.node, end=request.end)
        await self._controller.journal.durable()
        return pb.Empty()

    async def EndDataset(self, request: pb.DatasetName, context: Context) -> pb.Empty:
        self._shards.end_dataset(request.name)
        await self._controller.journal.durable()
        return pb.Empty()

    async def WaitForShards(self, request: pb.WaitForShardsRequest, context: Context) -> pb.WaitForShardsReply:
        shards = self._shards
        if request.session:
            shards.beat(request.session)
        found = await at_most(
            shards.wait_for_shards(request.dataset, request.session), context, self._controller.max_wait_s
        )
        if request.session:
            shards.beat(request.session)
        await self._controller.journal.durable()
        return pb.WaitForShardsReply(availability=AVAILABILITY.to_wire[found or Availability.WAIT])

    async def Checkpoint(self, request: pb.Empty, context: Context) -> pb.ShardCheckpoint:
        saved = self._shards.checkpoint()
        await self._controller.journal.durable()
        return checkpoint_message(saved)

    async def RestoreCheckpoint(self, request: pb.ShardCheckpoint, context: Context) -> pb.RestoreCheckpointReply:
        try:
            restored = self._shards.restore_checkpoint(checkpoint_from(request))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise InvalidRequest(f"not a shard checkpoint: {error}") from error
        await self._controller.journal.durable()
        return pb.RestoreCheckpointReply(restored=restored)


def _put_shard(reply: pb.ExchangeReply, lease: Lease) -> None:
    """Field by field: a third of the time of a message made apart and copied in, and there are thousands per call."""
    of, extent, shard = lease.shard, lease.extent, reply.shards.add()
    shard.lease = lease.number
    shard.name = extent.name
    shard.start = extent.start
    shard.end = extent.end
    shard.offset = of.offset
    shard.epoch = of.epoch
    shard.ordinal = of.ordinal
    if lease.indices:
        shard.indices.extend(lease.indices)
