"""A real job as a truth: a trace of its samples, and what lies between the configurations that it had.

A trace is a file of JSON lines. Each has a ``kind``:

    {"kind": "trace", "version": 1, "job": "digits", "strategy": "queue", "records": 60000, "virtual_workers": 0}
    {"kind": "job", "time": 12.0, "records": 480, "rate": 96.1, "configuration": {"worker": {"replicas": 2, "cpu": 1.0,
     "memory_mb": 512}, "server": null, "micro_batch": 0}}
    {"kind": "node", "time": 12.0, "node": "worker-0", "role": "worker", "cpu": 0.93, "memory_mb": 301.5}

The first line describes the job; times are seconds from its start, ``rate`` is records per second, ``records`` those accepted so
far. Samples taken while nodes were starting should be left out. ``TraceTruth`` interpolates the median rate of each configuration,
linearly in the logarithms, and never leaves the range that was measured: a replay does not know what nobody tried.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from scipy.interpolate import RBFInterpolator

from pliant.core.errors import CorruptData
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobKind, StepParts
from pliant.sim.truth.base import Memory, NodeGroup, Noise, Throughput, Truth
from pliant.spec.base import Count, Model, Positive, Seconds

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Features = tuple[float, float, float, float]  # workers, their CPU, servers, their CPU


class ShapeLine(Model):
    replicas: Count
    cpu: Amount = 0.0
    memory_mb: Amount = 0
    gpu: Count = 0


class ConfigurationLine(Model):
    worker: ShapeLine
    server: ShapeLine | None = None
    micro_batch: Count = 0


class TraceLine(Model):
    kind: Literal["trace"]
    version: Literal[1]
    job: str = ""
    strategy: JobKind = JobKind.QUEUE
    records: Positive
    virtual_workers: Count = 0


class JobLine(Model):
    kind: Literal["job"]
    time: Seconds
    records: Count
    rate: Amount
    configuration: ConfigurationLine


class NodeLine(Model):
    kind: Literal["node"]
    time: Seconds
    node: str
    role: str
    cpu: Amount = 0.0
    memory_mb: Amount = 0.0


Line = Annotated[TraceLine | JobLine | NodeLine, Field(discriminator="kind")]
_LINE: TypeAdapter[TraceLine | JobLine | NodeLine] = TypeAdapter(Line)


@dataclass(frozen=True, slots=True)
class Trace:
    head: TraceLine
    jobs: tuple[JobLine, ...]
    nodes: tuple[NodeLine, ...] = ()


def read_trace(path: Path) -> Trace:
    """``CorruptData`` names the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptData(f"trace {path} cannot be read: {error}") from None
    found = [
        _parse(line, f"trace {path}, line {number}") for number, line in enumerate(text.splitlines(), 1) if line.strip()
    ]
    if not found or not isinstance(found[0], TraceLine):
        raise CorruptData(f"trace {path}: the first line must have kind trace")
    jobs = tuple(line for line in found if isinstance(line, JobLine))
    if not any(line.rate > 0 for line in jobs):
        raise CorruptData(f"trace {path}: no line of kind job has a rate above 0")
    return Trace(found[0], jobs, tuple(line for line in found if isinstance(line, NodeLine)))


