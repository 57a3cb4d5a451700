"""One job's overview: its status but for the nodes, which are a document of their own, and how it is reached."""

from __future__ import annotations

from typing import Any

from pliant.dashboard.documents.history import Restarts
from pliant.dashboard.documents.jobs import workers
from pliant.handles.job_handle import JobView

MAX_TRACEBACK = 20_000  # characters
MAX_PARKED = 100  # shards of a dataset, by name
MAX_MEMBERS = 200  # of a world, by name
LEFT_OUT = ("nodes", "plans")  # documents of their own


def job_document(job_id: str, view: JobView, restarts: Restarts, created_at: float) -> dict[str, Any]:
    found = view.to_json()
    for key in LEFT_OUT:
        found.pop(key, None)
    if found.get("first_failure"):
        found["first_failure"]["traceback"] = found["first_failure"]["traceback"][-MAX_TRACEBACK:]
    for dataset in found.get("datasets", ()):
        dataset["parked_total"] = len(dataset["parked"])
        dataset["parked"] = dataset["parked"][:MAX_PARKED]
    if found.get("world"):
        found["world"]["size"] = len(found["world"]["members"])
        found["world"]["members"] = found["world"]["members"][:MAX_MEMBERS]
    status = view.status
    return {
        **found,
        "id": job_id,
        "platform": view.handle.platform,
        "where": view.handle.where,
        "logs_at": view.handle.logs_at,
        "over": view.is_over,
        "created_at": created_at,
        "started_at": status.started_at,
        "seconds": round(status.seconds, 3) if view.is_over else None,
        "restarts": restarts.to_json(),
        "workers": workers(status),
        "warnings": status.warnings,
        "waiting": status.waiting.message if status.waiting is not None else "",
    }
