"""The series of a job at one moment, as charts need them: what ``JobHandle.series`` returns, and what stays of an ended job.

As JSON each curve is a mapping of columns of equal length, which is small and what charts take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pliant.core.decoding import decode, plain
from pliant.core.errors import CorruptData
from pliant.core.series.curve import Curve, Point, since, thinned

EVALUATION = "eval/"  # before the names of an evaluation's metrics; their step is the version of the model
MIN_THINNED = 8  # points per curve, below which nodes are left out instead


@dataclass(frozen=True, slots=True)
class NodeSeries:
    """What a node used, and how much of it it may use."""

    cpu: Curve = ()  # cores
    memory_mb: Curve = ()
    cpu_limit: float = 0.0  # the newest; 0: none
    memory_limit_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class JobSeries:
    name: str
    time: float = 0.0  # when this was so
    records_per_second: Curve = ()
    steps_per_second: Curve = ()
    workers: Curve = ()  # that run
    metrics: Mapping[str, Curve] = field(default_factory=dict)  # by name, the loss first
    nodes: Mapping[str, NodeSeries] = field(default_factory=dict)  # in the order in which they came, ended ones too
    left_out: tuple[str, ...] = ()  # for people
    note: str = ""  # set if this does not come from a live master although the job is not over

    def mapped(self, change: Callable[[Curve], Curve]) -> JobSeries:
        """With every curve changed."""
        return replace(
            self,
            records_per_second=change(self.records_per_second),
            steps_per_second=change(self.steps_per_second),
            workers=change(self.workers),
            metrics={name: change(curve) for name, curve in self.metrics.items()},
            nodes={
                name: replace(node, cpu=change(node.cpu), memory_mb=change(node.memory_mb))
                for name, node in self.nodes.items()
            },
        )

    def thinned(self, max_points: int) -> JobSeries:
        """With at most so many points per curve; 0: all."""
        return self.mapped(lambda curve: thinned(curve, max_points)) if max_points > 0 else self

    def since(self, time: float) -> JobSeries:
        """For a reader who has all points before this time: see ``curve.since``."""
        return self.mapped(lambda curve: since(curve, time)) if time > 0 else self

    def within(self, max_points: int) -> JobSeries:
        """With at most so many points in all: where a small file has to hold them."""
        series = self
        if (points := series.points) > max_points and (nodes := _node_points(series)):
            room = max_points - min(points - nodes, max_points // 2)  # nodes get what the others leave, at least half
            series = replace(series, nodes=_fitting_nodes(series.nodes, room))
            if left := len(self.nodes) - len(series.nodes):
                series = replace(series, left_out=(*series.left_out, f"{left} of {len(self.nodes)} nodes"))
        per_curve = 512
        while series.points > max_points and per_curve > 1:
            per_curve //= 2
            series = series.thinned(per_curve)
        return series

    @property
    def points(self) -> int:
        """Their number, over all curves."""
        found = [self.records_per_second, self.steps_per_second, self.workers, *self.metrics.values()]
        return sum(map(len, found)) + _node_points(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "time": self.time,
            "records_per_second": _columns(self.records_per_second),
            "steps_per_second": _columns(self.steps_per_second),
            "workers": _columns(self.workers),
            "metrics": {name: _columns(curve) for name, curve in self.metrics.items()},
            "nodes": {
                name: {
                    "cpu": _columns(node.cpu),
                    "memory_mb": _columns(node.memory_mb),
                    "cpu_limit": node.cpu_limit,
                    "memory_limit_mb": node.memory_limit_mb,
                }
                for name, node in self.nodes.items()
            },
            "left_out": list(self.left_out),
            "note": self.note,
        }

    @classmethod
    def from_json(cls, value: object, where: str = "the series") -> JobSeries:
        """Raises ``CorruptData`` unless it is what ``to_json`` makes."""
        read = decode(_SeriesRecord, value, where)
        return cls(
            read.name,
            read.time,
            read.records_per_second.curve(where),
            read.steps_per_second.curve(where),
            read.workers.curve(where),
            {name: columns.curve(where) for name, columns in read.metrics.items()},
            {
                name: NodeSeries(
                    node.cpu.curve(where), node.memory_mb.curve(where), node.cpu_limit, node.memory_limit_mb
                )
                for name, node in read.nodes.items()
            },
            read.left_out,
            read.note,
        )


# --- the JSON form


@dataclass(frozen=True, slots=True)
class Columns:
    """A curve, as JSON and the wire have it."""

    time: tuple[float, ...] = ()
    step: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    min: tuple[float, ...] = ()
    max: tuple[float, ...] = ()
    count: tuple[int, ...] = ()

    @classmethod
    def of(cls, curve: Curve) -> Columns:
        return cls(
            tuple(point.time for point in curve),
            tuple(point.step for point in curve),
            tuple(point.mean for point in curve),
            tuple(point.minimum for point in curve),
            tuple(point.maximum for point in curve),
            tuple(point.count for point in curve),
        )

    def curve(self, where: str) -> Curve:
        columns = (self.time, self.step, self.mean, self.min, self.max, self.count)
        if len(set(map(len, columns))) > 1:
            raise CorruptData(f"{where}: columns of a curve are of different lengths")
        return tuple(map(Point, *columns))


@dataclass(frozen=True, slots=True)
class _NodeRecord:
    cpu: Columns = Columns()
    memory_mb: Columns = Columns()
    cpu_limit: float = 0.0
    memory_limit_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class _SeriesRecord:
    name: str
    time: float = 0.0
    records_per_second: Columns = Columns()
    steps_per_second: Columns = Columns()
    workers: Columns = Columns()
    metrics: Mapping[str, Columns] = field(default_factory=dict)
    nodes: Mapping[str, _NodeRecord] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    note: str = ""


def _columns(curve: Curve) -> dict[str, list[float]]:
    found: dict[str, list[float]] = plain(Columns.of(curve))
    for name in ("mean", "min", "max"):
        found[name] = [_short(value) for value in found[name]]
    return found


def _short(value: float) -> float:
    """Seven digits are more than any chart shows, and half as long as all of them."""
    short = float(f"{value:.7g}")
    return short if math.isfinite(short) else value


def _node_points(series: JobSeries) -> int:
    return sum(len(node.cpu) + len(node.memory_mb) for node in series.nodes.values())


def _fitting_nodes(nodes: Mapping[str, NodeSeries], max_points: int) -> dict[str, NodeSeries]:
    """The newest ones, if so few points would be left for each that nothing could be seen of any."""
    number = max(1, min(len(nodes), max_points // (2 * MIN_THINNED)))
    per_curve = max(1, max_points // (2 * number))
    return {
        name: replace(node, cpu=thinned(node.cpu, per_curve), memory_mb=thinned(node.memory_mb, per_curve))
        for name, node in list(nodes.items())[-number:]
    }
