"""Orders to parameter servers, and the map, as messages: converted here and nowhere else."""

from __future__ import annotations

import json

from pliant.core.ps_map import PsMap
from pliant.core.ps_states import Kind, Order, Part
from pliant.rpc import pliant_pb2 as pb


def order_message(order: Order) -> pb.Order:
    return pb.Order(
        number=order.number,
        kind=order.kind.value,
        map_version=order.map_version,
        iteration=order.iteration,
        parts=[
            pb.OrderPart(session=p.session, sequence=p.sequence, weight=p.weight, seats=p.seats) for p in order.parts
        ],
        scale=order.scale,
        factors=order.factors,
        tables=[json.dumps(table) for table in order.tables],
        variables=[json.dumps(variable) for variable in order.variables],
        placed={name: pb.BlockSeats(seats=seats) for name, seats in order.placed.items()},
        names=order.names,
        session=order.session,
        full=order.full,
        since=order.since,
        seats=order.seats,
        giver=order.giver,
        taker=order.taker,
        partitions=order.partitions,
        blocks=[pb.BlockName(variable=name, block=at) for name, at in order.blocks],
    )


def order_from(message: pb.Order) -> Order:
    return Order(
        message.number,
        Kind(message.kind),
        message.map_version,
        message.iteration,
        parts=tuple(Part(p.session, p.sequence, p.weight, tuple(p.seats)) for p in message.parts),
        scale=message.scale,
        factors=tuple(message.factors),
        tables=tuple(json.loads(table) for table in message.tables),
        variables=tuple(json.loads(variable) for variable in message.variables),
        placed={name: tuple(found.seats) for name, found in message.placed.items()},
        names=tuple(message.names),
        session=message.session,
        full=message.full,
        since=message.since,
        seats=tuple(message.seats),
        giver=message.giver,
        taker=message.taker,
        partitions=tuple(message.partitions),
        blocks=tuple((b.variable, b.block) for b in message.blocks),
    )


def map_from(message: pb.ParameterMap) -> PsMap:
    blocks = {name: tuple(found.seats) for name, found in message.blocks.items()}
    return PsMap(message.version, tuple(message.partitions), blocks)
