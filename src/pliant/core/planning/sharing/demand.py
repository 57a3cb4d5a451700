"""What jobs want of a quota and what they get: amounts, quotas, options, demands, shares. Plain values.

An ``Amount`` is what the quota counts: cores (a node without a limit counts as one), memory, GPUs and nodes. Zero in the limit of
a quota means that it does not limit that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from math import inf
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.planning.configuration import Configuration

EPSILON = 1e-6  # cores: sums of fractions are not exact


@dataclass(frozen=True, slots=True)
class Amount:
    cpu: float = 0.0
    memory_mb: float = 0.0
    gpu: float = 0.0
    nodes: float = 0.0

    @classmethod
    def of(cls, configuration: Configuration | None) -> Amount:
        """Of all nodes of a job; None: it has nothing."""
        if configuration is None:
            return cls()
        worker, server = configuration.worker, configuration.server
        memory_mb, gpu = worker.replicas * worker.memory_mb, worker.replicas * worker.gpu
        if server is not None:
            memory_mb += server.replicas * server.memory_mb
            gpu += server.replicas * server.gpu
        return cls(configuration.cpu, float(memory_mb), float(gpu), float(configuration.nodes))

    @classmethod
    def sum(cls, amounts: Iterable[Amount]) -> Amount:
        columns = list(zip(*(amount.values for amount in amounts), strict=True))
        return cls(*(float(sum(column)) for column in columns))

    @property
    def values(self) -> tuple[float, float, float, float]:
        return (self.cpu, self.memory_mb, self.gpu, self.nodes)

    def __add__(self, other: Amount) -> Amount:
        return Amount(*(a + b for a, b in zip(self.values, other.values, strict=True)))

    def __sub__(self, other: Amount) -> Amount:
        return Amount(*(a - b for a, b in zip(self.values, other.values, strict=True)))

    def maximum(self, other: Amount) -> Amount:
        return Amount(*(max(a, b) for a, b in zip(self.values, other.values, strict=True)))

    def excess(self, other: Amount) -> Amount:
        """What of it is beyond the other one."""
        return Amount(*(max(0.0, a - b) for a, b in zip(self.values, other.values, strict=True)))

    def fits(self, room: Amount) -> bool:
        """Into the room, in everything that it takes; what takes nothing fits even where there is less than nothing."""
        return all(a <= EPSILON or a <= b + EPSILON for a, b in zip(self.values, room.values, strict=True))

    @property
    def is_nothing(self) -> bool:
        return all(value <= EPSILON for value in self.values)

    def to_json(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Amount:
        found = cls(**{name: float(given) for name, given in value.items()})
        if not all(0 <= one < inf for one in found.values):
            raise InvalidRequest(f"an amount is finite and not negative: {dict(value)}")
        return found

    def __str__(self) -> str:
        named = zip(self.values, ("CPU", "MB", "GPU", "nodes"), strict=True)
        return ", ".join(f"{value:g} {name}" for value, name in named if value > EPSILON) or "nothing"


@dataclass(frozen=True, slots=True)
class Quota:
    name: str
    limit: Amount  # zero: no limit of that

    def room(self, taken: Amount | None = None) -> Amount:
        """What is left beside ``taken``; infinite where there is no limit, negative where more is taken than allowed."""
        used = (taken or Amount()).values
        return Amount(*(limit - one if limit else inf for limit, one in zip(self.limit.values, used, strict=True)))

    def counted(self, amount: Amount) -> Amount:
        """The part of the amount that the quota limits."""
        return Amount(*(a if limit else 0.0 for a, limit in zip(amount.values, self.limit.values, strict=True)))

    def share(self, amount: Amount) -> float:
        """The dominant one: of what it takes most of."""
        return max((a / limit for a, limit in zip(amount.values, self.limit.values, strict=True) if limit), default=0.0)


@dataclass(frozen=True, slots=True)
class Option:
    configuration: Configuration
    rate: float  # records per second, predicted
    change_s: float | None = None  # that it costs to change to it; None: as much as any change of the job


class Knowledge(StrEnum):
    """Of how a job's speed depends on its size."""

    ENOUGH = "enough"
    ONE_SIZE = "one size"  # was ever measured: nobody knows whether half of it would do
    TRYING = "trying"  # another size, which is not measured yet


@dataclass(frozen=True, slots=True)
class Demand:
    """Of one job. ``current`` is what it has now: what its nodes have, or what it was granted and is about to have."""

    job: str
    priority: int  # higher goes first
    arrived: float
    minimum: Configuration
    options: tuple[Option, ...]  # within the job's bounds and units of nodes, the minimum among them; in any order
    current: Configuration | None = None
    change_s: float = 0.0  # that a change of the configuration costs
    remaining_s: float | None = None  # at the current rate; None: nobody knows
    is_manual: bool = False  # counts as it is, is never changed
    is_preemptible: bool = False
    knowledge: Knowledge = Knowledge.ENOUGH

    def __post_init__(self) -> None:
        if all(option.configuration != self.minimum for option in self.options):
            raise InvalidRequest(f"the options of job {self.job} lack its minimum, {self.minimum}")


@dataclass(frozen=True, slots=True)
class Share:
    job: str
    configuration: Configuration | None  # None: nothing now; it waits, or is suspended
    reason: str  # for people

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "configuration": self.configuration.to_json() if self.configuration is not None else None,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Share:
        given = value["configuration"]
        return cls(value["job"], Configuration.from_json(given) if given is not None else None, value["reason"])


@dataclass(frozen=True, slots=True)
class SharingSettings:
    patience_s: float = 600.0  # that a job waits until those behind it wait for it
    hysteresis: float = 0.05  # share of its rate that a job must gain by a change, beside the cost of the change
    min_gain: float = 0.01  # share of its rate that a larger configuration must bring at all
    priority_weight: float = 2.0  # of a job whose priority is higher by one
    default_remaining_s: float = 600.0  # of a job of which nobody knows
    explore_remaining_s: float = 1800.0  # a job that ends sooner is not explored
    explored_at_once: float = 0.1  # share of the jobs, at least one
