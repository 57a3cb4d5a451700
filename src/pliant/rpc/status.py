"""``core.status.JobStatus`` and its parts as protobuf messages, both ways: the only place where one becomes the other.

A message's field has the name of the dataclass's, so flat parts are copied field by field; what needs more (enums, optional
parts, nested ones) is spelled out. proto3 has no None: an absent message or an unspecified ``exit_reason`` is None here, and a
metric that is not a finite number travels as NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import Message

from pliant.core.job import Failure
from pliant.core.rendezvous.book import Member, World
from pliant.core.status import (
    CheckpointStatus,
    Condition,
    DatasetStatus,
    EvaluationStatus,
    JobStatus,
    NodeStatus,
    ParametersStatus,
    ParkedShard,
    PartitionStatus,
    PlanStatus,
    Progress,
    RoleStatus,
    SeatStatus,
    ServerStats,
)
from pliant.core.training import Result
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.enums import EXIT_REASON, NODE_STATE, PHASE, SHARD_TYPE
from pliant.rpc.planning import planner_from, planner_message

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)


# --- to protobuf


def status_message(status: JobStatus) -> pb.JobStatus:
    converted = {
        "phase": PHASE.to_wire[status.phase],
        "conditions": [pb.Condition(**_values(condition)) for condition in status.conditions],
        "roles": [pb.RoleStatus(**_values(role)) for role in status.roles],
        "nodes": [_node_message(node) for node in status.nodes],
        "datasets": [_dataset_message(dataset) for dataset in status.datasets],
        "progress": _progress_message(status.progress),
        "last_plan": pb.PlanStatus(**_values(status.last_plan)) if status.last_plan else None,
        "planner": planner_message(status.planner) if status.planner else None,
        "evaluations": [_evaluation_message(evaluation) for evaluation in status.evaluations],
        "best": _evaluation_message(status.best) if status.best else None,
        "first_failure": pb.Failure(**_values(status.first_failure)) if status.first_failure else None,
        "world": world_message(status.world) if status.world else None,
        "parameters": _parameters_message(status.parameters) if status.parameters else None,
        "checkpoints": [pb.CheckpointStatus(**_values(checkpoint)) for checkpoint in status.checkpoints],
    }
    return pb.JobStatus(**{**_values(status), **converted})


def _progress_message(progress: Progress) -> pb.Progress:
    return pb.Progress(**{**_values(progress), "metrics": _metrics(progress.metrics)})


def _metrics(metrics: Mapping[str, float | None]) -> dict[str, float]:
    return {name: math.nan if value is None else value for name, value in metrics.items()}


def _node_message(node: NodeStatus) -> pb.NodeStatus:
    reason = EXIT_REASON.to_wire[node.exit_reason] if node.exit_reason else pb.EXIT_REASON_UNSPECIFIED
    return pb.NodeStatus(**{**_values(node), "state": NODE_STATE.to_wire[node.state], "exit_reason": reason})


def _dataset_message(dataset: DatasetStatus) -> pb.DatasetStatus:
    parked = [pb.ParkedShard(**_values(shard)) for shard in dataset.parked]
    partitions = [pb.PartitionStatus(**_values(partition)) for partition in dataset.partitions]
    converted = {"type": SHARD_TYPE.to_wire[dataset.type], "parked": parked, "partitions": partitions}
    return pb.DatasetStatus(**{**_values(dataset), **converted})


def _evaluation_message(evaluation: EvaluationStatus) -> pb.EvaluationResult:
    metrics = _metrics(evaluation.metrics)
    return pb.EvaluationResult(version=evaluation.version, metrics=metrics, records=evaluation.records)


def result_message(result: Result) -> pb.EvaluationResult:
    """For a training program, which is given infinite metrics as they are."""
    return pb.EvaluationResult(version=result.version, metrics=result.metrics, records=result.records)


def world_message(world: World) -> pb.World:
    members = [pb.Member(**{**_values(member), "attrs": dict(member.attrs)}) for member in world.members]
    return pb.World(round=world.round, members=members, formed_at=world.formed_at, seats=world.seats)


def _parameters_message(parameters: ParametersStatus) -> pb.ParametersStatus:
    seats = [seat_message(seat) for seat in parameters.seats]
    return pb.ParametersStatus(**{**_values(parameters), "seats": seats})


def seat_message(seat: SeatStatus) -> pb.SeatStatus:
    return pb.SeatStatus(**{**_values(seat), "stats": pb.SeatStats(**_values(seat.stats))})


# --- from protobuf


def status_from_message(message: pb.JobStatus) -> JobStatus:
    def optional(name: str) -> Any:
        return getattr(message, name) if message.HasField(name) else None

    plan, failure, best = optional("last_plan"), optional("first_failure"), optional("best")
    return _read(
        JobStatus,
        message,
        phase=PHASE.from_wire(message.phase),
        components=tuple(message.components),
        conditions=tuple(_read(Condition, condition) for condition in message.conditions),
        roles=tuple(_read(RoleStatus, role) for role in message.roles),
        nodes=tuple(_node(node) for node in message.nodes),
        datasets=tuple(_dataset(dataset) for dataset in message.datasets),
        progress=_read(Progress, message.progress, metrics=_finite(message.progress.metrics)),
        eta=optional("eta"),
        goodput=optional("goodput"),
        last_plan=_read(PlanStatus, plan) if plan is not None else None,
        planner=planner_from(message.planner) if message.HasField("planner") else None,
        evaluations=tuple(_evaluation(evaluation) for evaluation in message.evaluations),
        best=_evaluation(best) if best is not None else None,
        first_failure=_read(Failure, failure) if failure is not None else None,
        world=world_from_message(message.world) if message.HasField("world") else None,
        parameters=_parameters(message.parameters) if message.HasField("parameters") else None,
        checkpoints=tuple(_read(CheckpointStatus, checkpoint) for checkpoint in message.checkpoints),
    )


def _node(message: pb.NodeStatus) -> NodeStatus:
    reason = EXIT_REASON.from_wire(message.exit_reason) if message.exit_reason else None
    return _read(NodeStatus, message, state=NODE_STATE.from_wire(message.state), exit_reason=reason)


def _dataset(message: pb.DatasetStatus) -> DatasetStatus:
    parked = tuple(_read(ParkedShard, shard) for shard in message.parked)
    partitions = tuple(_read(PartitionStatus, partition) for partition in message.partitions)
    kind = SHARD_TYPE.from_wire(message.type)
    return _read(DatasetStatus, message, type=kind, parked=parked, partitions=partitions)


def _evaluation(message: pb.EvaluationResult) -> EvaluationStatus:
    return EvaluationStatus(message.version, _finite(message.metrics), message.records)


def _finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def world_from_message(message: pb.World) -> World:
    members = tuple(_read(Member, member, attrs=dict(member.attrs)) for member in message.members)
    return World(message.round, members, message.formed_at, tuple(message.seats))


def _parameters(message: pb.ParametersStatus) -> ParametersStatus:
    seats = tuple(_read(SeatStatus, seat, stats=server_stats_from_message(seat.stats)) for seat in message.seats)
    return _read(ParametersStatus, message, seats=seats, staleness=tuple(message.staleness))


def server_stats_from_message(message: pb.SeatStats) -> ServerStats:
    return _read(ServerStats, message)


# --- fields of the same name


def _values(part: DataclassInstance) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part)}


def _read(kind: type[D], message: Message, **converted: object) -> D:
    """An instance with the fields of the message, those in ``converted`` as they are there."""
    flat = {field.name: getattr(message, field.name) for field in fields(kind) if field.name not in converted}
    return kind(**flat, **converted)
