"""The stats collector: what nodes use and how fast the job is, kept in memory with some history.

``StatsCollector`` is the interface; the Brain's reporter will be another implementation of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field

from pliant.core.clock import Clock
from pliant.core.datasets import LARGEST
from pliant.core.errors import InvalidRequest

HISTORY = 600  # samples per node: ten minutes at one a second
WINDOW = 10.0  # seconds over which a rate is taken
AGENT_SILENT = 30.0  # seconds after which what the platform measured counts instead
MOST_METRICS = 1000  # of the user's own
MOST_GUESTS = 10_000  # nodes of which anything is kept


@dataclass(frozen=True, slots=True)
class NodeUsage:
    time: float
    cpu: float = 0.0  # cores
    memory_mb: float = 0.0
    memory_limit_mb: float = 0.0


class Rate:
    """Events per second over the last ``WINDOW`` seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._in_window = 0
        self._began: float | None = None
        self.total = 0

    def add(self, now: float, count: int) -> None:
        if self._began is None:
            self._began = now
        self.total = min(LARGEST, self.total + count)
        self._in_window += count
        self._seen.append((now, count))
        self._forget(now)

    def per_second(self, now: float) -> float:
        self._forget(now)
        if self._began is None:
            return 0.0
        return self._in_window / min(WINDOW, max(now - self._began, 0.5))

    def _forget(self, now: float) -> None:
        while self._seen and self._seen[0][0] < now - WINDOW:
            self._in_window -= self._seen.popleft()[1]


@dataclass(slots=True)
class NodeStats:
    usage: deque[NodeUsage] = field(default_factory=lambda: deque(maxlen=HISTORY))
    records: Rate = field(default_factory=Rate)
    step: int = 0
    agent_told: float = float("-inf")  # when the node's own agent told its usage last


class StatsCollector(ABC):
    @abstractmethod
    def collect_node_resource_usage(self, node: str, usage: NodeUsage) -> None:
        """One sample of one node."""

    @abstractmethod
    def report_resource_usage(self) -> dict[str, NodeUsage]:
        """The latest sample of each node."""


class MemoryStats(StatsCollector):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nodes: dict[str, NodeStats] = {}
        self.records = Rate()
        self.global_step = 0
        self.metrics: dict[str, float] = {}  # the user's own, last value

    def collect_node_resource_usage(self, node: str, usage: NodeUsage) -> None:
        stats = self.node(node)
        stats.usage.append(usage)
        stats.agent_told = usage.time

    def collect_measured_usage(self, node: str, usage: NodeUsage) -> None:
        """By the platform, from the outside; an agent, which reads the cgroup itself, knows better."""
        stats = self.node(node)
        if usage.time - stats.agent_told > AGENT_SILENT:
            stats.usage.append(usage)

    def report_resource_usage(self) -> dict[str, NodeUsage]:
        return {name: stats.usage[-1] for name, stats in self._nodes.items() if stats.usage}

    def node(self, name: str) -> NodeStats:
        if name not in self._nodes and len(self._nodes) >= MOST_GUESTS:
            del self._nodes[next(iter(self._nodes))]
        return self._nodes.setdefault(name, NodeStats())

    def forget(self, node: str) -> None:
        self._nodes.pop(node, None)

    def add_records(self, node: str, records: int) -> None:
        now = self._clock.now()
        self.records.add(now, records)
        self.node(node).records.add(now, records)

    def set_step(self, node: str, step: int, metrics: dict[str, float]) -> None:
        if step < 0 or len(self.metrics.keys() | metrics.keys()) > MOST_METRICS:
            raise InvalidRequest(f"step {step} with {len(metrics)} metrics; at most {MOST_METRICS} names are kept")
        self.node(node).step = step
        self.global_step = max(self.global_step, step)
        self.metrics.update(metrics)

    def records_per_second(self, node: str | None = None) -> float:
        rate = self.records if node is None else self.node(node).records
        return rate.per_second(self._clock.now())
