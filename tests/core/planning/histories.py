"""Histories of every shape, for tests of what travels; and one as a real job has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from pliant.core.decoding import MAX_INT
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind, NodeView, Period, Room, StepParts
from pliant.core.planning.history_json import MAX_CPU, MAX_MEMORY_MB, MAX_REPLICAS

NOW = 1_800_000_000.0
REPLICAS = st.integers(1, 50) | st.just(MAX_REPLICAS)
CPU = st.floats(0.0, MAX_CPU)
BOUNDED = {
    "replicas": REPLICAS,
    "min_replicas": REPLICAS,
    "cpu": CPU,
    "min_cpu": CPU,
    "max_cpu": CPU,
    "memory_mb": st.integers(0, 50) | st.just(MAX_MEMORY_MB),
    "gpu": st.integers(0, 8) | st.just(MAX_MEMORY_MB),
}


def any_history() -> st.SearchStrategy[JobHistory]:
    """Whatever the types allow, up to the size that some job can have: every field of every part is drawn, also those that are
    added later."""
    return values_of(JobHistory)


def values_of(wanted: Any) -> st.SearchStrategy[Any]:
    if wanted is int:
        return st.integers(1, 50) | st.just(MAX_INT)
    if wanted is float:
        return st.floats(-1e15, 1e15, allow_nan=False)
    if wanted is str:
        return st.text(max_size=12)
    if wanted is bool:
        return st.booleans()
    if isinstance(wanted, UnionType):
        [inner] = [option for option in get_args(wanted) if option is not NoneType]
        return st.none() | values_of(inner)
    if get_origin(wanted) is tuple:
        items = get_args(wanted)
        if items[-1] is Ellipsis:
            return st.lists(values_of(items[0]), max_size=3).map(tuple)
        return st.tuples(*map(values_of, items))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return st.sampled_from(wanted)
    assert is_dataclass(wanted)
    hints = get_type_hints(wanted)
    made: Callable[..., Any] = wanted  # type: ignore[assignment]
    is_size = wanted in (Shape, RoleBounds)
    drawn = {
        field.name: BOUNDED[field.name] if is_size and field.name in BOUNDED else values_of(hints[field.name])
        for field in fields(wanted)
    }
    return st.builds(made, **drawn)


def usual_history(workers: int = 8) -> JobHistory:
    """An asynchronous job with servers, four configurations into its life."""
    tried = [(2, 1), (4, 1), (workers, 1), (workers, 2)]
    periods = tuple(
        Period(
            Configuration(Shape(count, 2.0, 2048), Shape(servers, 2.0, 4096), 64),
            NOW - 3600 + 600 * i,
            NOW - 3600 + 600 * i + 500,
            rate := 40.0 * count / (1.0 + 0.05 * count / servers),
            0.01 * rate,
            100,
            StepParts(0.1, 0.7, 0.2),
        )
        for i, (count, servers) in enumerate(tried)
    )
    points = tuple((1000.0 * i, 900.0 + i % 3) for i in range(40))
    nodes = [
        NodeView(
            f"{role}-{i}",
            role,
            cpu=1.2,
            cpu_p95=1.5,
            cpu_limit=2.0,
            memory_mb=900.0,
            memory_peak_mb=950.0,
            memory_limit_mb=limit,
            memory_points=points,
            records_per_second=30.0,
            age_s=2000.0,
            host=f"host-{i % 3}",
        )
        for role, count, limit in (("worker", workers, 2048.0), ("ps", 2, 4096.0))
        for i in range(count)
    ]
    return JobHistory(
        JobKind.PS_ASYNC,
        periods[-1].configuration,
        Bounds(RoleBounds(1, 32, max_cpu=4.0, max_memory_mb=8192), RoleBounds(1, 8, max_cpu=4.0, max_memory_mb=16384)),
        started=NOW - 3700,
        version=4,
        remaining_records=10_000_000,
        periods=periods,
        nodes=tuple(nodes),
        room=Room(64.0, 128_000.0, 8.0, 32_000.0),
    )
