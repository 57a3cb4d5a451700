"""A job larger than one machine can run, as the dashboard's documents: real events, folded by real code, of nodes that never were.

    documents = large_job(nodes=1000, events=10_000)

For tests and measurements of the page (``pliant.dashboard``); the same arguments give the same job.
"""

from __future__ import annotations

import random
from itertools import count
from typing import Any

from pliant.core.events import (
    Event,
    EventRecord,
    MasterStarted,
    NodeEnded,
    NodeLaunched,
    NodeRunning,
    ProgramExited,
    ProgramRestarted,
)
from pliant.core.job import Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus, NodeStatus, RoleStatus
from pliant.core.status_json import status_to_json
from pliant.dashboard.documents.history import EventHistory
from pliant.dashboard.documents.nodes import NodesDocument

STARTED_AT = 1_700_000_000.0
SECONDS = 6 * 3600.0
REASONS = (ExitReason.KILLED, ExitReason.PREEMPTED, ExitReason.OOM, ExitReason.ERROR, ExitReason.HANG)
JOB = "large"


def large_job(nodes: int, events: int, seed: int = 1) -> dict[str, Any]:
    """What ``pliant report`` embeds, of a job with this many workers and events that still runs."""
    records = _records(nodes, events, random.Random(seed))
    history = EventHistory()
    history.add(records)
    now = STARTED_AT + SECONDS
    status = _status(nodes, history, random.Random(seed), now)
    job = {name: value for name, value in status_to_json(status).items() if name != "nodes"}
    workers = {"now": nodes, "wanted": nodes, "min": 1, "max": nodes}
    documents = {
        "job": {**job, "id": JOB, "platform": "local", "restarts": history.restarts.to_json(), "workers": workers},
        "nodes": NodesDocument().make(status, history, is_over=False),
        "data": {"available": True, "note": "", "datasets": {}, "left_out": 0},
        "servers": {"parameters": None, "moves": []},
        "decisions": {"optimize": "manual", "planner": None, "note": "", "plans": {}, "requests": []},
        "events": {"events": [record.to_json() for record in records], "after": len(records), "more": False},
        "spec": {"yaml": "name: large\n", "redacted": [], "cut": False},
        "series": {"available": False},
        "logs": {},
    }
    config = {"version": "0", "now": now, "where": "nowhere", "platform": "local", "job": JOB, "allow_control": False}
    return {"mode": "report", "version": "0", "generated_at": now, "job": JOB, "config": config, "documents": documents}


def _records(nodes: int, events: int, chance: random.Random) -> list[EventRecord]:
    names = [f"worker-{number}" for number in range(nodes)]
    next_number = count(nodes)
    found: list[Event] = [MasterStarted(start=1)]
    found += [NodeLaunched(node=name, reason="job start") for name in names]
    found += [NodeRunning(node=name, host=f"host-{index % 100}") for index, name in enumerate(names)]
    runs = dict.fromkeys(names, 0)
    while len(found) < events:
        index, reason = chance.randrange(nodes), chance.choice(REASONS)
        node, message = names[index], f"exit code {chance.randrange(1, 120)}"
        if chance.random() < 0.5:
            runs[node] += 1
            found += [
                ProgramExited(node=node, incarnation=runs[node] - 1, exit_reason=reason, message=message),
                ProgramRestarted(node=node, incarnation=runs[node], delay_s=1.0, reason=f"{reason} 1 of 100"),
            ]
        else:
            names[index] = f"worker-{next(next_number)}"
            runs[names[index]] = 0
            found += [
                NodeEnded(node=node, exit_reason=reason, message=message),
                NodeLaunched(node=names[index], reason=f"replaces {node}", replaces=node),
                NodeRunning(node=names[index], host=f"host-{index % 100}"),
            ]
    step = SECONDS / events
    return [EventRecord(number, STARTED_AT + number * step, event) for number, event in enumerate(found[:events], 1)]


def _status(nodes: int, history: EventHistory, chance: random.Random, now: float) -> JobStatus:
    running = tuple(
        NodeStatus(
            line.nodes[-1],
            "worker",
            NodeState.RUNNING,
            pid=1000 + index,
            agent_pid=900 + index,
            host=f"host-{index % 100}",
            cpu=chance.uniform(0, 4),
            cpu_limit=4.0,
            memory_mb=chance.uniform(500, 8000),
            memory_limit_mb=8192.0,
            created_at=STARTED_AT,
        )
        for index, line in enumerate(history.lines.values())
    )
    role = RoleStatus("worker", 1, nodes, nodes, ready=nodes, cpu=4.0, memory_mb=8192.0)
    return JobStatus(JOB, Phase.RUNNING, started_at=STARTED_AT, time=now, roles=(role,), nodes=running, master_starts=1)
