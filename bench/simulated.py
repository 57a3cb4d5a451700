"""Many random jobs whose truth is known: how much longer does each policy take than an oracle, and what does it cost?

    python bench/simulated.py [--truths N] [--seed S] [--objective O] [--shortest S] [--longest S] [--policies P,...] [--json]

Each truth is drawn from its own seed (S, S+1, ..., printed), lies outside of the models that the planner fits, and has
hardships of its own: noise, drift, lost reports, stragglers, growing memory, slow grants, preemptions, costs of a change. Every
policy meets the same events. Regret is completion time against the oracle, which knows the truth and keeps the best
configuration of the objective from the start. Nothing is timed here: the numbers are those of a virtual clock, the same on every
machine.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import time
from dataclasses import asdict, dataclass

from harness import finish, machine, quantile, say, table

from pliant.core.planning.history import Objective
from pliant.sim.cluster import MachineSize
from pliant.sim.job import SimulatedSpec
from pliant.sim.policies.registry import DEFAULT_POLICIES, check_policy, make_policy
from pliant.sim.random_jobs import random_job
from pliant.sim.simulation import Simulation, World

AIMS = {"mean regret": 0.10, "p95 regret": 0.25}
MAX_REGRET = 100.0  # a job that would take longer is cut off there, and counts so


@dataclass(frozen=True)
class Task:
    seed: int
    objective: Objective
    shortest_s: float
    longest_s: float
    policies: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One truth under one policy."""

    seed: int
    kind: str
    policy: str
    seconds: float
    node_seconds: float
    core_seconds: float
    changes: int
    ooms: int
    is_finished: bool
    out_of_bounds: int
    errors: tuple[float, ...]  # of predicted rates, relative
    covered: tuple[bool, ...]
    wall_s: float


def simulate(task: Task) -> list[Row]:
    job = random_job(
        task.seed, objective=task.objective, shortest_s=task.shortest_s, longest_s=task.longest_s, max_workers=64
    )
    rows: list[Row] = []
    horizon = task.longest_s * 2
    for policy in ("oracle", *(name for name in task.policies if name != "oracle")):
        world = World((MachineSize(64, 32.0, 131_072),), job.grants, horizon_s=horizon)
        spec = SimulatedSpec("job", job.truth, job.bounds, task.objective)
        began = time.monotonic()
        result = Simulation(world, [spec], make_policy(policy, {"job": job.truth}), task.seed).run()
        (found,) = result.jobs
        rows.append(
            Row(
                task.seed,
                job.truth.kind.value,
                policy,
                found.completion_s if found.completion_s is not None else horizon,
                found.node_seconds,
                found.core_seconds,
                len(found.plans),
                found.ooms,
                found.succeeded,
                found.out_of_bounds,
                tuple(plan.error for plan in found.plans if plan.error is not None),
                tuple(plan.is_covered for plan in found.plans if plan.is_covered is not None),
                time.monotonic() - began,
            )
        )
        if policy == "oracle":
            horizon = rows[0].seconds * (1 + MAX_REGRET)
    return rows


def summarize(rows: list[Row]) -> dict[str, dict[str, float]]:
    oracle = {row.seed: row for row in rows if row.policy == "oracle"}
    auto = {row.seed: row for row in rows if row.policy == "auto"}
    found: dict[str, dict[str, float]] = {}
    for policy in dict.fromkeys(row.policy for row in rows):
        own = [row for row in rows if row.policy == policy]
        regrets = [row.seconds / oracle[row.seed].seconds - 1 for row in own]
        errors = [error for row in own for error in row.errors]
        covered = [value for row in own for value in row.covered]
        found[policy] = {
            "regret_mean": statistics.fmean(regrets),
            "regret_median": statistics.median(regrets),
            "regret_p95": quantile(regrets, 0.95),
            "seconds_ratio": geometric([row.seconds / oracle[row.seed].seconds for row in own]),
            "node_seconds_ratio": geometric([row.node_seconds / oracle[row.seed].node_seconds for row in own]),
            "core_seconds_ratio": geometric([row.core_seconds / oracle[row.seed].core_seconds for row in own]),
            "seconds_total": sum(row.seconds for row in own),
            "node_seconds_total": sum(row.node_seconds for row in own),
            "changes_per_hour": sum(row.changes for row in own) / (sum(row.seconds for row in own) / 3600),
            "ooms": sum(row.ooms for row in own),
            "unfinished": sum(not row.is_finished for row in own),
            "out_of_bounds": sum(row.out_of_bounds for row in own),
            "prediction_error_median": statistics.median(errors) if errors else math.nan,
            "coverage": sum(covered) / len(covered) if covered else math.nan,
            "predictions": len(errors),
            "faster_than_auto": sum(row.seconds < 0.99 * auto[row.seed].seconds for row in own) if auto else 0,
            "wall_s": sum(row.wall_s for row in own),
        }
    return found


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(max(value, 1e-9)) for value in values))


