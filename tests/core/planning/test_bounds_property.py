"""Whatever a job has been through: no algorithm proposes what its bounds do not allow."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import (
    FinishedJob,
    JobHistory,
    JobKind,
    NodeView,
    Objective,
    OutOfMemory,
    Period,
    Room,
    StepParts,
)
from pliant.core.planning.registry import BUILT_IN, algorithm

NOW = 5000.0
ALGORITHMS = [algorithm(name) for name in BUILT_IN]


@st.composite
def role_bounds(draw: st.DrawFn) -> RoleBounds:
    unit = draw(st.sampled_from([1, 1, 2, 4]))
    low = unit * draw(st.integers(1, 3))
    cpu = draw(st.sampled_from([(0.0, 0.0), (0.5, 2.0), (1.0, 1.0), (0.25, 16.0)]))
    memory = draw(st.sampled_from([(0, 0), (100, 2000), (500, 500)]))
    return RoleBounds(low, low + unit * draw(st.integers(0, 12)), unit, *cpu, *memory)


@st.composite
def shapes(draw: st.DrawFn, bounds: RoleBounds) -> Shape:
    cpu, memory = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])), draw(st.sampled_from([0, 500, 1500]))
    return bounds.clip(Shape(draw(st.integers(1, 50)), cpu, memory))


@st.composite
def histories(draw: st.DrawFn) -> JobHistory:
    kind = draw(st.sampled_from(JobKind))
    worker = draw(role_bounds())
    server = draw(role_bounds()) if kind in (JobKind.PS_ASYNC, JobKind.PS_SYNC) else None
    bounds = Bounds(worker, server, draw(st.sampled_from([0.0, 8.0, 40.0])), draw(st.sampled_from([0, 8000])))

    def configuration() -> Configuration:
        shape = draw(shapes(server)) if server is not None else None
        return Configuration(draw(shapes(worker)), shape, draw(st.sampled_from([0, 32])))

    now = configuration()
    assume(bounds.allows(now))
    tried = [configuration() for _ in range(draw(st.integers(0, 4)))]
    parts = StepParts(*draw(st.sampled_from([(0.0, 0.0, 0.0), (0.6, 0.2, 0.1), (0.1, 0.2, 0.6)])))
    periods = tuple(
        Period(found, 200.0 * i, 200.0 * i + 150.0, rate := draw(st.floats(1.0, 1000.0)), 0.01 * rate, 20, parts)
        for i, found in enumerate([*tried, now] if draw(st.booleans()) else tried)
    )
    roles = [("worker", now.worker)] + ([("ps", now.server)] if now.server is not None else [])
    nodes = tuple(
        NodeView(
            f"{role}-{i}",
            role,
            cpu=(load := draw(st.sampled_from([0.1, 0.5, 0.95]))) * (shape.cpu or 1.0),
            cpu_p95=load * (shape.cpu or 1.0),
            cpu_limit=shape.cpu,
            memory_mb=(used := draw(st.floats(10.0, 1500.0))),
            memory_peak_mb=used,
            memory_limit_mb=shape.memory_mb,
            memory_points=tuple((100.0 * j, used - 5.0 * (10 - j)) for j in range(10)),
            records_per_second=draw(st.floats(0.1, 10.0)),
            unit_seconds=draw(st.sampled_from([1.0, 1.0, 4.0])),
            virtual_workers=2,
            age_s=draw(st.sampled_from([10.0, 4000.0])),
        )
        for role, shape in roles
        for i in range(min(shape.replicas, 4))
        if draw(st.booleans())
    )
    similar = tuple(
        FinishedJob(0.9, 0.0, found, 100.0, draw(st.sampled_from([0.0, 900.0])), 700.0) for found in tried[:2]
    )
    return JobHistory(
        kind,
        now,
        bounds,
        virtual_workers=draw(st.sampled_from([0, 8, 24])),
        remaining_records=draw(st.sampled_from([None, 10, 10_000_000])),
        objective=draw(st.sampled_from(Objective)),
        deadline=draw(st.sampled_from([None, NOW + 100.0, NOW + 1e5])),
        budget_node_s=draw(st.sampled_from([None, 1000.0])),
        periods=periods,
        nodes=nodes,
        pending=tuple(f"worker-{i}" for i in range(draw(st.integers(0, 3)))),
        pending_since=0.0,
        out_of_memory=tuple(
            OutOfMemory(NOW, role, float(shape.memory_mb), float(shape.memory_mb))
            for role, shape in roles
            if draw(st.booleans())
        ),
        similar=similar,
        room=draw(st.sampled_from([None, Room(0.0, 0.0), Room(4.0, 4000.0, 1.0, 1000.0)])),
    )


@settings(max_examples=150, deadline=None)
@given(histories(), st.booleans())
def test_no_algorithm_proposes_what_the_bounds_do_not_allow(history: JobHistory, new: bool) -> None:
    if new:
        history = replace(history, periods=(), nodes=())
    for each in ALGORITHMS:
        found = each(history, NOW)
        if found is None:
            continue
        assert history.bounds.allows(found.configuration), each.name
        assert found.reason
        assert found.algorithm == each.name
        if found.prediction is not None and found.prediction.rate:
            assert 0 < found.prediction.low <= found.prediction.rate <= found.prediction.high
        if found.seats:
            assert sum(found.seats.values()) == history.virtual_workers
        assert each(history, NOW) == found, "the same question has the same answer"
