from __future__ import annotations

from pliant.monitors.base import Amounts
from pliant.monitors.ray import observation_of


def test_machines_and_actors_of_all_jobs_are_observed_with_what_they_asked_for() -> None:
    size = {"cpu": 4.0, "memory_mb": 1000, "gpu": 1}
    free = {"cpu": 3.0, "memory_mb": 900, "gpu": 1}
    machines = [{"host": "10.0.0.1-abcdef01", "ray_node": "abcdef01", "total": size, "free": free}]
    asked = {"cpu": 1.0, "memory_mb": 100, "gpu": 0}
    actors = [
        {"job": "digits", "node": "worker-3", "phase": "ALIVE", "machine": "10.0.0.1-abcdef01", "asked": asked},
        {"job": "digits", "node": "master", "phase": "RESTARTING", "machine": "", "asked": {**asked, "cpu": 0.0}},
    ]
    found = observation_of(machines, actors)
    [machine] = found.machines
    assert (machine.name, machine.size, machine.free) == ("10.0.0.1-abcdef01", Amounts(4, 1000, 1), Amounts(3, 900, 1))
    assert [(node.job, node.name, node.role, node.phase) for node in found.nodes] == [
        ("digits", "digits/worker-3", "worker", "Running"),
        ("digits", "digits/master", "master", "Pending"),
    ]
    assert found.nodes[0].asked == Amounts(1, 100)
