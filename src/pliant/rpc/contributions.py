"""Batches of contributions, and runs of the orders that apply them, as columns of numbers.

In asynchronous training there are thousands of both in a second, and a message for each costs more than the decision on it. A
batch is unpacked into what the coordinator decides on; its answer and the orders are packed, and unpacked into what the receiver
would have got as single messages. Neighbour: ``parameters`` (the single messages).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from pliant.core.errors import InvalidRequest
from pliant.core.parameters.contributions import (
    MAX_WINDOW,
    PushDecision,
    PushOutcome,
    PushRequest,
    PushWithRecords,
)
from pliant.core.parameters.orders import Contribution, Order, OrderKind
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.parameters import OUTCOMES, holders_from, order_from_message, order_message

NOT_SET = -1

# --- a batch


def batch_message(requests: Sequence[pb.ContributeRequest]) -> pb.ContributeBatchRequest:
    """Of one session."""
    batch = pb.ContributeBatchRequest(session=requests[0].session)
    for one in requests:
        place = pb.StagingPlace(holders=one.holders, map_version=one.map_version)
        if not batch.places or batch.places[-1] != place:
            batch.places.append(place)
        batch.sequences.append(one.sequence)
        batch.based_on.append(one.based_on)
        batch.examples.append(one.examples)
        batch.place.append(len(batch.places) - 1)
        batch.reports.append(len(one.progress))
        for report in one.progress:
            batch.leases.append(report.lease)
            batch.records.append(report.records)
            batch.after.append(report.after if report.HasField("after") else NOT_SET)
    return batch


def batch_from_message(batch: pb.ContributeBatchRequest) -> list[PushWithRecords]:
    columns = [list(column) for column in (batch.sequences, batch.based_on, batch.examples, batch.place, batch.reports)]
    leases, records, after = list(batch.leases), list(batch.records), list(batch.after)
    places = [(holders_from(place.holders), place.map_version) for place in batch.places]
    count = len(columns[0])
    if not 1 <= count <= MAX_WINDOW:
        raise InvalidRequest(f"a batch of {count} contributions; allowed: 1 to {MAX_WINDOW}")
    is_whole = all(len(column) == count for column in columns) and len(leases) == len(records) == len(after)
    if not is_whole or not all(0 <= place < len(places) for place in columns[3]) or min(columns[4]) < 0:
        raise InvalidRequest("a batch of contributions whose columns do not fit together")
    if sum(columns[4]) != len(leases):
        raise InvalidRequest(
            f"a batch of contributions with {len(leases)} reports, of which {sum(columns[4])} are used"
        )
    found, at = [], 0
    for sequence, based_on, examples, place, reports in zip(*columns, strict=True):
        push = PushRequest(batch.session, sequence, based_on, examples, *places[place])
        own = slice(at, at + reports)
        progress = tuple(zip(leases[own], records[own], strict=True))
        required = tuple(one for one in zip(leases[own], after[own], strict=True) if one[1] != NOT_SET)
        at += reports
        found.append(PushWithRecords(push, progress, required))
    return found


def batch_reply(decisions: Sequence[PushDecision], scheduled: int) -> pb.ContributeBatchReply:
    return pb.ContributeBatchReply(
        outcomes=[OUTCOMES[decision.outcome] for decision in decisions],
        iterations=[decision.iteration for decision in decisions],
        staleness=[decision.staleness for decision in decisions],
        refusals=[
            pb.PushRefusal(contribution=at, reason=decision.reason, lost_leases=decision.lost_leases)
            for at, decision in enumerate(decisions)
            if decision.outcome is not PushOutcome.ACCEPTED and (decision.reason or decision.lost_leases)
        ],
        scheduled=scheduled,
    )


def replies_from_message(reply: pb.ContributeBatchReply) -> list[pb.ContributeReply]:
    """As if each contribution had been answered for itself."""
    if not len(reply.outcomes) == len(reply.iterations) == len(reply.staleness):
        raise InvalidRequest("an answer to a batch of contributions whose columns do not fit together")
    found = [
        pb.ContributeReply(outcome=outcome, iteration=iteration, staleness=staleness, scheduled=reply.scheduled)
        for outcome, iteration, staleness in zip(reply.outcomes, reply.iterations, reply.staleness, strict=True)
    ]
    for refusal in reply.refusals:
        if not 0 <= refusal.contribution < len(found):
            raise InvalidRequest(f"an answer to contribution {refusal.contribution} of {len(found)}")
        found[refusal.contribution].reason = refusal.reason
        found[refusal.contribution].lost_leases.extend(refusal.lost_leases)
    return found


# --- orders


def orders_message(orders: Iterable[Order], base: int) -> pb.NextOrdersReply:
    reply = pb.NextOrdersReply(base=base)
    run: list[Order] = []
    for order in orders:
        if run and not _continues(order, run[-1]):
            reply.runs.append(_run_message(run))
            run = []
        if _is_packed(order):
            run.append(order)
        else:
            reply.orders.append(order_message(order))
    if run:
        reply.runs.append(_run_message(run))
    return reply


def orders_from_message(reply: pb.NextOrdersReply) -> list[Order]:
    """In number order."""
    orders = [order_from_message(message) for message in reply.orders]
    for run in reply.runs:
        orders += _run_from_message(run)
    return sorted(orders, key=lambda order: order.number)


def _is_packed(order: Order) -> bool:
    return (
        order.kind is OrderKind.APPLY
        and len(order.contributions) == 1
        and order.contributions[0].weight == 1.0
        and not order.factors
    )


def _continues(order: Order, last: Order) -> bool:
    return (
        _is_packed(order)
        and order.number == last.number + 1
        and order.iteration == last.iteration + 1
        and order.map_version == last.map_version
        and order.contributions[0].seats == last.contributions[0].seats
    )


def _run_message(run: Sequence[Order]) -> pb.ApplyRun:
    first = run[0]
    contributions = [order.contributions[0] for order in run]
    sessions: dict[str, int] = {}
    return pb.ApplyRun(
        first=first.number,
        map_version=first.map_version,
        iteration=first.iteration,
        seats=contributions[0].seats,
        session=[sessions.setdefault(one.session, len(sessions)) for one in contributions],
        sessions=list(sessions),
        sequences=[one.sequence for one in contributions],
        scales=[order.scale for order in run],
    )


def _run_from_message(run: pb.ApplyRun) -> Iterator[Order]:
    if not len(run.session) == len(run.sequences) == len(run.scales):
        raise InvalidRequest("orders whose columns do not fit together")
    if not all(0 <= at < len(run.sessions) for at in run.session):
        raise InvalidRequest("orders that name sessions which are not there")
    sessions, seats = list(run.sessions), tuple(run.seats)
    columns = zip(run.session, run.sequences, run.scales, repeat(seats), strict=False)
    for at, (session, sequence, scale, staged) in enumerate(columns):
        yield Order(
            run.first + at,
            OrderKind.APPLY,
            run.map_version,
            run.iteration + at,
            contributions=(Contribution(sessions[session], sequence, 1.0, staged),),
            scale=scale,
        )
