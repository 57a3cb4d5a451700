"""The series of a job between ``core`` and the wire."""

from __future__ import annotations

from pliant.core.series.curve import Curve
from pliant.core.series.job_series import Columns, JobSeries, NodeSeries
from pliant.rpc import pliant_pb2 as pb

WHERE = "the master's answer"


def series_message(series: JobSeries) -> pb.SeriesReply:
    return pb.SeriesReply(
        name=series.name,
        time=series.time,
        records_per_second=_message(series.records_per_second),
        steps_per_second=_message(series.steps_per_second),
        workers=_message(series.workers),
        metrics=[pb.MetricSeries(name=name, curve=_message(curve)) for name, curve in series.metrics.items()],
        nodes=[
            pb.NodeSeries(
                name=name,
                cpu=_message(node.cpu),
                memory_mb=_message(node.memory_mb),
                cpu_limit=node.cpu_limit,
                memory_limit_mb=node.memory_limit_mb,
            )
            for name, node in series.nodes.items()
        ],
        left_out=series.left_out,
    )


def series_from(message: pb.SeriesReply) -> JobSeries:
    return JobSeries(
        message.name,
        message.time,
        _curve(message.records_per_second),
        _curve(message.steps_per_second),
        _curve(message.workers),
        {metric.name: _curve(metric.curve) for metric in message.metrics},
        {
            node.name: NodeSeries(_curve(node.cpu), _curve(node.memory_mb), node.cpu_limit, node.memory_limit_mb)
            for node in message.nodes
        },
        tuple(message.left_out),
    )


def _message(curve: Curve) -> pb.Curve:
    found = Columns.of(curve)
    return pb.Curve(time=found.time, step=found.step, mean=found.mean, min=found.min, max=found.max, count=found.count)


def _curve(message: pb.Curve) -> Curve:
    return Columns(
        tuple(message.time),
        tuple(message.step),
        tuple(message.mean),
        tuple(message.min),
        tuple(message.max),
        tuple(message.count),
    ).curve(WHERE)
