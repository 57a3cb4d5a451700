"""What the isolation of algorithms costs: one run of the default chain in the Brain's executor, against the same in one process.

    python bench/algorithm_executor.py [--quick] [--rounds N] [--json]

Every run has a history of its own (other rates), so that no fit is found in a cache; both ways get the same histories in turn.
Cold: the start of a process until it has answered its first run. Nothing changes in the history, so every algorithm is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time

from harness import finish, machine, median, quantile, rss_mb, say, table

from pliant.brain.executor.algorithm_executor import AlgorithmExecutor
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind, NodeView, Period, Room, StepParts
from pliant.core.planning.planner import Planner
from pliant.core.planning.registry import DEFAULT_CHAIN

NOW = 1_800_000_000.0
COLD_STARTS = 5


def history(workers: int, turn: int) -> JobHistory:
    """An asynchronous job that has tried four configurations and stays at its bounds."""
    servers = max(1, workers // 4)
    tried = [(workers // 4, servers), (workers // 2, servers), (workers, max(1, servers // 2)), (workers, servers)]
    periods = tuple(
        Period(
            Configuration(Shape(count, 2.0, 2048), Shape(of_servers, 2.0, 4096), 64),
            NOW - 3600 + 600 * i,
            NOW - 3100 + 600 * i,
            rate := (40.0 + 0.01 * turn) * count / (1.0 + 0.05 * count / of_servers),
            0.01 * rate,
            100,
            StepParts(0.1, 0.7, 0.2),
        )
        for i, (count, of_servers) in enumerate(tried)
    )
    nodes = tuple(
        NodeView(
            f"{role}-{i}",
            role,
            1.2,
            1.5,
            2.0,
            memory_mb=900.0,
            memory_peak_mb=1500.0,
            memory_limit_mb=limit,
            memory_points=tuple((1000.0 * j, 900.0 + j % 3) for j in range(40)),
            records_per_second=30.0 + i % 2,
            age_s=2000.0,
        )
        for role, count, limit in (("worker", workers, 2048.0), ("ps", servers, 4096.0))
        for i in range(count)
    )
    bounds = Bounds(RoleBounds(1, workers), RoleBounds(1, servers))
    return JobHistory(
        JobKind.PS_ASYNC,
        periods[-1].configuration,
        bounds,
        remaining_records=100_000,
        periods=periods,
        nodes=nodes,
        room=Room(64.0, 128_000.0),
    )


async def cold_start() -> float:
    began = time.perf_counter()
    async with AlgorithmExecutor() as executor:
        await executor.run(DEFAULT_CHAIN, history(8, 0), NOW)
        return time.perf_counter() - began


async def warm(workers: int, runs: int) -> tuple[list[float], list[float], float, int]:
    """Milliseconds in the executor and in this process, memory of the executor's process, algorithms asked in one run."""
    isolated, direct, asked = [], [], 0
    planner = Planner()
    async with AlgorithmExecutor() as executor:
        await executor.run(DEFAULT_CHAIN, history(workers, -1), NOW)
        planner.verdict(history(workers, -1), NOW)
        for turn in range(runs):
            same = history(workers, turn)
            began = time.perf_counter()
            found = await executor.run(DEFAULT_CHAIN, same, NOW)
            isolated.append((time.perf_counter() - began) * 1000)
            asked = len(found.runs)
            began = time.perf_counter()
            planner.verdict(same, NOW)
            direct.append((time.perf_counter() - began) * 1000)
        [pid] = executor.pids()
        return isolated, direct, rss_mb(pid), asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--rounds", "--runs", dest="runs", type=int, default=0, help="plans of each kind [200; quick: 20]"
    )
    parser.add_argument("--quick", action="store_true", help="does it run?")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.runs = options.runs or (20 if options.quick else 200)
    before = os.getloadavg()[0]
    cold = [asyncio.run(cold_start()) for _ in range(COLD_STARTS)]
    say(f"cold start to the first answer: median {median(cold):.2f} s, longest {max(cold):.2f} s")
    rows = []
    for workers in (8, 64, 256):
        isolated, direct, memory_mb, asked = asyncio.run(warm(workers, options.runs))
        rows.append(
            {
                "workers": workers,
                "asked": asked,
                "p50_ms": median(isolated),
                "p95_ms": quantile(isolated, 0.95),
                "direct_p50_ms": median(direct),
                "direct_p95_ms": quantile(direct, 0.95),
                "rss_mb": memory_mb,
            }
        )
    table(
        "One run of the default chain",
        ["workers of the job", "asked", "executor p50", "p95", "one process p50", "p95", "RSS"],
        [
            [
                str(row["workers"]),
                str(row["asked"]),
                f"{row['p50_ms']:.1f} ms",
                f"{row['p95_ms']:.1f} ms",
                f"{row['direct_p50_ms']:.1f} ms",
                f"{row['direct_p95_ms']:.1f} ms",
                f"{row['rss_mb']:.0f} MB",
            ]
            for row in rows
        ],
    )
    result = {"machine": machine(), "load": [before, os.getloadavg()[0]], "cold_s": cold, "rows": rows}
    finish(result, options.json)


if __name__ == "__main__":
    main()
