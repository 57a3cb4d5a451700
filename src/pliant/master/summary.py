"""What stays of a job: how it ended, what was done, what failed, as JSON for people and scripts."""

from __future__ import annotations

import math
from typing import Any

from google.protobuf.json_format import MessageToDict

from pliant.core.job import Phase
from pliant.core.training import Result
from pliant.master.components import Components
from pliant.master.status import job_status
from pliant.rpc import pliant_pb2 as pb


def status_dict(status: Any) -> dict[str, Any]:
    """A message as a plain dictionary: snake_case, all fields, whole numbers as numbers."""
    value = MessageToDict(status, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    plain: dict[str, Any] = _numbers(value)
    return plain


def _numbers(value: Any) -> Any:
    # protobuf's JSON writes int64 as text; none of our texts that look like whole numbers are in these fields
    if isinstance(value, dict):
        return {k: _whole(v) if k in _INTEGERS else _numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, str) else _numbers(value)


_INTEGERS = frozenset(
    [
        "pid",
        "agent_pid",
        "records",
        "global_step",
        "records_per_epoch",
        "records_done",
        "records_total",
        "shards_done",
        "shards_total",
        "shards_in_work",
        "shards_waiting",
        "start",
        "end",
        "round",
        "step",
        "number",
        "version",
    ]
    + [
        field.name
        for message in (pb.ParametersStatus, pb.SeatStatus, pb.SeatStats)
        for field in message.DESCRIPTOR.fields
        if field.type == field.TYPE_INT64
    ]
)


def summarize(parts: Components, components: dict[str, Any]) -> dict[str, Any]:
    status = status_dict(job_status(parts))
    job = parts.job
    seconds = max(0.0, job.ended_at - job.started_at)
    done = sum(d["records_done"] for d in status["datasets"])
    book = parts.training.book if parts.training is not None else None
    results = list(book.results.values()) if book is not None else []
    evaluation = _finite(results[-1].metrics) if results else {}  # the latest, by name
    return {
        **status,
        "exit_code": exit_code(job.phase),
        "seconds": round(seconds, 3),
        "records_done": done,
        "average_records_per_second": round(done / seconds, 1) if seconds else 0.0,
        "restarts": sum(n["restarts"] for n in status["nodes"]),
        "replacements": sum(1 for n in status["nodes"] if n["replaces"]),
        "master_parts": components,
        "metrics": {**_finite(parts.stats.metrics), **evaluation},
        "evaluation": evaluation,
        "evaluations": [_result(result) for result in results],
        "best": _result(book.best) if book is not None and book.best is not None else None,
    }


def _result(result: Result) -> dict[str, Any]:
    """Read back as a message, which has no place for what is not a number."""
    finite = {name: value for name, value in result.metrics.items() if math.isfinite(value)}
    return {"version": result.version, "metrics": finite, "records": result.records}


def _finite(metrics: dict[str, float]) -> dict[str, float | None]:
    """JSON has no NaN and no infinity; a loss may well be one."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def exit_code(phase: Phase | str) -> int:
    return {Phase.SUCCEEDED: 0, Phase.FAILED: 1, Phase.STOPPED: 130}[Phase(phase)]
