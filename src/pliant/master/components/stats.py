"""The stats collector: what nodes use and how fast the job is, kept in memory with some history.

Of each node it has the last samples as they came, and all of them added up (``core/planning/series.py``); ``view`` sums a node
up for who plans. What takes the life of a node to learn survives this master: see ``usage_recorder``.

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
from pliant.core.job_progress import accepted_records
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.states import NodeState
from pliant.core.planning.counter_rate import CounterRate
from pliant.core.planning.memory_points import MemoryPoints
from pliant.core.planning.node_summary import NodeSummary
from pliant.core.planning.samples import NodeUsage, StatsQuery, ThroughputSample
from pliant.core.planning.series import UsageSeries
from pliant.core.planning.server_load import ServerLoad
from pliant.core.planning.time_spent import TimeShares
from pliant.core.progress import ProgressTracker, StepReport
from pliant.core.shards.datasets import MAX_RECORDS
from pliant.core.status_builder import LiveFigures, NodeFigures, role_statuses
from pliant.master.components.base import Component
from pliant.master.components.signals import RecordsAccepted, ServerMeasured, Signal

HISTORY = 120  # samples per node as they came: two minutes at one a second; what is older is in its series
VIEW_WINDOW_S = 300.0  # over which use of the CPU is summed up for who plans
PACE_WINDOW_S, PACE_SPACING_S = 120.0, 5.0  # over which the records of a node are, which come by the shard
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
    memory: MemoryPoints
    usage: deque[NodeUsage] = field(default_factory=lambda: deque(maxlen=HISTORY))
    series: UsageSeries = field(default_factory=UsageSeries)
    server: ServerLoad | None = None  # of a parameter server
    records: Rate = field(default_factory=Rate)
    pace: CounterRate = field(default_factory=lambda: CounterRate(window_s=PACE_WINDOW_S, spacing_s=PACE_SPACING_S))
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
        if nodes is not None:
            self._shrink_ended(nodes)

    def _shrink_ended(self, nodes: NodeBook) -> None:
        """Of a node that ended, what it did last and its peak are shown; nobody plans by the rest."""
        for node in nodes.nodes():
            stats = self._nodes.get(node.name)
            if stats is not None and node.ended and len(stats.usage) > 1:
                last, peak = stats.usage[-1], stats.memory.peak
                stats.usage.clear()
                stats.usage.append(last)
                stats.series, stats.memory, stats.server = UsageSeries(), MemoryPoints(), None
                stats.memory.peak = peak

    def on_event(self, signal: Signal) -> None:
        match signal:
            case RecordsAccepted(node=node, records=records):
                self.add_records(node, records)
            case ServerMeasured():
                self._collect_server_load(signal)
            case _:
                return

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
        self._add(stats, usage)
        stats.agent_reported_at = usage.time

    def collect_measured_usage(self, node: str, usage: NodeUsage) -> None:
        """By the platform, from the outside; an agent, which reads the cgroup itself, knows better."""
        stats = self.node(node)
        if usage.time - stats.agent_reported_at > AGENT_SILENT:
            self._add(stats, usage)

    def _add(self, stats: NodeStats, usage: NodeUsage) -> None:
        stats.usage.append(usage)
        stats.series.add(usage.time, cpu=usage.cpu, memory_mb=usage.memory_mb, throttled=usage.throttled)
        stats.pace.read(usage.time, stats.records.total)
        if usage.memory_mb > 0:  # else its program does not run
            stats.memory.add(self.accepted_records(), usage.memory_mb)

    def _collect_server_load(self, measured: ServerMeasured) -> None:
        stats, said = self.node(measured.node), measured.stats
        stats.server = stats.server or ServerLoad()
        stats.server.report(
            self._clock.now(),
            rows=said.rows,
            queue=said.queue,
            requests=said.requests,
            bytes_in=said.bytes_in,
            bytes_out=said.bytes_out,
            partition_load=measured.partition_load,
        )

    def accepted_records(self) -> int:
        """Of training, since the job began."""
        return accepted_records(self._state, self.training.progress)

    def report_resource_usage(self) -> dict[str, NodeUsage]:
        return {name: stats.usage[-1] for name, stats in self._nodes.items() if stats.usage}

    def node(self, name: str) -> NodeStats:
        if name not in self._nodes and len(self._nodes) >= MAX_GUESTS:
            del self._nodes[next(iter(self._nodes))]
        if name not in self._nodes:
            self._nodes[name] = self._new(name)
        return self._nodes[name]

    def _new(self, name: str) -> NodeStats:
        """With what an earlier master noted of it."""
        noted = self._state.usage.memory_of(name) if self._state.usage is not None else None
        return NodeStats(noted or MemoryPoints())

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
        """The most that was ever measured, in MB; 0: nothing was."""
        return (self._nodes.get(node) or self._new(node)).memory.peak

    def memory_of(self, node: str) -> tuple[float, float] | None:
        """What it holds now and the most that it ever held, in MB; None: nothing was measured."""
        found = self._nodes.get(node)
        return (found.usage[-1].memory_mb, found.memory.peak) if found is not None and found.usage else None

    def view(self, node: str, window_s: float = VIEW_WINDOW_S) -> NodeSummary:
        """What was measured of a node, for who plans: use of the CPU over the last minutes, memory over its whole life."""
        stats = self._nodes.get(node) or self._new(node)
        latest = stats.usage[-1] if stats.usage else NodeUsage(0.0)
        since = self._clock.now() - window_s
        lately = stats.series.since(since)
        shares = self.time_shares(node)
        server, pace = stats.server or ServerLoad(), stats.pace.per_second
        return NodeSummary(
            samples=lately.samples if lately is not None else 0,
            cpu=lately.cpu if lately is not None else 0.0,
            cpu_p95=stats.series.cpu_quantile(0.95, since),
            cpu_limit=latest.cpu_limit,
            throttled=lately.throttled if lately is not None else 0.0,
            memory_mb=latest.memory_mb,
            memory_peak_mb=stats.memory.peak,
            memory_limit_mb=latest.memory_limit_mb,
            memory_points=stats.memory.points,
            records_per_second=stats.records.per_second(self._clock.now()) if pace is None else pace,
            unit_seconds=shares.unit_s if shares is not None else 0.0,
            shares=shares,
            rows=server.rows,
            bytes_per_second=server.bytes_per_second,
            requests_per_second=server.requests_per_second,
            queue=server.queue,
            partition_load=server.partitions,
        )

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
