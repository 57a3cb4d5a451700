"""The machines of a platform and who uses them: asked for, used, free; and who waits for what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus
from pliant.dashboard.documents.history import MAX_TEXT
from pliant.handles.job_handle import JobView
from pliant.monitors.base import Amounts, Observation

MAX_MACHINES = 2000
MAX_WAITING = 500


def cluster_document(
    platform: str, observation: Observation | None, views: Iterable[tuple[str, JobView]], now: float, note: str = ""
) -> dict[str, Any]:
    """``observation`` None: the machines cannot be seen, and the note says why."""
    running = [(job_id, view) for job_id, view in views if not view.is_over]
    machines = _machines(observation) if observation is not None else {}
    waiting = [entry for job_id, view in running for entry in _waiting(job_id, view.status)]
    return {
        "time": round(now, 1),
        "platform": platform,
        "note": note,
        "machines": machines,
        "total": _total(machines.values()),
        "jobs": {job_id: _job(job_id, view) for job_id, view in running},
        "waiting": waiting[:MAX_WAITING],
        "waiting_total": len(waiting),
    }


def _machines(observation: Observation) -> dict[str, dict[str, Any]]:
    nodes: dict[str, int] = {}
    for node in observation.nodes:
        nodes[node.machine] = nodes.get(node.machine, 0) + 1
    return {
        machine.name: {
            "name": machine.name,
            "size": _amounts(machine.size),
            "asked": _amounts(machine.size.without(machine.free)),
            "used": _amounts(machine.used),
            "free": _amounts(machine.free),
            "nodes": nodes.get(machine.name, 0),
            "ready": machine.is_ready,
        }
        for machine in observation.machines[:MAX_MACHINES]
    }


def _total(machines: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    found = list(machines)
    return {
        kind: {unit: round(sum(machine[kind][unit] for machine in found), 2) for unit in ("cpu", "memory_mb", "gpu")}
        for kind in ("size", "asked", "used", "free")
    }


def _job(job_id: str, view: JobView) -> dict[str, Any]:
    live = view.status.live_nodes
    return {
        "id": job_id,
        "name": view.status.name,
        "phase": view.phase.value,
        "nodes": len(live),
        "asked": {
            "cpu": round(sum(node.cpu_limit for node in live), 2),
            "memory_mb": round(sum(node.memory_limit_mb for node in live)),
            "gpu": sum(node.gpu for node in live),
        },
        "used": {
            "cpu": round(sum(node.cpu for node in live), 2),
            "memory_mb": round(sum(node.memory_mb for node in live)),
        },
    }


def _waiting(job_id: str, status: JobStatus) -> list[dict[str, Any]]:
    """Nodes that are not on a machine yet; of a job that says why it waits, that is said with each."""
    why = status.waiting.message[:MAX_TEXT] if status.waiting is not None else ""
    found = [
        {
            "id": job_id,
            "job": status.name,
            "node": node.name,
            "since": round(node.created_at, 1),
            "asked": {"cpu": node.cpu_limit, "memory_mb": node.memory_limit_mb, "gpu": node.gpu},
            "reason": node.message[:MAX_TEXT] or why,
        }
        for node in status.live_nodes
        if node.state is NodeState.PENDING
    ]
    if not found and why:
        found.append({"id": job_id, "job": status.name, "node": "", "since": 0.0, "asked": {}, "reason": why})
    return found


def _amounts(found: Amounts) -> dict[str, float]:
    return {"cpu": round(found.cpu, 2), "memory_mb": round(found.memory_mb), "gpu": found.gpu}