def _parse(line: str, where: str) -> TraceLine | JobLine | NodeLine:
    try:
        return _LINE.validate_python(json.loads(line))
    except json.JSONDecodeError as error:
        raise CorruptData(f"{where}: not JSON: {error.msg}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field_name = ".".join(str(part) for part in first["loc"][1:])
        raise CorruptData(f"{where}: {field_name or 'kind'}: {first['msg']}") from None


def write_trace(path: Path, head: TraceLine, lines: Iterable[JobLine | NodeLine]) -> None:
    texts = [json.dumps(line.to_json()) for line in (head, *lines)]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTruth(Truth):
    """The parts of a step and the CPU of nodes are not in a trace; rates and memory are."""

    job_kind: JobKind = JobKind.QUEUE
    points: tuple[tuple[Features, float], ...] = ()  # median rate by configuration
    cpu: tuple[tuple[str, float], ...] = ()  # median cores used, by role
    _cache: dict[Features, float] = field(default_factory=dict, compare=False, repr=False)

    @property
    def kind(self) -> JobKind:
        return self.job_kind

    def throughput(self, workers: Sequence[NodeGroup], servers: Sequence[NodeGroup] = ()) -> Throughput:
        count, seats = sum(group.count for group in workers), sum(group.count for group in servers)
        if not count or (self.job_kind in (JobKind.PS_ASYNC, JobKind.PS_SYNC) and not seats):
            return Throughput()
        speed = sum(group.count * group.speed for group in workers) / count
        key = (float(count), _mean_cpu(workers), float(seats), _mean_cpu(servers))
        if key not in self._cache:
            self._cache[key] = self._interpolated(key)
        rate, used = self._cache[key] * speed, dict(self.cpu)
        return Throughput(
            rate,
            StepParts(),
            tuple(used.get("worker", 0.0) for _ in workers),
            tuple(rate / count for _ in workers),
            server_cpu=tuple(used.get("ps", 0.0) for _ in servers),
        )

    def _interpolated(self, key: Features) -> float:
        where = np.log1p(np.array([features for features, _ in self.points]))
        rates = np.log(np.array([rate for _, rate in self.points]))
        varying = np.ptp(where, axis=0) > 1e-9
        asked = np.log1p(np.array(key))
        if not varying.any():
            return float(np.exp(rates.mean()))
        inside = np.clip(asked, where.min(axis=0), where.max(axis=0))[varying]
        if varying.sum() == 1:
            column = where[:, varying][:, 0]
            order = np.argsort(column)
            return float(np.exp(np.interp(inside[0], column[order], rates[order])))
        value = RBFInterpolator(where[:, varying], rates, kernel="linear", degree=0)(inside[None, :])[0]
        return float(np.exp(np.clip(value, rates.min(), rates.max())))

    @classmethod
    def of(cls, trace: Trace, **others: Any) -> TraceTruth:
        rates: defaultdict[Features, list[float]] = defaultdict(list)
        for line in trace.jobs:
            if line.rate > 0:
                rates[_features(line.configuration)].append(line.rate)
        residuals = [
            math.log(rate / statistics.median(found)) for found in rates.values() for rate in found if len(found) > 2
        ]
        sigma = statistics.pstdev(residuals) if len(residuals) > 2 else 0.05
        used = {
            role: statistics.median(line.cpu for line in trace.nodes if line.role == role)
            for role in {line.role for line in trace.nodes}
        }
        found: dict[str, Any] = {
            "records": trace.head.records,
            "virtual_workers": trace.head.virtual_workers,
            "job_kind": trace.head.strategy,
            "points": tuple((key, statistics.median(values)) for key, values in sorted(rates.items())),
            "cpu": tuple(sorted(used.items())),
            "noise": Noise(sample_sigma=sigma),
            "worker_memory": _memory(trace, "worker"),
            "server_memory": _memory(trace, "ps"),
        }
        return cls(**{**found, **others})


def _mean_cpu(groups: Sequence[NodeGroup]) -> float:
    count = sum(group.count for group in groups)
    return sum(group.count * group.cpu for group in groups) / count if count else 0.0


def _features(found: ConfigurationLine) -> Features:
    server = found.server
    return (
        float(found.worker.replicas),
        found.worker.cpu,
        float(server.replicas) if server else 0.0,
        server.cpu if server else 0.0,
    )


def _memory(trace: Trace, role: str) -> Memory:
    """A straight line through the samples of the fullest node, by the share of records that was done then."""
    times = np.array([line.time for line in trace.jobs])
    done = np.array([line.records for line in trace.jobs]) / trace.head.records
    points = [(line.time, line.memory_mb) for line in trace.nodes if line.role == role and line.memory_mb > 0]
    if not points:
        return Memory()
    order = np.argsort(times)
    progress = np.interp([time for time, _ in points], times[order], done[order])
    used = np.array([memory for _, memory in points])
    if np.ptp(progress) < 1e-3:
        return Memory(float(used.max()))
    slope, start = np.polyfit(progress, used, 1)
    return Memory(max(1.0, float(start)), max(0.0, float(slope)))


def configuration_line(configuration: Configuration) -> ConfigurationLine:
    def line(shape: Shape) -> ShapeLine:
        return ShapeLine(replicas=shape.replicas, cpu=shape.cpu, memory_mb=shape.memory_mb, gpu=shape.gpu)

    server = line(configuration.server) if configuration.server is not None else None
    return ConfigurationLine(worker=line(configuration.worker), server=server, micro_batch=configuration.micro_batch)
