"""How large the machines of a cluster are: what each could give to one Pod, were it empty.

A job's master may not read Node objects, which are the whole cluster's; the operator may, and writes what it found into the
status of each ElasticJob (``elastic_job_status.py``). Taints are not looked at, nor is who uses a machine now: this says at worst
too much, never too little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pliant.core.nodes.capacity import Capacity, Machine
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.pods import GPU
from pliant.platforms.kubernetes.usage import amount

MB = 1 << 20


def capacity_of(machines: Iterable[Object], selector: Mapping[str, str]) -> Capacity:
    """Of the machines that have these labels: the sizes that are not smaller than another in everything, the largest first."""
    sizes = {
        _size((machine.get("status") or {}).get("allocatable") or {})
        for machine in machines
        if selector.items() <= (machine["metadata"].get("labels") or {}).items()
    }
    largest = [size for size in sizes if not any(_covers(other, size) for other in sizes - {size})]
    return Capacity(tuple(sorted(largest, key=_amounts, reverse=True)))


def _covers(one: Machine, other: Machine) -> bool:
    return all(a >= b for a, b in zip(_amounts(one), _amounts(other), strict=True))


def _amounts(size: Machine) -> tuple[float, ...]:
    return tuple(math.inf if amount is None else amount for amount in (size.memory_mb, size.cpu, size.gpu))


def _size(allocatable: Mapping[str, Any]) -> Machine:
    memory = amount(allocatable.get("memory"))
    return Machine(
        cpu=amount(allocatable.get("cpu")),
        memory_mb=None if memory is None else int(memory) // MB,
        gpu=int(amount(allocatable.get(GPU)) or 0),
    )
