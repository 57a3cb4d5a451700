"""States that travel, between the enums of ``core`` and those of the proto."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

from pliant.core.errors import InvalidRequest
from pliant.core.job import Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.permanent import PermanentKind
from pliant.core.nodes.states import NodeState
from pliant.core.planning.history import Objective
from pliant.core.planning.plan_record import Outcome
from pliant.core.planning.planner_state import PlannerState
from pliant.core.shards.datasets import ShardType
from pliant.core.shards.leases import Availability
from pliant.rpc import pliant_pb2 as pb

E = TypeVar("E", bound=StrEnum)


class EnumCodec(Generic[E]):
    """Pairs the members of an enum with the proto's values of the same names; ``PREFIX_UNSPECIFIED`` is the default.

    ``unknown``: what any other value means, such as one of a later release; without it such a value is refused.
    """

    def __init__(
        self, core: type[E], wire: Any, prefix: str, *, default: E | None = None, unknown: E | None = None
    ) -> None:
        self._name = core.__name__
        self._unknown = unknown
        self.to_wire: Mapping[E, Any] = {member: wire.Value(f"{prefix}_{member.name}") for member in core}
        self._from_wire = {value: member for member, value in self.to_wire.items()}
        if default is not None:
            self._from_wire.setdefault(0, default)

    def from_wire(self, value: int) -> E:
        found = self._from_wire.get(value, self._unknown)
        if found is None:
            known = ", ".join(f"{number} ({member.value})" for number, member in self._from_wire.items())
            raise InvalidRequest(f"{value} is not a {self._name}; known: {known}")
        return found


AVAILABILITY = EnumCodec(Availability, pb.Availability, "AVAILABILITY")
EXIT_REASON = EnumCodec(ExitReason, pb.ExitReason, "EXIT_REASON", unknown=ExitReason.UNKNOWN)
PERMANENT_KIND = EnumCodec(PermanentKind, pb.PermanentKind, "PERMANENT_KIND")
SHARD_TYPE = EnumCodec(ShardType, pb.ShardType, "SHARD_TYPE", default=ShardType.TRAIN)
NODE_STATE = EnumCodec(NodeState, pb.NodeState, "NODE_STATE")
PHASE = EnumCodec(Phase, pb.Phase, "PHASE")
PLANNER_STATE = EnumCodec(PlannerState, pb.PlannerState, "PLANNER_STATE")
PLAN_OUTCOME = EnumCodec(Outcome, pb.PlanOutcome, "PLAN_OUTCOME")
PLAN_OBJECTIVE = EnumCodec(Objective, pb.PlanObjective, "PLAN_OBJECTIVE")
