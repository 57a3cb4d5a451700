"""What a heartbeat says of a node's usage, between protobuf and core."""

from __future__ import annotations

from dataclasses import astuple

from pliant.core.planning.samples import NodeUsage
from pliant.core.planning.time_spent import TimeSpent
from pliant.rpc import pliant_pb2 as pb


def time_spent_message(spent: TimeSpent) -> pb.TimeSpent:
    data, peers, unit, units, began, read_at = astuple(spent)
    return pb.TimeSpent(data=data, peers=peers, unit=unit, units=units, began=began, read_at=read_at)


def node_usage(message: pb.Usage, now: float) -> NodeUsage:
    spent = message.time
    return NodeUsage(
        now,
        message.cpu,
        message.memory_mb,
        message.memory_limit_mb,
        message.cpu_limit,
        message.throttled,
        TimeSpent(spent.data, spent.peers, spent.unit, spent.units, spent.began, spent.read_at)
        if message.HasField("time")
        else None,
    )
