"""Jobs under one quota: what do the Brain's grants bring against an equal share, first come first served, and an oracle?

    python bench/sharing.py [--quick] [--seeds N] [--scenarios S,...] [--policies P,...] [--json]

Scenarios that come with Pliant (two-jobs, five-jobs, thousand-jobs-quota), each for several seeds; --quick leaves the thousand jobs
out. The jobs' truths lie outside of the models that the planner fits, and it has to learn them on the job; the oracle,
equal-share-tuned and first-come know them. Slowdown is completion time against that of the job alone with the whole quota at its
best; unfairness against that with an equal share of the quota, by as many jobs as there were (finish-time fairness). Nothing is
timed here: the numbers are those of a virtual clock, the same on every machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from dataclasses import asdict, dataclass

from harness import finish, machine, say, table

from pliant.sim.measures import Measures
from pliant.sim.policies.registry import check_policy
from pliant.sim.run import run_scenario
from pliant.sim.scenario import load_scenario

QUICK = ("two-jobs", "five-jobs")
LARGE = "thousand-jobs-quota"
POLICIES = ("oracle", "brain", "equal-share", "equal-share-tuned", "first-come")


@dataclass(frozen=True)
class Task:
    scenario: str
    seed: int
    policy: str


@dataclass(frozen=True)
class Row:
    task: Task
    measures: Measures
    quota_cpu: float
    wall_s: float


def simulate(task: Task) -> Row:
    scenario, folder = load_scenario(task.scenario)
    began = time.monotonic()
    run = run_scenario(scenario, folder, seed=task.seed, policies=[task.policy])
    return Row(task, run.measures[task.policy], scenario.cluster.quota_cpu, time.monotonic() - began)


def summarize(rows: list[Row]) -> dict[str, float]:
    """Of one scenario under one policy, over all seeds."""
    found = [row.measures for row in rows]
    return {
        "jobs": sum(one.jobs for one in found),
        "finished": sum(one.finished for one in found),
        "completion_sum_h": sum(one.completion_sum_s for one in found) / 3600,
        "makespan_h": sum(one.makespan_s for one in found) / 3600,
        "slowdown_mean": statistics.fmean(one.slowdown_mean or 0.0 for one in found),
        "slowdown_max": max(one.slowdown_max or 0.0 for one in found),
        "unfairness_max": max(one.unfairness_max or 0.0 for one in found),
        "waiting_max_s": max(one.waiting_max_s for one in found),
        "node_hours": sum(one.node_hours for one in found),
        "core_hours": sum(one.core_hours for one in found),
        "changes_per_hour": statistics.fmean(one.changes_per_hour for one in found),
        "cores_beyond_quota": max(row.measures.most_used_cores - row.quota_cpu for row in rows),
        "wall_s": sum(row.wall_s for row in rows),
    }


def show(scenario: str, seeds: int, found: dict[str, dict[str, float]]) -> None:
    columns = (
        *("policy", "finished", "sum of completion", "makespan", "slowdown", "max", "unfairness", "waiting max"),
        *("node h", "core h", "changes/h"),
    )
    rows = [
        (
            policy,
            f"{one['finished']:.0f} of {one['jobs']:.0f}",
            f"{one['completion_sum_h']:,.1f} h",
            f"{one['makespan_h']:,.2f} h",
            f"{one['slowdown_mean']:.2f} x",
            f"{one['slowdown_max']:.2f} x",
            f"{one['unfairness_max']:.2f}",
            f"{one['waiting_max_s'] / 60:,.1f} min",
            f"{one['node_hours']:,.1f}",
            f"{one['core_hours']:,.1f}",
            f"{one['changes_per_hour']:.1f}",
        )
        for policy, one in found.items()
    ]
    table(f"{scenario}, sums over {seeds} seed{'s' if seeds > 1 else ''}", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="without the thousand jobs")
    parser.add_argument(
        "--rounds",
        "--seeds",
        dest="seeds",
        type=int,
        default=5,
        help="of the small scenarios (5), from 1 on; a thousand jobs have one",
    )
    parser.add_argument("--scenarios", default="", help="comma-separated; by default all of them")
    parser.add_argument("--policies", default=",".join(POLICIES), help="comma-separated")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    policies = options.policies.split(",")
    for policy in policies:
        check_policy(policy)
    scenarios = options.scenarios.split(",") if options.scenarios else [*QUICK, *([] if options.quick else [LARGE])]
    seeds = {name: range(1, 2 if name == LARGE else options.seeds + 1) for name in scenarios}
    tasks = [Task(name, seed, policy) for name in reversed(scenarios) for seed in seeds[name] for policy in policies]
    rows: list[Row] = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for row in pool.imap_unordered(simulate, tasks):
            rows.append(row)
            if row.wall_s > 60:
                say(f"{row.task.scenario} under {row.task.policy}: simulated in {row.wall_s:.0f} s")
    found = {
        name: {
            policy: summarize([row for row in rows if (row.task.scenario, row.task.policy) == (name, policy)])
            for policy in policies
        }
        for name in scenarios
    }
    for name, summary in found.items():
        show(name, len(seeds[name]), summary)
    worst = max(one["cores_beyond_quota"] for summary in found.values() for one in summary.values())
    say(f"cores in use beyond a quota, at any moment under any policy: {max(0.0, worst):g}")
    finish(
        {
            "machine": machine(),
            "seeds": {name: len(some) for name, some in seeds.items()},
            "scenarios": found,
            "rows": [asdict(row) for row in sorted(rows, key=lambda r: (r.task.scenario, r.task.seed, r.task.policy))],
        },
        options.json,
    )


if __name__ == "__main__":
    main()
