"""Scenarios: every one that is shipped runs, and a user's own is read with clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.core.errors import NotFound, SpecError
from pliant.sim.run import run_scenario
from pliant.sim.scenario import Scenario, load_scenario, shipped

MINIMAL = "name: mine\njobs: [{queue: {records: 20000}}]\n"


@pytest.mark.parametrize("name", list(shipped()))
def test_a_shipped_scenario_runs_shortened(name: str) -> None:
    scenario, folder = load_scenario(name)
    assert scenario.name == name
    assert scenario.about
    if scenario.jobs[0].count > 4:
        few = scenario.jobs[0].model_copy(update={"count": 4})
        scenario = scenario.model_copy(update={"jobs": (few,)})
    run = run_scenario(scenario, folder, shortened=0.05)
    for policy, measures in run.measures.items():
        assert measures.out_of_bounds == 0, policy
        assert measures.jobs == len(run.specs), policy
        assert measures.node_hours > 0, policy


def test_a_scenario_of_ones_own_needs_little() -> None:
    scenario = Scenario.from_yaml(MINIMAL, "mine.yaml")
    run = run_scenario(scenario, Path(), policies=["oracle", "static-2"])
    assert run.measures["oracle"].finished == 1
    assert run.measures["oracle"].regret_mean == 0.0
    assert (run.measures["static-2"].regret_mean or 0) > 0


def test_nested_values_change_only_what_they_name() -> None:
    text = "name: x\njobs: [{queue: {noise: {sample_sigma: 0.5}, costs: {start_s: 1}}}]\n"
    (spec,) = Scenario.from_yaml(text, "x").specs(1, Path())
    assert spec.truth.noise.sample_sigma == 0.5
    assert spec.truth.noise.drift_interval_s == 120.0
    assert (spec.truth.costs.start_s, spec.truth.costs.reform_s) == (1, 1.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\njobs: [{quue: {}}]\n", "jobs.0.quue: unknown field; did you mean queue?"),
        (
            "name: x\njobs: [{queue: {wait_s: -1}}]\n",
            "1 problem in the scenario\n  - jobs.0.queue.wait_s: got -1; allowed: a number of at least 0",
        ),
        ("name: x\njobs: [{queue: {nois: {}}}]\n", "jobs.0.queue.nois: unknown field; did you mean noise?"),
        ("name: x\njobs: [{}]\n", "exactly one of queue, allreduce, parameter_servers, random and trace"),
        ("name: x\njobs: [{queue: {}, random: {}}]\n", "queue, random"),
        ("name: x\njobs: []\n", "jobs: got []; allowed: a list with at least one entry"),
        ("name: x\n", "jobs: missing"),
        ("name: x\npolicies: [statik]\njobs: [{queue: {}}]\n", "policies.0: got 'statik'; allowed: one of oracle"),
        (
            "name: x\njobs: [{queue: {}, workers: {min: 4, max: 2}}]\n",
            "jobs.0.workers.max: got 2; allowed: at least min, 4",
        ),
        ("just text", "a mapping with name and jobs"),
    ],
)
def test_what_is_wrong_with_a_scenario_is_said_with_its_field(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as error:
        Scenario.from_yaml(text, "mine.yaml")
    assert problem in str(error.value)
    assert "mine.yaml" in str(error.value)


def test_a_scenario_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(NotFound, match="contention-knee"):
        load_scenario("no-such-scenario")


def test_the_same_seed_gives_the_same_measures() -> None:
    scenario, folder = load_scenario("preemptions")
    first, again, other = (
        run_scenario(scenario, folder, seed=seed, policies=["static-4"], shortened=0.1).measures for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other
