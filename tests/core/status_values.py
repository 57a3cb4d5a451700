"""Any job status that could be, for property tests of its converters."""

from __future__ import annotations

from hypothesis import strategies as st

from pliant.core.job import Failure, Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import NodeState
from pliant.core.planning.planner_state import PlannerState
from pliant.core.rendezvous.book import Member, World
from pliant.core.shards.datasets import ShardType
from pliant.core.status import (
    BRAIN_AWAY,
    BRAIN_LEADS,
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

WORDS = st.text("abz-09äß \n\"'{}", max_size=6)
COUNTS = st.integers(0, 1 << 31) | st.just((1 << 63) - 1)
SMALL = st.integers(0, 1 << 20)
SECONDS = st.floats(0, 1e12, allow_nan=False)

_FIELDS = {int: COUNTS, str: WORDS, float: SECONDS}


def _tuple(inner: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(inner, max_size=2).map(tuple)


conditions = st.builds(Condition, *[WORDS] * 5)
roles = st.builds(RoleStatus, WORDS, *[SMALL] * 7, SECONDS, SECONDS, SMALL, WORDS, SMALL, SMALL)
nodes = st.builds(
    NodeStatus,
    name=WORDS,
    role=WORDS,
    state=st.sampled_from(NodeState),
    exit_reason=st.none() | st.sampled_from(ExitReason),
    message=WORDS,
    pid=COUNTS,
    agent_pid=COUNTS,
    host=WORDS,
    restarts=SMALL,
    replaces=WORDS,
    cpu=SECONDS,
    memory_mb=SECONDS,
    memory_limit_mb=SECONDS,
    records_per_second=SECONDS,
    created_at=SECONDS,
    ended_at=SECONDS,
    records=COUNTS,
    cpu_limit=SECONDS,
    gpu=SMALL,
)
parked = st.builds(ParkedShard, WORDS, COUNTS, COUNTS, SMALL, SMALL, WORDS)
datasets = st.builds(
    DatasetStatus,
    name=WORDS,
    type=st.sampled_from(ShardType),
    records_per_epoch=COUNTS,
    records_done=COUNTS,
    records_total=COUNTS,
    epochs=SMALL,
    epochs_done=SMALL,
    shards_done=COUNTS,
    shards_total=COUNTS,
    shards_in_work=COUNTS,
    shards_waiting=COUNTS,
    parked=_tuple(parked),
    complete=st.booleans(),
    lease_timeout=SECONDS,
    partitions=_tuple(
        st.builds(
            PartitionStatus,
            name=WORDS,
            start=COUNTS,
            position=COUNTS,
            end=COUNTS,
            closed=st.booleans(),
            records_done=COUNTS,
        )
    ),
    exact=st.booleans(),
    records_restored=COUNTS,
)
seats = st.builds(
    SeatStatus,
    seat=SMALL,
    node=WORDS,
    address=WORDS,
    fencing_token=COUNTS,
    partitions=SMALL,
    floats=COUNTS,
    weight=SECONDS,
    leaving=st.booleans(),
    stats=st.builds(ServerStats, *[COUNTS] * 6, SECONDS, SECONDS, COUNTS, COUNTS),
    order=COUNTS,
)
parameters = st.builds(
    ParametersStatus,
    st.booleans(),
    *[COUNTS] * 10,
    seats=_tuple(seats),
    staleness=_tuple(COUNTS),
    moves=COUNTS,
)
checkpoints = st.builds(CheckpointStatus, WORDS, COUNTS, COUNTS, SECONDS, COUNTS, COUNTS, SECONDS, WORDS, WORDS, WORDS)
members = st.builds(Member, WORDS, WORDS, st.dictionaries(WORDS, WORDS, max_size=2), COUNTS, COUNTS)
worlds = st.builds(World, COUNTS, _tuple(members), SECONDS, _tuple(st.integers(0, 9)))


def evaluations(values: st.SearchStrategy[float | None]) -> st.SearchStrategy[EvaluationStatus]:
    return st.builds(EvaluationStatus, COUNTS, st.dictionaries(WORDS, values, max_size=3), COUNTS)


def job_statuses(metrics: st.SearchStrategy[float | None]) -> st.SearchStrategy[JobStatus]:
    return st.builds(
        JobStatus,
        name=WORDS,
        phase=st.sampled_from(Phase),
        reason=WORDS,
        message=WORDS,
        started_at=SECONDS,
        suspended_at=SECONDS,
        ended_at=SECONDS,
        time=SECONDS,
        master_starts=SMALL,
        components=_tuple(WORDS),
        conditions=_tuple(conditions),
        roles=_tuple(roles),
        nodes=_tuple(nodes),
        datasets=_tuple(datasets),
        progress=st.builds(Progress, *[COUNTS] * 5, metrics=st.dictionaries(WORDS, metrics, max_size=2)),
        records_per_second=SECONDS,
        steps_per_second=SECONDS,
        stalled_seconds=SECONDS,
        eta=st.none() | SECONDS,
        goodput=st.none() | SECONDS,
        last_plan=st.none() | st.builds(PlanStatus, *[WORDS] * 6),
        planner=st.none()
        | st.builds(
            PlannerStatus,
            st.sampled_from(PlannerState),
            SECONDS,
            WORDS,
            WORDS,
            st.booleans(),
            st.sampled_from(("", BRAIN_LEADS, BRAIN_AWAY)),
            st.none() | st.builds(GrantStatus, COUNTS, SECONDS, SECONDS, WORDS),
        ),
        evaluations=_tuple(evaluations(metrics)),
        best=st.none() | evaluations(metrics),
        first_failure=st.none() | st.builds(Failure, WORDS, WORDS, WORDS, WORDS, SECONDS, WORDS),
        world=st.none() | worlds,
        parameters=st.none() | parameters,
        checkpoints=_tuple(checkpoints),
    )
