from __future__ import annotations

from typing import Any

from pliant.core.nodes.capacity import Capacity, Machine
from pliant.core.resources import Resources
from pliant.platforms.kubernetes.machines import capacity_of


def machine(cpu: str, memory: str, gpu: str = "", **labels: str) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110", **({"nvidia.com/gpu": gpu} if gpu else {})}
    return {"metadata": {"name": "m", "labels": labels}, "status": {"allocatable": allocatable}}


def test_amounts_are_read_as_the_api_server_writes_them() -> None:
    assert capacity_of([machine("3920m", "7950636Ki", "2")], {}) == Capacity((Machine(3.92, 7764, 2),))


def test_only_machines_with_the_labels_that_the_job_asks_for_count() -> None:
    machines = [machine("4", "8Gi", pool="a"), machine("64", "256Gi", pool="b")]
    assert capacity_of(machines, {"pool": "a"}) == Capacity((Machine(4.0, 8192, 0),))
    assert capacity_of(machines, {"pool": "c"}) == Capacity(())


def test_a_machine_that_another_exceeds_in_everything_adds_nothing_and_one_that_is_larger_in_something_does() -> None:
    machines = [machine("8", "8Gi"), machine("4", "4Gi"), machine("8", "8Gi"), machine("2", "2Gi", "1")]
    capacity = capacity_of(machines, {})
    assert capacity == Capacity((Machine(8.0, 8192, 0), Machine(2.0, 2048, 1)))
    assert capacity.problem(Resources(gpu=1)) == ""
    assert capacity.problem(Resources(cpu=4.0, gpu=1)) != ""


def test_a_machine_that_says_nothing_limits_nothing() -> None:
    assert capacity_of([{"metadata": {"name": "m"}}], {}).problem(Resources(1000.0, 1 << 30)) == ""
