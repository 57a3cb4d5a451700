"""The stats collector: what nodes use and how fast the job is, kept in memory with some history.

``StatsCollector`` is the interface; the Brain's reporter will be another implementation of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pliant.core.clock import Clock
from pliant.core.end_policy import SERVICE_ROLES
from pliant.core.errors import NotFound
from pliant.core.goodput import GoodputMeter
from pliant.core.job_state import JobState
from pliant.core.nodes.states import NodeState
from pliant.core.planning.samples import NodeUsage, StatsQuery, ThroughputSample
from pliant.core.planning.time_spent import TimeShares
from pliant.core.progress import ProgressTracker, StepReport
from pliant.core.shards.datasets import MAX_RECORDS
from pliant.core.status_builder import LiveFigures, NodeFigures, role_statuses
from pliant.master.components.base import Component
from pliant.master.components.signals import RecordsAccepted, Signal

HISTORY = 600  # samples per node: ten minutes at one a second
WINDOW = 10.0  # seconds over which a rate is taken
TIME_WINDOW_S = 30.0  # over which the shares of a program's time are taken
AGENT_SILENT = 30.0  # seconds after which what the platform measured counts instead
MAX_GUESTS = 10_000  # nodes of which anything is kept


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
        self.total = min(MAX_RECORDS, self.total + count)
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
    agent_reported_at: float = float("-inf")  # when the node's own agent last reported its usage


class StatsCollector(StatsQuery):
    """Samples go in here; what was collected is asked for by ``StatsQuery``."""

    @abstractmethod
    def collect_node_resource_usage(self, node: str, usage: NodeUsage) -> None:
        """One sample of one node."""


class MemoryStats(Component, StatsCollector):
    name = "stats"
    title = "stats collector"

    def __init__(self, clock: Clock, state: JobState) -> None:
        self._clock = clock
        self._state = state
        self._nodes: dict[str, NodeStats] = {}
        self.records = Rate()
        self.training = ProgressTracker()  # what programs report
        self.goodput = GoodputMeter()

    async def tick(self) -> None:
        nodes = self._state.nodes
        roles = role_statuses(nodes) if nodes is not None else ()
        workers = [role for role in roles if role.name not in SERVICE_ROLES]
        is_paused = self._state.job.over or nodes is None or bool(nodes.suspended)
        self.goodput.observe(self._clock.now(), workers, is_paused=is_paused)

    def on_event(self, signal: Signal) -> None:
        if isinstance(signal, RecordsAccepted):
            self.add_records(signal.node, signal.records)

    def figures(self) -> LiveFigures:
        return self.status(LiveFigures())

    def status(self, live: LiveFigures) -> LiveFigures:
        return replace(
            live,
            records_per_second=self.records_per_second(),
            training=self.training.progress,
            steps_per_second=self.training.steps_per_second(self._clock.now()),
            goodput=self.goodput.percent,
            nodes={name: self._figures(name, stats) for name, stats in self._nodes.items()},
        )

    def _figures(self, name: str, stats: NodeStats) -> NodeFigures:
        latest = stats.usage[-1] if stats.usage else NodeUsage(0.0)
        shares = self.time_shares(name)
        return NodeFigures(
            cpu=latest.cpu,
            memory_mb=latest.memory_mb,
            memory_limit_mb=latest.memory_limit_mb,
            records_per_second=self.records_per_second(name),
            records=stats.records.total,
            peak_memory_mb=self.peak_memory(name),
            unit_seconds=shares.unit_s if shares is not None else 0.0,
        )

    def collect_node_resource_usage(self, node: str, usage: NodeUsage) -> None:
        stats = self.node(node)
        stats.usage.append(usage)
        stats.agent_reported_at = usage.time

    def collect_measured_usage(self, node: str, usage: NodeUsage) -> None:
        """By the platform, from the outside; an agent, which reads the cgroup itself, knows better."""
        stats = self.node(node)
        if usage.time - stats.agent_reported_at > AGENT_SILENT:
            stats.usage.append(usage)

    def report_resource_usage(self) -> dict[str, NodeUsage]:
        return {name: stats.usage[-1] for name, stats in self._nodes.items() if stats.usage}

    def node(self, name: str) -> NodeStats:
        if name not in self._nodes and len(self._nodes) >= MAX_GUESTS:
            del self._nodes[next(iter(self._nodes))]
        return self._nodes.setdefault(name, NodeStats())

    def forget(self, node: str) -> None:
        self._nodes.pop(node, None)

    def add_records(self, node: str, records: int) -> None:
        now = self._clock.now()
        self.records.add(now, records)
        self.node(node).records.add(now, records)

    def report_step(self, report: StepReport) -> int:
        """Returns how many records of the worker are new; they are counted when they are accepted."""
        records = self.training.report(self._clock.now(), report, is_alive=self._is_alive)
        self.node(report.node).step = report.progress.step
        return records

    def _is_alive(self, node: str) -> bool:
        """Or done: its steps count for good. Without nodes of our own nobody knows of an end."""
        nodes = self._state.nodes
        if nodes is None or not node:
            return bool(node)
        try:
            found = nodes.get(node)
        except NotFound:
            return False
        return not found.ended or found.state is NodeState.SUCCEEDED

    def peak_memory(self, node: str) -> float:
        """The most that was measured, in MB; 0: nothing was."""
        return max((sample.memory_mb for sample in self.usage_of(node)), default=0.0)

    def time_shares(self, node: str, window_s: float = TIME_WINDOW_S) -> TimeShares | None:
        """Where the time of its program went lately; None: it does not say, or has only just started."""
        samples = self.usage_of(node)
        latest = samples[-1].time_spent if samples else None
        if latest is None:
            return None
        first = samples[-1].time - window_s
        before = (sample.time_spent for sample in samples if sample.time >= first)
        return next((shares for spent in before if (shares := latest.since(spent)) is not None), None)

    def usage_of(self, node: str) -> Sequence[NodeUsage]:
        found = self._nodes.get(node)
        return tuple(found.usage) if found is not None else ()

    def throughput(self, node: str | None = None) -> ThroughputSample:
        step = self.training.progress.step if node is None else self.node(node).step
        return ThroughputSample(self._clock.now(), self.records_per_second(node), step)

    def records_per_second(self, node: str | None = None) -> float:
        rate = self.records if node is None else self.node(node).records
        return rate.per_second(self._clock.now())