def judge(found: dict[str, dict[str, float]]) -> dict[str, object]:
    """The aims, and the baselines that are at least as good as the planner on one of both measures."""
    if "auto" not in found:
        return {}
    auto = found["auto"]
    baselines = {name: one for name, one in found.items() if name not in ("auto", "oracle")}
    return {
        "mean_regret_met": auto["regret_mean"] <= AIMS["mean regret"],
        "p95_regret_met": auto["regret_p95"] <= AIMS["p95 regret"],
        "not_slower": [name for name, one in baselines.items() if one["seconds_total"] <= auto["seconds_total"]],
        "not_dearer": [
            name for name, one in baselines.items() if one["node_seconds_total"] <= auto["node_seconds_total"]
        ],
        "better_on_both": [
            name
            for name, one in baselines.items()
            if one["seconds_total"] <= auto["seconds_total"] and one["node_seconds_total"] <= auto["node_seconds_total"]
        ],
    }


def show(title: str, found: dict[str, dict[str, float]]) -> None:
    columns = ("policy", "regret", "median", "p95", "time", "node s", "core s", "changes/h", "OOM", "unfinished")
    rows = [
        (
            name,
            f"{one['regret_mean']:.1%}",
            f"{one['regret_median']:.1%}",
            f"{one['regret_p95']:.1%}",
            f"{one['seconds_ratio']:.2f} x",
            f"{one['node_seconds_ratio']:.2f} x",
            f"{one['core_seconds_ratio']:.2f} x",
            f"{one['changes_per_hour']:.1f}",
            f"{one['ooms']:.0f}",
            f"{one['unfinished']:.0f}",
        )
        for name, one in found.items()
    ]
    table(title, columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rounds", "--truths", dest="truths", type=int, default=0, help="random truths [200; quick: 3]"
    )
    parser.add_argument("--quick", action="store_true", help="does it run?")
    parser.add_argument("--seed", type=int, default=1, help="of the first truth (1); the others follow")
    parser.add_argument("--objective", choices=[o.value for o in Objective], default=Objective.BALANCED.value)
    parser.add_argument("--shortest", type=float, default=1800.0, help="seconds of the shortest job at its best (1800)")
    parser.add_argument(
        "--longest", type=float, default=21_600.0, help="seconds of the longest job at its best (21600)"
    )
    parser.add_argument("--policies", default=",".join(DEFAULT_POLICIES), help="comma-separated")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.truths = options.truths or (3 if options.quick else 200)
    policies = tuple(options.policies.split(","))
    for policy in policies:
        check_policy(policy)
    objective = Objective(options.objective)
    seeds = range(options.seed, options.seed + options.truths)
    tasks = [Task(seed, objective, options.shortest, options.longest, policies) for seed in seeds]
    say(f"{len(tasks)} truths, seeds {seeds[0]} to {seeds[-1]}, objective {objective.value}")
    rows: list[Row] = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for number, found in enumerate(pool.imap_unordered(simulate, tasks), start=1):
            rows += found
            if number % 25 == 0:
                say(f"{number} of {len(tasks)} truths")
    rows.sort(key=lambda row: row.seed)
    summary = summarize(rows)
    show(f"{len(tasks)} random truths, {objective.value}, against the oracle", summary)
    kinds = {kind: summarize([row for row in rows if row.kind == kind]) for kind in sorted({row.kind for row in rows})}
    counts = {kind: len({row.seed for row in rows if row.kind == kind}) for kind in kinds}
    table(
        "mean regret by kind (truths)",
        ("policy", *(f"{kind} ({counts[kind]})" for kind in kinds)),
        [(name, *(f"{kinds[kind][name]['regret_mean']:.1%}" for kind in kinds)) for name in summary],
    )
    verdict = judge(summary)
    if "auto" in summary:
        auto = summary["auto"]
        say(
            f"auto: mean regret {auto['regret_mean']:.1%} (aim {AIMS['mean regret']:.0%}), p95 {auto['regret_p95']:.1%} "
            f"(aim {AIMS['p95 regret']:.0%}); predictions: median error {auto['prediction_error_median']:.1%}, "
            f"{auto['coverage']:.0%} of {auto['predictions']:.0f} intervals held"
        )
        for key, what in (
            ("not_slower", "not slower"),
            ("not_dearer", "no more node seconds"),
            ("better_on_both", "both"),
        ):
            say(f"baselines that are as good as auto ({what}): {', '.join(verdict[key]) or 'none'}")  # type: ignore[call-overload]
        worst = sorted(
            (r for r in rows if r.policy == "auto"), key=lambda r: r.seconds / _oracle(rows, r.seed), reverse=True
        )
        shown = ", ".join(f"{r.seed} ({r.kind}, {r.seconds / _oracle(rows, r.seed) - 1:.0%})" for r in worst[:12])
        say(f"worst seeds of auto: {shown}")
    finish(
        {
            "machine": machine(),
            "truths": len(tasks),
            "seeds": [seeds[0], seeds[-1]],
            "objective": objective.value,
            "policies": summary,
            "kinds": kinds,
            "verdict": verdict,
            "rows": [asdict(row) for row in rows],
        },
        options.json,
    )


def _oracle(rows: list[Row], seed: int) -> float:
    return next(row.seconds for row in rows if row.seed == seed and row.policy == "oracle")


if __name__ == "__main__":
    main()
