"""Datasets between ``core`` and the wire, both ways, so that every field is named in one place."""

from __future__ import annotations

from typing import Any

from pliant.core.shards.datasets import DatasetSpec, FilePart, StreamPartition
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.enums import SHARD_TYPE

_PLAIN = ("stream", "shuffle", "shuffle_records", "seed", "epoch_barrier", "skip_parked")
_OPTIONAL = ("size", "max_failures", "max_timeouts", "lease_floor")


def to_message(spec: DatasetSpec, *, defined_by: str = "") -> pb.Dataset:
    plain: dict[str, Any] = {name: getattr(spec, name) for name in _PLAIN}
    optional = {name: value for name in _OPTIONAL if (value := getattr(spec, name)) is not None}
    return pb.Dataset(
        name=spec.name,
        type=SHARD_TYPE.to_wire[spec.type],
        shard_size=spec.shard_size,
        epochs=spec.epochs,
        files=[pb.FilePart(name=f.name, start=f.start, end=f.end) for f in spec.files],
        indices=spec.indices,
        partitions=[pb.StreamPartition(name=p.name, start=p.start) for p in spec.partitions],
        defined_by=defined_by,
        **plain,
        **optional,
    )


def from_message(message: pb.Dataset) -> DatasetSpec:
    plain: dict[str, Any] = {name: getattr(message, name) for name in _PLAIN}
    optional = {name: getattr(message, name) for name in _OPTIONAL if message.HasField(name)}
    return DatasetSpec(
        message.name,
        message.shard_size,
        files=tuple(FilePart(f.name, f.start, f.end) for f in message.files),
        indices=tuple(message.indices),
        partitions=tuple(StreamPartition(p.name, p.start) for p in message.partitions),
        type=SHARD_TYPE.from_wire(message.type),
        epochs=message.epochs or 1,
        **plain,
        **optional,
    )
