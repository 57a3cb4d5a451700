"""Parameter servers as messages: definitions, the partition map, seats, orders and pushes. Converted here and nowhere else
(their status in ``rpc/status.py``; batches of pushes and runs of orders in ``rpc/contributions.py``).

Definitions travel as messages and are JSON objects inside: the field names of both are those of ``ps/specs.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from pliant.core.errors import InvalidRequest
from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.contributions import PushDecision, PushOutcome, PushRequest, PushWithRecords
from pliant.core.parameters.definitions import Definition
from pliant.core.parameters.dumps import RestorePoint
from pliant.core.parameters.orders import Contribution, Order, OrderKind
from pliant.core.parameters.partition_map import PartitionMap
from pliant.core.status import SeatStatus
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.status import seat_message

T = TypeVar("T")

_KINDS: dict[OrderKind, pb.OrderKind] = {
    OrderKind.NOTHING: pb.ORDER_NOTHING,
    OrderKind.DEFINE: pb.ORDER_DEFINE,
    OrderKind.ASSIGN: pb.ORDER_ASSIGN,
    OrderKind.APPLY: pb.ORDER_APPLY,
    OrderKind.DISCARD: pb.ORDER_DISCARD,
    OrderKind.DUMP: pb.ORDER_DUMP,
    OrderKind.MOVE: pb.ORDER_MOVE,
}
_KINDS_BACK = {message: kind for kind, message in _KINDS.items()}
OUTCOMES: dict[PushOutcome, pb.PushOutcome] = {
    PushOutcome.ACCEPTED: pb.PUSH_ACCEPTED,
    PushOutcome.REPEATED: pb.PUSH_REPEATED,
    PushOutcome.OVER: pb.PUSH_OVER,
    PushOutcome.STALE: pb.PUSH_STALE,
    PushOutcome.UNSCHEDULED: pb.PUSH_UNSCHEDULED,
    PushOutcome.MOVED: pb.PUSH_MOVED,
    PushOutcome.LOST: pb.PUSH_LOST,
    PushOutcome.GAP: pb.PUSH_GAP,
}
_OUTCOMES_BACK = {message: outcome for outcome, message in OUTCOMES.items()}


def _known(back: Mapping[Any, T], value: int, what: str) -> T:
    """A value of an enum, as ours; one of a later release is refused."""
    found = back.get(value)
    if found is None:
        raise InvalidRequest(f"{value} is not a known {what}", hint="use the same release of Pliant everywhere")
    return found


# --- definitions


def table_messages(tables: Iterable[Definition]) -> list[pb.TableSpec]:
    return [pb.TableSpec(**table) for table in tables]


def variable_messages(variables: Iterable[Definition]) -> list[pb.VariableSpec]:
    return [pb.VariableSpec(**variable) for variable in variables]


def definitions_from(messages: Iterable[pb.TableSpec] | Iterable[pb.VariableSpec]) -> list[dict[str, Any]]:
    """As JSON objects with all fields, also those that have the default of protobuf."""
    return [_object(message) for message in messages]


def _object(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None:
            if message.HasField(field.name):
                found[field.name] = _object(value)
        else:
            found[field.name] = list(value) if field.is_repeated else value
    return found


# --- the map


def map_message(partition_map: PartitionMap) -> pb.PartitionMap:
    return pb.PartitionMap(
        version=partition_map.version,
        partitions=partition_map.partitions,
        blocks=_block_seats(partition_map.blocks),
    )


def map_from_message(message: pb.PartitionMap) -> PartitionMap:
    blocks = {name: tuple(found.seats) for name, found in message.blocks.items()}
    return PartitionMap(message.version, tuple(message.partitions), blocks)


def parameter_map_message(book: ParameterBook, seats: Sequence[SeatStatus]) -> pb.ParameterMap:
    return pb.ParameterMap(
        map=map_message(book.map),
        seats_version=book.seats_version,
        seats=[seat_message(seat) for seat in seats],
        tables=table_messages(book.tables),
        variables=variable_messages(book.variables),
        initialized=book.initialized,
        iteration=book.iteration,
        sync=book.options.sync,
        batch=book.options.batch,
        push_window=book.options.window,
        assign_order=book.assign_order,
    )


def _block_seats(blocks: Mapping[str, tuple[int, ...]]) -> dict[str, pb.BlockSeats]:
    return {name: pb.BlockSeats(seats=seats) for name, seats in blocks.items()}


# --- seats


def join_reply(point: RestorePoint) -> pb.JoinSeatReply:
    return pb.JoinSeatReply(
        holder=pb.SeatHolder(seat=point.seat, fencing_token=point.fencing_token),
        base=point.base,
        last=point.last,
        restore_from=point.restore_from,
        map=map_message(point.map),
        tables=table_messages(point.tables),
        variables=variable_messages(point.variables),
        iteration=point.iteration,
        durable_log=point.durable_log,
    )


def restore_point(reply: pb.JoinSeatReply) -> RestorePoint:
    return RestorePoint(
        reply.holder.seat,
        reply.holder.fencing_token,
        reply.base,
        reply.last,
        reply.restore_from,
        map_from_message(reply.map),
        tuple(definitions_from(reply.tables)),
        tuple(definitions_from(reply.variables)),
        reply.iteration,
        reply.durable_log,
    )


# --- orders


def order_message(order: Order) -> pb.Order:
    if order.kind is OrderKind.APPLY:  # almost all of them
        contributions = [
            pb.Contribution(session=c.session, sequence=c.sequence, weight=c.weight, seats=c.seats)
            for c in order.contributions
        ]
        return pb.Order(
            number=order.number,
            kind=pb.ORDER_APPLY,
            map_version=order.map_version,
            iteration=order.iteration,
            contributions=contributions,
            scale=order.scale,
            factors=order.factors,
        )
    return pb.Order(
        number=order.number,
        kind=_KINDS[order.kind],
        map_version=order.map_version,
        iteration=order.iteration,
        contributions=[
            pb.Contribution(session=c.session, sequence=c.sequence, weight=c.weight, seats=c.seats)
            for c in order.contributions
        ],
        scale=order.scale,
        factors=order.factors,
        tables=table_messages(order.tables),
        variables=variable_messages(order.variables),
        placement=_block_seats(order.placement),
        names=order.names,
        session=order.session,
        full=order.full,
        since=order.since,
        seats=order.seats,
        source=order.source,
        target=order.target,
        partitions=order.partitions,
        blocks=[pb.BlockName(variable=name, block=at) for name, at in order.blocks],
    )


def order_from_message(message: pb.Order) -> Order:
    return Order(
        message.number,
        _known(_KINDS_BACK, message.kind, "kind of order"),
        message.map_version,
        message.iteration,
        contributions=tuple(
            Contribution(c.session, c.sequence, c.weight, tuple(c.seats)) for c in message.contributions
        ),
        scale=message.scale,
        factors=tuple(message.factors),
        tables=tuple(definitions_from(message.tables)),
        variables=tuple(definitions_from(message.variables)),
        placement={name: tuple(found.seats) for name, found in message.placement.items()},
        names=tuple(message.names),
        session=message.session,
        full=message.full,
        since=message.since,
        seats=tuple(message.seats),
        source=message.source,
        target=message.target,
        partitions=tuple(message.partitions),
        blocks=tuple((b.variable, b.block) for b in message.blocks),
    )


# --- pushes


def holders_from(messages: Iterable[pb.SeatHolder]) -> tuple[tuple[int, int], ...]:
    return tuple((holder.seat, holder.fencing_token) for holder in messages)


def push_with_records(message: pb.ContributeRequest) -> PushWithRecords:
    push = PushRequest(
        message.session,
        message.sequence,
        message.based_on,
        message.examples,
        holders_from(message.holders),
        message.map_version,
    )
    return PushWithRecords(
        push,
        tuple((p.lease, p.records) for p in message.progress),
        tuple((p.lease, p.after) for p in message.progress if p.HasField("after")),
    )


def push_reply(decision: PushDecision, scheduled: int = 0) -> pb.ContributeReply:
    return pb.ContributeReply(
        outcome=OUTCOMES[decision.outcome],
        iteration=decision.iteration,
        staleness=decision.staleness,
        reason=decision.reason,
        lost_leases=decision.lost_leases,
        scheduled=scheduled,
    )


def push_decision(reply: pb.ContributeReply) -> PushDecision:
    return PushDecision(
        _known(_OUTCOMES_BACK, reply.outcome, "outcome of a push"),
        reply.iteration,
        reply.staleness,
        reply.reason,
        tuple(reply.lost_leases),
    )


def schedule_rows(request: pb.ScheduleRequest) -> list[list[float]]:
    """One row of factors, by group, for each update."""
    groups, factors = request.groups, request.factors
    if groups < 1 or len(factors) % groups or request.first < 0:
        raise InvalidRequest(f"invalid schedule: {groups} groups, {len(factors)} factors")
    return [list(factors[at : at + groups]) for at in range(0, len(factors), groups)]
