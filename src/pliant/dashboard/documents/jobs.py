"""The list of jobs: one row each, with what a person wants to see first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.core.end_policy import SERVICE_ROLES
from pliant.core.status import JobStatus
from pliant.core.status_json import part_to_json
from pliant.dashboard.documents.history import MAX_TEXT, Restarts
from pliant.handles.job_handle import JobView

MAX_ROWS = 500
MAX_METRICS = 20  # of a row


def jobs_document(rows: Mapping[str, dict[str, Any]], now: float, left_out: int) -> dict[str, Any]:
    return {"time": round(now, 1), "jobs": dict(rows), "left_out": left_out}


def job_row(job_id: str, view: JobView, restarts: Restarts | None, created_at: float) -> dict[str, Any]:
    """``restarts``: as the events tell them; None: as the status does, without reasons."""
    status = view.status
    progress = part_to_json(status.progress)
    progress["metrics"] = dict(list(progress.get("metrics", {}).items())[:MAX_METRICS])
    failure = status.first_failure
    return {
        "id": job_id,
        "name": status.name,
        "platform": view.handle.platform,
        "phase": view.phase.value,
        "reason": status.reason[:MAX_TEXT],
        "message": status.message[:MAX_TEXT],
        "note": view.note[:MAX_TEXT],
        "over": view.is_over,
        "created_at": round(created_at, 3),
        "started_at": round(status.started_at, 3),
        "ended_at": round(status.ended_at, 3),
        "seconds": round(status.seconds, 1) if view.is_over else None,  # of a running job: from started_at to now
        "progress": progress,
        "eta": round(status.eta, 1) if status.eta is not None else None,
        "goodput": status.goodput,
        "records_per_second": round(status.records_per_second, 2) if not view.is_over else 0.0,
        "steps_per_second": round(status.steps_per_second, 3) if not view.is_over else 0.0,
        "workers": workers(status),
        "restarts": restarts.to_json() if restarts is not None else restarts_of(status),
        "waiting": status.waiting.message[:MAX_TEXT] if status.waiting is not None else "",
        "warnings": [text[:MAX_TEXT] for text in status.warnings],
        "failure": f"{failure.node}: {failure.message}"[:MAX_TEXT] if failure is not None else "",
        "optimize": status.optimize,
    }


def workers(status: JobStatus) -> dict[str, int] | None:
    """Of the role that works: ``worker``, or the first that serves nobody."""
    role = status.role("worker") or next((role for role in status.roles if role.name not in SERVICE_ROLES), None)
    if role is None:
        return None
    return {"now": role.present, "wanted": role.wanted, "min": role.min, "max": role.max}


def restarts_of(status: JobStatus) -> dict[str, Any]:
    return {
        "programs": sum(node.restarts for node in status.nodes),
        "nodes": sum(1 for node in status.nodes if node.replaces),
        "reasons": {},
    }
