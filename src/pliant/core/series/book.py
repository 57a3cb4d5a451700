"""Everything that is recorded of one job for its charts, in constant memory: the master adds samples, readers get a ``JobSeries``.

Bounded are the points of each curve, the names of metrics (the first ``MAX_METRICS``; ``series`` says which are left out), the
nodes (the ones heard of last), and the points of all nodes together: the more nodes, the coarser each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from pliant.core.progress import LOSS
from pliant.core.series.curve import MAX_POINTS, CurveRecorder
from pliant.core.series.job_series import JobSeries, NodeSeries

MAX_METRICS = 100  # names
MAX_NAME = 200  # characters of one
MAX_LEFT_OUT = 20  # names that are listed
MAX_NODES = 1000
MAX_NODE_POINTS, MIN_NODE_POINTS = 240, 20  # per curve of a node
ALL_NODE_POINTS = 40_000  # of all nodes together
MAX_VALUE = 9e18  # what is larger is drawn as this; a diverging loss may be


@dataclass(slots=True)
class _Node:
    cpu: CurveRecorder
    memory_mb: CurveRecorder
    cpu_limit: float = 0.0
    memory_limit_mb: float = 0.0
    heard_at: float = -math.inf


@dataclass(slots=True)
class SeriesBook:
    records_per_second: CurveRecorder = field(default_factory=CurveRecorder)
    steps_per_second: CurveRecorder = field(default_factory=CurveRecorder)
    workers: CurveRecorder = field(default_factory=CurveRecorder)
    _metrics: dict[str, CurveRecorder] = field(default_factory=dict)
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _left_out: dict[str, None] = field(default_factory=dict)  # names of metrics
    _dropped_nodes: int = 0

    def add_metric(self, time: float, step: int, name: str, value: float) -> bool:
        """Returns whether it was taken: a finite number, of a name that fits."""
        if not math.isfinite(value):
            return False
        recorder = self._metrics.get(name)
        if recorder is None:
            if len(name) > MAX_NAME or len(self._metrics) >= MAX_METRICS:
                if len(self._left_out) < MAX_LEFT_OUT:
                    self._left_out[name[:MAX_NAME]] = None
                return False
            recorder = self._metrics[name] = CurveRecorder()
        recorder.add(time, step, min(MAX_VALUE, max(-MAX_VALUE, value)))
        return True

    def last_step_of(self, name: str) -> int | None:
        """Of a metric; None: it has no value yet."""
        recorder = self._metrics.get(name)
        return recorder.last.step if recorder is not None and recorder.last is not None else None

    def add_usage(
        self, time: float, step: int, node: str, *, cpu: float, memory_mb: float, limits: tuple[float, float]
    ) -> None:
        """``limits``: of CPU (cores) and memory (MB); 0: none."""
        found = self._nodes.get(node)
        if found is None:
            self._make_room()
            capacity = _capacity(len(self._nodes) + 1)
            found = self._nodes[node] = _Node(CurveRecorder(capacity), CurveRecorder(capacity))
            self._limit_nodes()
        found.heard_at = time
        found.cpu_limit, found.memory_limit_mb = limits
        found.cpu.add(time, step, cpu)
        found.memory_mb.add(time, step, memory_mb)

    def series(self, name: str, time: float) -> JobSeries:
        loss_first = sorted(self._metrics, key=lambda metric: (metric != LOSS, metric))
        return JobSeries(
            name,
            time,
            self.records_per_second.points,
            self.steps_per_second.points,
            self.workers.points,
            {metric: self._metrics[metric].points for metric in loss_first},
            {
                node: NodeSeries(found.cpu.points, found.memory_mb.points, found.cpu_limit, found.memory_limit_mb)
                for node, found in self._nodes.items()
            },
            tuple(self._what_is_missing()),
        )

    def restore(self, series: JobSeries) -> None:
        """Continue where an earlier master ended."""
        self.records_per_second = CurveRecorder(MAX_POINTS, series.records_per_second)
        self.steps_per_second = CurveRecorder(MAX_POINTS, series.steps_per_second)
        self.workers = CurveRecorder(MAX_POINTS, series.workers)
        metrics = list(series.metrics.items())[:MAX_METRICS]
        self._metrics = {name: CurveRecorder(MAX_POINTS, curve) for name, curve in metrics}
        nodes = list(series.nodes.items())[-MAX_NODES:]
        capacity = _capacity(len(nodes))
        self._nodes = {
            name: _Node(
                CurveRecorder(capacity, node.cpu),
                CurveRecorder(capacity, node.memory_mb),
                node.cpu_limit,
                node.memory_limit_mb,
                node.cpu[-1].time if node.cpu else -math.inf,
            )
            for name, node in nodes
        }

    def _make_room(self) -> None:
        while len(self._nodes) >= MAX_NODES:
            del self._nodes[min(self._nodes, key=lambda name: self._nodes[name].heard_at)]
            self._dropped_nodes += 1

    def _limit_nodes(self) -> None:
        capacity = _capacity(len(self._nodes))
        for node in self._nodes.values():
            node.cpu.limit(capacity)
            node.memory_mb.limit(capacity)

    def _what_is_missing(self) -> Iterable[str]:
        yield from (f"metric {name}: more than {MAX_METRICS} names, or a name too long" for name in self._left_out)
        if self._dropped_nodes:
            yield f"{self._dropped_nodes} nodes that ended long ago"


def _capacity(nodes: int) -> int:
    return min(MAX_NODE_POINTS, max(MIN_NODE_POINTS, ALL_NODE_POINTS // (2 * max(1, nodes))))
