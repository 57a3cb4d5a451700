"""Shard checkpoints between ``core`` (JSON values, as users keep them) and the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.rpc import pliant_pb2 as pb

_PLAIN = (
    "epoch", "cursor", "length", "closed", "finished_shards", "finished_records", "epochs_done", "slowest_s"
)  # fmt: skip
_PARTITION = ("name", "position", "end", "closed", "finished_records")


def checkpoint_message(checkpoint: Mapping[str, Any]) -> pb.ShardCheckpoint:
    """``InvalidRequest`` if this is none, or was damaged so that it has no such form."""
    try:
        datasets = [_dataset_message(name, entry) for name, entry in checkpoint["datasets"].items()]
        return pb.ShardCheckpoint(version=checkpoint["version"], datasets=datasets)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"not a shard checkpoint: {error!r}") from error


def checkpoint_from(message: pb.ShardCheckpoint) -> dict[str, Any]:
    return {"version": message.version, "datasets": {entry.name: _dataset_from(entry) for entry in message.datasets}}


def _dataset_message(name: str, entry: Mapping[str, Any]) -> pb.DatasetCheckpoint:
    state = entry["state"]
    return pb.DatasetCheckpoint(
        name=name,
        origin=entry.get("origin", ""),
        layout=entry["layout"],
        **{field: state[field] for field in _PLAIN},
        ended=state.get("ended", False),
        growths=[pb.StreamGrowth(producer=p, number=n, length=length) for p, n, length in state["growths"]],
        returned=[_shard_message(fields) for fields in state["returned"]],
        parked=[pb.ParkedEpochShard(shard=_shard_message(fields), message=text) for fields, text in state["parked"]],
        open_epochs=[pb.OpenEpoch(epoch=epoch, records=records) for epoch, records in state["open_epochs"]],
        notes=[pb.NoteName(epoch=e, ordinal=ordinal, name=note) for e, ordinal, note in state.get("notes", ())],
        partitions=[pb.PartitionPosition(**partition) for partition in state.get("partitions", ())],
        turn=state.get("turn", 0),
    )


def _dataset_from(entry: pb.DatasetCheckpoint) -> dict[str, Any]:
    state: dict[str, Any] = {field: getattr(entry, field) for field in _PLAIN}
    state["growths"] = [[g.producer, g.number, g.length] for g in entry.growths]
    state["returned"] = [_shard_from(shard) for shard in entry.returned]
    state["parked"] = [[_shard_from(parked.shard), parked.message] for parked in entry.parked]
    state["open_epochs"] = [[found.epoch, found.records] for found in entry.open_epochs]
    if entry.partitions:
        state["partitions"] = [{f: getattr(found, f) for f in _PARTITION} for found in entry.partitions]
        state["turn"] = entry.turn
    if entry.ended:
        state["ended"] = True
    if entry.notes:
        state["notes"] = [[note.epoch, note.ordinal, note.name] for note in entry.notes]
    return {"origin": entry.origin, "layout": dict(entry.layout), "state": state}


def _shard_message(fields: Sequence[int]) -> pb.EpochShard:
    """``core.shards.queue.pack``: three numbers are a run of untouched neighbours, five are one shard."""
    if len(fields) == 3:
        epoch, ordinal, count = fields
        return pb.EpochShard(epoch=epoch, ordinal=ordinal, count=count)
    epoch, ordinal, offset, failures, timeouts = fields
    return pb.EpochShard(epoch=epoch, ordinal=ordinal, offset=offset, failures=failures, timeouts=timeouts)


def _shard_from(shard: pb.EpochShard) -> list[int]:
    if shard.HasField("count"):
        return [shard.epoch, shard.ordinal, shard.count]
    return [shard.epoch, shard.ordinal, shard.offset, shard.failures, shard.timeouts]
