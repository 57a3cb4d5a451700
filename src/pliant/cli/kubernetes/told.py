"""What an ElasticJob itself tells, in the words of a master: for jobs whose master is away, and for ended ones.

Pure: a resource in, a status or a summary out. Less than a master would tell: nodes only as counts per role, records only
in all.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import SUMMARY_KEY
from pliant.platforms.kubernetes.plans import ENDED
from pliant.rpc import pliant_pb2 as pb

EXIT_CODES = {"Succeeded": 0, "Failed": 1, "Stopped": 130}
ALL_RECORDS = "all datasets"
AUDIT, EVENTS = BESIDE = ("audit", "events")  # in the summary of a job of a cluster, and in none else


def phase_of(job: Object) -> str:
    return str((job.get("status") or {}).get("phase") or "Pending")


def is_over(job: Object) -> bool:
    return phase_of(job) in ENDED


def message_of(job: Object) -> str:
    return str((job.get("status") or {}).get("message") or "")


def status_of_resource(job: Object) -> pb.JobStatus:
    told = job.get("status") or {}
    progress = told.get("progress") or {}
    status = pb.JobStatus(
        name=job["metadata"]["name"],
        phase=phase_of(job),
        reason=message_of(job),
        started_at=seconds(told.get("started") or ""),
        ended_at=seconds(told.get("finished") or ""),
        global_step=progress.get("step") or 0,
    )
    if not status.ended_at and status.started_at:
        status.time = datetime.now().timestamp()
    for name, spec in (job["spec"].get("roles") or {}).items():
        role, replicas = (told.get("roles") or {}).get(name) or {}, spec.get("replicas") or {}
        status.roles.add(
            name=name,
            min=replicas.get("min", 1),
            max=replicas.get("max", 1),
            target=role.get("wanted") or replicas.get("wanted") or replicas.get("max", 1),
            running=role.get("ready") or 0,
        )
    if total := progress.get("total"):
        done = progress.get("records") or 0
        status.datasets.add(name=ALL_RECORDS, records_done=done, records_total=total, epochs=1, complete=done == total)
    return status


def left_behind(config_map: Object | None) -> dict[str, Any]:
    """What the master wrote at its end: its summary, and beside that the audit and the last events."""
    left = ((config_map or {}).get("data") or {}).get(SUMMARY_KEY)
    found: dict[str, Any] = json.loads(left) if left else {}
    return found


def summary_of(job: Object, left: dict[str, Any]) -> dict[str, Any]:
    """Of an ended job: what its master left, else what its ElasticJob tells."""
    if left:
        return {key: value for key, value in left.items() if key not in BESIDE}
    from pliant.master.summary import status_dict

    status = status_of_resource(job)
    value = status_dict(status)
    return {
        **value,
        "exit_code": EXIT_CODES.get(phase_of(job), 1),
        "seconds": max(0.0, status.ended_at - status.started_at) if status.started_at and status.ended_at else 0.0,
        "records_done": sum(dataset.records_done for dataset in status.datasets),
        "restarts": 0,
        "replacements": 0,
    }


def seconds(moment: str) -> float:
    """Of RFC 3339, since the epoch; 0: none."""
    try:
        return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() if moment else 0.0
    except ValueError:
        return 0.0
