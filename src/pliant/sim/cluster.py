"""Virtual machines that grant, refuse and preempt nodes.

A request goes to the fullest machine that has room for it (best fit by CPU), so large requests find room longer. Machines are
kept in buckets of free cores: a request that fits nowhere costs a look at each bucket, also with thousands of machines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from pliant.core.nodes.capacity import Capacity, Machine
from pliant.core.planning.history import Room
from pliant.core.resources import Resources

MIN_CPU = 0.1  # that a node without a request occupies
MAX_LOOKED_AT = 16  # machines, to say how much room there is


@dataclass(frozen=True, slots=True)
class MachineSize:
    count: int
    cpu: float
    memory_mb: int


@dataclass(slots=True)
class _Machine:
    name: str
    size: MachineSize
    free_cpu: float
    free_memory_mb: float
    is_available: bool = True
    nodes: dict[tuple[str, str], Resources] = field(default_factory=dict)  # (job, node)


class VirtualCluster:
    def __init__(self, sizes: Sequence[MachineSize], quota_cpu: float = 0.0) -> None:
        """``quota_cpu``: cores that all jobs together may have, as a quota of Kubernetes holds them to it; 0: no limit."""
        self._machines: dict[str, _Machine] = {}
        self._buckets: defaultdict[int, dict[str, _Machine]] = defaultdict(dict)
        self._where: dict[tuple[str, str], _Machine] = {}
        self.total_cpu = sum(size.count * size.cpu for size in sizes)
        self.total_memory_mb = sum(size.count * size.memory_mb for size in sizes)
        self.free_cpu, self.free_memory_mb = self.total_cpu, float(self.total_memory_mb)
        self.most_used_cpu = 0.0
        self._beyond_quota = max(0.0, self.total_cpu - quota_cpu) if quota_cpu else 0.0  # cores that nobody may have
        self._capacity = Capacity(tuple({Machine(s.cpu, s.memory_mb, 0) for s in sizes}))
        for number, size in enumerate(one for one in sizes for _ in range(one.count)):
            machine = _Machine(f"machine-{number}", size, size.cpu, float(size.memory_mb))
            self._machines[machine.name] = machine
            self._buckets[math.floor(machine.free_cpu + 1e-9)][machine.name] = machine

    @property
    def capacity(self) -> Capacity:
        return self._capacity

    @property
    def allowed_cpu(self) -> float:
        """Cores that are free, as far as the quota goes."""
        return self.free_cpu - self._beyond_quota

    @property
    def machines(self) -> list[str]:
        return list(self._machines)

    def nodes_on(self, machine: str) -> list[tuple[str, str]]:
        return list(self._machines[machine].nodes)

    def place(self, job: str, node: str, asked: Resources, avoid: Sequence[str] = ()) -> str | None:
        """The machine that it runs on from now on; None: there is no room."""
        needed = asked.cpu or MIN_CPU
        if needed > self.allowed_cpu + 1e-9:
            return None
        for bucket in sorted(self._buckets):
            if bucket + 1 <= needed:
                continue
            for machine in self._buckets[bucket].values():
                fits = machine.free_cpu >= needed - 1e-9 and machine.free_memory_mb >= asked.memory_mb
                if fits and machine.is_available and machine.name not in avoid:
                    self._take(machine, (job, node), asked)
                    return machine.name
        return None

    def release(self, job: str, node: str) -> None:
        machine = self._where.pop((job, node), None)
        if machine is not None:
            held = machine.nodes.pop((job, node))
            self._occupy(machine, -(held.cpu or MIN_CPU), -held.memory_mb)

    def resize(self, job: str, node: str, wanted: Resources) -> bool:
        """In place, if its machine has room for it."""
        machine = self._where[job, node]
        held = machine.nodes[job, node]
        cpu, memory = (wanted.cpu or MIN_CPU) - (held.cpu or MIN_CPU), wanted.memory_mb - held.memory_mb
        free_cpu = min(machine.free_cpu, self.allowed_cpu)
        if (cpu > 0 and free_cpu < cpu - 1e-9) or machine.free_memory_mb < memory:
            return False
        machine.nodes[job, node] = wanted
        self._occupy(machine, cpu, memory)
        return True

    def set_available(self, machine: str, available: bool) -> None:
        """One that is not available takes no further nodes. Those that it has stay, unless somebody ends them."""
        self._machines[machine].is_available = available

    def room(self) -> Room:
        """What is free now, and the largest node that would fit, as some of the emptiest machines show it."""
        largest = max((bucket for bucket, found in self._buckets.items() if found), default=0)
        emptiest = islice(self._buckets[largest].values(), MAX_LOOKED_AT)
        best = max(emptiest, key=lambda machine: (machine.free_cpu, machine.free_memory_mb), default=None)
        if best is None:
            return Room(0.0, 0.0)
        free_cpu = max(0.0, self.allowed_cpu)
        return Room(free_cpu, self.free_memory_mb, min(best.free_cpu, free_cpu), best.free_memory_mb)

    def _take(self, machine: _Machine, key: tuple[str, str], asked: Resources) -> None:
        machine.nodes[key] = asked
        self._where[key] = machine
        self._occupy(machine, asked.cpu or MIN_CPU, asked.memory_mb)

    def _occupy(self, machine: _Machine, cpu: float, memory_mb: float) -> None:
        del self._buckets[math.floor(machine.free_cpu + 1e-9)][machine.name]
        machine.free_cpu = round(machine.free_cpu - cpu, 6)
        machine.free_memory_mb -= memory_mb
        self.free_cpu -= cpu
        self.most_used_cpu = max(self.most_used_cpu, self.total_cpu - self.free_cpu)
        self.free_memory_mb -= memory_mb
        self._buckets[math.floor(machine.free_cpu + 1e-9)][machine.name] = machine
