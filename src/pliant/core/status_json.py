"""A ``JobStatus`` as JSON values and back: what ``pliant status --json`` prints and the summary of an ended job begins with.

Keys are the names of the fields; progress has its ``loss`` and ``percent`` as well. What is None is left out, as are metrics that
are not finite numbers, which JSON cannot express. Reading ignores unknown keys and takes the default for missing ones, so that a
summary can hold more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from pliant.core.job import Failure, Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import NodeState
from pliant.core.planning.planner_state import PlannerState
from pliant.core.rendezvous.book import Member, World
from pliant.core.shards.datasets import ShardType
from pliant.core.status import (
    CheckpointStatus,
    Condition,
    DatasetStatus,
    EvaluationStatus,
    GrantStatus,
    JobStatus,
    NodeStatus,
    ParametersStatus,
    ParkedShard,
    PartitionStatus,
    PlannerStatus,
    PlanStatus,
    Progress,
    RoleStatus,
    SeatStatus,
    ServerStats,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)
T = TypeVar("T")
Json = Mapping[str, Any]


def status_to_json(status: JobStatus) -> dict[str, Any]:
    return {**part_to_json(status), "global_step": status.global_step, "optimize": status.optimize}


def part_to_json(part: DataclassInstance) -> dict[str, Any]:
    """One of the dataclasses of ``core.status``."""
    found = {field.name: _plain(getattr(part, field.name)) for field in fields(part)}
    if isinstance(part, NodeStatus):
        found["exit_reason"] = found["exit_reason"] or ""
    if isinstance(part, Progress):
        found |= {"loss": part.loss, "percent": round(part.percent, 2) if part.percent is not None else None}
    return {name: value for name, value in found.items() if value is not None}


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return part_to_json(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return value


def status_from_json(value: Json) -> JobStatus:
    return _read(
        JobStatus,
        value,
        phase=Phase(value["phase"]),
        components=tuple(value.get("components", ())),
        conditions=_all(value.get("conditions"), lambda inner: _read(Condition, inner)),
        roles=_all(value.get("roles"), lambda inner: _read(RoleStatus, inner)),
        nodes=_all(value.get("nodes"), _node),
        datasets=_all(value.get("datasets"), _dataset),
        progress=_progress(value.get("progress") or {}),
        last_plan=_one(value.get("last_plan"), lambda inner: _read(PlanStatus, inner)),
        planner=_one(value.get("planner"), _planner),
        evaluations=_all(value.get("evaluations"), _evaluation),
        best=_one(value.get("best"), _evaluation),
        first_failure=_one(value.get("first_failure"), lambda inner: _read(Failure, inner)),
        world=_one(value.get("world"), _world),
        parameters=_one(value.get("parameters"), _parameters),
        checkpoints=_all(value.get("checkpoints"), lambda inner: _read(CheckpointStatus, inner)),
    )


def _planner(value: Json) -> PlannerStatus:
    grant = _one(value.get("grant"), lambda inner: _read(GrantStatus, inner))
    return _read(PlannerStatus, value, state=PlannerState(value["state"]), grant=grant)


def _progress(value: Json) -> Progress:
    return _read(Progress, value, metrics=dict(value.get("metrics", {})))


def _node(value: Json) -> NodeStatus:
    reason = value.get("exit_reason")
    return _read(
        NodeStatus,
        value,
        state=NodeState(value["state"]),
        exit_reason=ExitReason(reason) if reason else None,
    )


def _dataset(value: Json) -> DatasetStatus:
    parked = _all(value.get("parked"), lambda inner: _read(ParkedShard, inner))
    partitions = _all(value.get("partitions"), lambda inner: _read(PartitionStatus, inner))
    kind = ShardType(value.get("type", ShardType.TRAIN))
    return _read(DatasetStatus, value, type=kind, parked=parked, partitions=partitions)


def _evaluation(value: Json) -> EvaluationStatus:
    return _read(EvaluationStatus, value, metrics=dict(value["metrics"]))


def _world(value: Json) -> World:
    members = _all(value.get("members"), lambda inner: _read(Member, inner, attrs=dict(inner["attrs"])))
    return _read(World, value, members=members, seats=tuple(value.get("seats", ())))


def _parameters(value: Json) -> ParametersStatus:
    seats = _all(
        value.get("seats"), lambda inner: _read(SeatStatus, inner, stats=_read(ServerStats, inner.get("stats") or {}))
    )
    return _read(ParametersStatus, value, seats=seats, staleness=tuple(value.get("staleness", ())))


def _read(kind: type[D], value: Json, **converted: object) -> D:
    """An instance with the fields that ``value`` has, those in ``converted`` as they are there."""
    flat = {field.name: value[field.name] for field in fields(kind) if field.name in value}
    return kind(**{**flat, **converted})


def _all(values: Sequence[Json] | None, read: Callable[[Json], T]) -> tuple[T, ...]:
    return tuple(read(value) for value in values or ())


def _one(value: Json | None, read: Callable[[Json], T]) -> T | None:
    return read(value) if value is not None else None
