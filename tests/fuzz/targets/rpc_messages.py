"""Messages between master, agents and programs: what parses as a message converts, or is refused by an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from pliant.core.events import NodeLaunched
from pliant.core.events.record import EventRecord
from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.parameters.partition_map import PartitionMap
from pliant.core.shards.datasets import DatasetSpec, FilePart
from pliant.core.status import DatasetStatus, JobStatus, NodeStatus
from pliant.ps.specs import DenseSpec, TableSpec
from pliant.rpc import audits, checkpoints, contributions, datasets, events, parameters, status
from pliant.rpc import pliant_pb2 as pb

CONVERTERS: list[tuple[type[Any], Callable[[Any], object]]] = [
    (pb.Dataset, datasets.from_message),
    (pb.ShardCheckpoint, checkpoints.checkpoint_from),
    (pb.Event, events.event_from),
    (pb.AuditReply, audits.audit_from),
    (pb.JobStatus, status.status_from_message),
    (pb.World, status.world_from_message),
    (pb.SeatStats, status.server_stats_from_message),
    (pb.PartitionMap, parameters.map_from_message),
    (pb.JoinSeatReply, parameters.restore_point),
    (pb.Order, parameters.order_from_message),
    (pb.ContributeRequest, parameters.push_with_records),
    (pb.ContributeReply, parameters.push_decision),
    (pb.ContributeBatchRequest, contributions.batch_from_message),
    (pb.ContributeBatchReply, contributions.replies_from_message),
    (pb.NextOrdersReply, contributions.orders_from_message),
    (pb.ScheduleRequest, parameters.schedule_rows),
    (pb.TableSpec, lambda message: parameters.definitions_from([message])),
    (pb.VariableSpec, lambda message: parameters.definitions_from([message])),
]


class Fuzz:
    """The input is a number (which message) and the message."""

    name = "rpc_messages"

    def seeds(self) -> list[bytes]:
        spec = DatasetSpec("train", 10, files=(FilePart("a.rio", 0, 100), FilePart("b.rio", 5, 9)))
        node = NodeStatus("worker-0", "worker", NodeState.RUNNING, message="why")
        job = JobStatus("job", Phase.RUNNING, nodes=(node,), datasets=(DatasetStatus("train", records_total=9),))
        shard = pb.EpochShard(epoch=1, ordinal=2, count=3)
        entry = pb.DatasetCheckpoint(name="train", layout={"size": "100"}, returned=[shard], cursor=5)
        made: list[Any] = [
            datasets.to_message(spec),
            pb.ShardCheckpoint(version=1, datasets=[entry]),
            events.event_message(EventRecord(1, 2.0, NodeLaunched(node="worker-0", reason="first"))),
            status.status_message(job),
            parameters.map_message(PartitionMap(1, (0, 1, 0, 1), {"v": (0,)}, {"v": 6})),
            *parameters.table_messages([TableSpec("t", 3).to_json()]),
            *parameters.variable_messages([DenseSpec("v", (2, 3)).to_json()]),
        ]
        kinds = [kind for kind, _ in CONVERTERS]
        seeds = [bytes([kinds.index(type(message))]) + message.SerializeToString() for message in made]
        return seeds + [bytes([number]) for number in range(len(CONVERTERS))]

    def check(self, data: bytes, folder: Path) -> None:
        kind, convert = CONVERTERS[data[0] % len(CONVERTERS) if data else 0]
        try:
            message = kind.FromString(data[1:])
        except DecodeError:
            return  # gRPC answers the caller that its message is none
        convert(message)
