"""What was decided about a job's resources, by whom, why, what it promised and what came of it."""

from __future__ import annotations

from typing import Any

from pliant.core.planning.reports import JobExplanation, JobPlans
from pliant.dashboard.documents.history import EventHistory

MAX_PLANS = 500
MAX_REQUESTS = 300


def decisions_document(
    plans: JobPlans | None, explanation: JobExplanation | None, history: EventHistory, note: str = ""
) -> dict[str, Any]:
    """``plans`` None: they cannot be read now, and the note says why."""
    found = plans.to_json() if plans is not None else {"optimize": "", "planner": None, "note": note, "plans": []}
    records = plans.plans[-MAX_PLANS:] if plans is not None else ()
    explained = explanation.to_json() if explanation is not None else {}
    return {
        "optimize": found["optimize"],
        "planner": found["planner"],
        "note": found["note"] or note,
        "plans": {record.id: {**record.to_json(), "standing": record.standing} for record in records},
        "left_out": max(0, len(plans.plans) - MAX_PLANS) if plans is not None else 0,
        "explanation": explained.get("explanation"),
        "explanation_note": explained.get("note", ""),
        "time": explained.get("time"),
        "requests": list(history.requests)[-MAX_REQUESTS:],
    }
