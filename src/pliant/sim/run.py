"""One scenario under all of its policies: what `pliant simulate` and reports show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.sim.job import SimulatedSpec
from pliant.sim.measures import Measures, best_rates, measure
from pliant.sim.optimum import SpeedCurve, options
from pliant.sim.policies.registry import make_policy
from pliant.sim.scenario import Scenario
from pliant.sim.simulation import Simulation, SimulationResult

MAX_JSON_JOBS = 200


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    scenario: Scenario
    seed: int
    specs: list[SimulatedSpec]
    results: dict[str, SimulationResult]  # by policy
    measures: dict[str, Measures]
    best_rate: dict[str, float]  # by job; empty: not looked for

    def to_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario.name,
            "seed": self.seed,
            "jobs": len(self.specs),
            "policies": {name: found.to_json() for name, found in self.measures.items()},
            "outcomes": {
                name: [
                    {
                        "job": job.name,
                        "arrival": job.arrival,
                        "completion_s": job.completion_s,
                        "failure": job.failure,
                        "node_seconds": job.node_seconds,
                        "ooms": job.ooms,
                        "plans": [plan.to_json() for plan in job.plans],
                    }
                    for job in result.jobs[:MAX_JSON_JOBS]
                ]
                for name, result in self.results.items()
            },
        }


def run_scenario(
    scenario: Scenario,
    folder: Path,
    *,
    seed: int | None = None,
    policies: Sequence[str] = (),
    shortened: float = 1.0,
    on_policy: Callable[[str, SimulationResult], None] = lambda name, result: None,
) -> ScenarioRun:
    """``shortened``: the share of the records and of the time that is simulated. ``on_policy``: called after each of them."""
    seed = scenario.seed if seed is None else seed
    specs = scenario.specs(seed, folder, shortened=shortened)
    world = scenario.world(scenario.horizon_s * shortened)
    truths = {spec.name: spec.truth for spec in specs}
    results: dict[str, SimulationResult] = {}
    for name in policies or scenario.policies:
        results[name] = Simulation(world, specs, make_policy(name, truths), seed).run()
        on_policy(name, results[name])
    rates = best_rates(specs)
    quota = world.quota_cpu
    curves = {spec.name: SpeedCurve.of(options(spec.truth, spec.bounds)) for spec in specs} if quota else {}
    measures = {name: measure(result, results.get("oracle"), rates, curves, quota) for name, result in results.items()}
    return ScenarioRun(scenario, seed, specs, results, measures, rates)
