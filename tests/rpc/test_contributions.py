"""Batches and runs as columns: what comes out is what single messages would have carried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.core.parameters.contributions import MAX_WINDOW, PushDecision, PushOutcome
from pliant.core.parameters.orders import Contribution, Order, OrderKind
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.contributions import (
    batch_from_message,
    batch_message,
    batch_reply,
    orders_from_message,
    orders_message,
    replies_from_message,
)
from pliant.rpc.parameters import push_decision, push_with_records

small = st.integers(0, 1000)
holders = st.lists(st.builds(pb.SeatHolder, seat=st.integers(0, 3), fencing_token=small), max_size=3)
progress = st.lists(
    st.builds(pb.LeaseProgress, lease=small, records=small)
    | st.builds(pb.LeaseProgress, lease=small, records=small, after=small),
    max_size=3,
)
requests = st.builds(
    pb.ContributeRequest,
    session=st.just("s"),
    sequence=small,
    based_on=small,
    examples=small,
    holders=holders,
    map_version=st.integers(1, 2),
    progress=progress,
)
decisions = st.builds(
    PushDecision,
    outcome=st.sampled_from(PushOutcome),
    iteration=small,
    staleness=small,
    reason=st.text(max_size=20),
    lost_leases=st.lists(small, max_size=3).map(tuple),
)


@given(st.lists(requests, min_size=1, max_size=MAX_WINDOW))
def test_a_batch_carries_what_its_contributions_do(ones: list[pb.ContributeRequest]) -> None:
    sent = pb.ContributeBatchRequest.FromString(batch_message(ones).SerializeToString())
    assert batch_from_message(sent) == [push_with_records(one) for one in ones]


@given(st.lists(decisions, min_size=1, max_size=20), small)
def test_an_answer_carries_each_decision(made: list[PushDecision], scheduled: int) -> None:
    made = [one._replace(reason="", lost_leases=()) if one.outcome is PushOutcome.ACCEPTED else one for one in made]
    replies = replies_from_message(pb.ContributeBatchReply.FromString(batch_reply(made, scheduled).SerializeToString()))
    assert [push_decision(reply) for reply in replies] == made
    assert {reply.scheduled for reply in replies} == {scheduled}


@pytest.mark.parametrize(
    "batch",
    [
        pb.ContributeBatchRequest(session="s"),
        pb.ContributeBatchRequest(session="s", sequences=[1], based_on=[0], examples=[1], place=[0], reports=[0]),
        pb.ContributeBatchRequest(
            session="s",
            places=[pb.StagingPlace()],
            sequences=[1, 2],
            based_on=[0],
            examples=[1],
            place=[0],
            reports=[0],
        ),
        pb.ContributeBatchRequest(
            session="s", places=[pb.StagingPlace()], sequences=[1], based_on=[0], examples=[1], place=[0], reports=[-1]
        ),
        pb.ContributeBatchRequest(
            session="s",
            places=[pb.StagingPlace()],
            sequences=[1],
            based_on=[0],
            examples=[1],
            place=[0],
            reports=[1],
            leases=[1, 2],
            records=[1, 2],
            after=[0, 0],
        ),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(batch: pb.ContributeBatchRequest) -> None:
    with pytest.raises(InvalidRequest):
        batch_from_message(batch)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["apply", "apply", "apply", "two", "discard", "factors", "moved"]),
            st.sampled_from("abc"),
            st.sampled_from([(0,), (0, 1)]),
            st.sampled_from([1.0, 0.5]),
        ),
        max_size=40,
    )
)
def test_orders_arrive_as_they_were_and_in_order(drawn: list[tuple[str, str, tuple[int, ...], float]]) -> None:
    orders, iteration, version = list[Order](), 0, 1
    for number, (kind, session, seats, scale) in enumerate(drawn, 7):
        one = Contribution(session, number, 1.0, seats)
        version += kind == "moved"
        if kind == "discard":
            orders.append(Order(number, OrderKind.DISCARD, version, iteration, session=session))
            continue
        iteration += 1
        half = (one._replace(weight=0.5), one._replace(session="d", weight=0.5))
        contributions = half if kind == "two" else (one,)
        factors = (0.25,) if kind == "factors" else ()
        orders.append(Order(number, OrderKind.APPLY, version, iteration, contributions, scale, factors))
    sent = pb.NextOrdersReply.FromString(orders_message(orders, 3).SerializeToString())
    arrived = [
        one._replace(since=-1, source=-1, target=-1) for one in orders_from_message(sent)
    ]  # of others than these
    assert arrived == orders
    assert sent.base == 3
