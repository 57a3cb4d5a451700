"""Maps of shards (``core/shards/shard_map.py``) between ``core`` and the wire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from pliant.core.shards.shard_map import EpochMap, LeasedShard, ShardMap
from pliant.rpc import pliant_pb2 as pb


def shard_maps_message(maps: Iterable[ShardMap]) -> pb.ShardMapsReply:
    return pb.ShardMapsReply(maps=[_map_message(found) for found in maps])


def shard_maps_from(message: pb.ShardMapsReply) -> tuple[ShardMap, ...]:
    return tuple(_map_from(found) for found in message.maps)


def _map_message(found: ShardMap) -> pb.ShardMap:
    return pb.ShardMap(
        dataset=found.dataset,
        epochs=[_epoch_message(epoch) for epoch in found.epochs],
        holders=found.holders,
        leases=[pb.LeasedShard(**asdict(lease)) for lease in found.leases],
        leases_total=found.leases_total,
        left_out_epochs=found.left_out_epochs,
        ended_early=found.ended_early,
    )


def _epoch_message(found: EpochMap) -> pb.EpochMap:
    return pb.EpochMap(
        epoch=found.epoch,
        shards=found.shards,
        per_cell=found.per_cell,
        cells=found.cells,
        done=found.done,
        held_cells=[cell for cell, _ in found.held],
        held_by=[holder for _, holder in found.held],
        complete=found.complete,
    )


def _map_from(message: pb.ShardMap) -> ShardMap:
    return ShardMap(
        message.dataset,
        tuple(_epoch_from(epoch) for epoch in message.epochs),
        tuple(message.holders),
        tuple(
            LeasedShard(lease.node, lease.epoch, lease.ordinal, lease.start, lease.end, lease.done)
            for lease in message.leases
        ),
        message.leases_total,
        message.left_out_epochs,
        message.ended_early,
    )


def _epoch_from(message: pb.EpochMap) -> EpochMap:
    return EpochMap(
        message.epoch,
        message.shards,
        message.per_cell,
        message.cells,
        tuple(message.done),
        tuple(zip(message.held_cells, message.held_by, strict=True)),
        message.complete,
    )
