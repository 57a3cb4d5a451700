"""All documents of one job at one moment, as the report embeds them: the same that the server sends."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from pliant import __version__
from pliant.core.errors import NotAvailable, PliantError
from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus
from pliant.dashboard.documents.data import data_document
from pliant.dashboard.documents.decisions import decisions_document
from pliant.dashboard.documents.history import EventHistory
from pliant.dashboard.documents.job import job_document
from pliant.dashboard.documents.logs import log_document
from pliant.dashboard.documents.nodes import NodesDocument
from pliant.dashboard.documents.series import series_document
from pliant.dashboard.documents.servers import ServersDocument
from pliant.dashboard.documents.spec import spec_document
from pliant.handles.job_handle import JobHandle

MAX_EVENTS = 20_000  # the newest
MAX_LOGS = 40  # nodes whose output is in the report
PAGE = 2000


def collect(handle: JobHandle, log_lines: int) -> dict[str, Any]:
    """What cannot be read is left out, and its document says why."""
    view = handle.view()
    status, history = view.status, EventHistory()
    events: list[dict[str, Any]] = []
    with contextlib.suppress(PliantError):  # of a journal that is corrupt: those before that
        while found := handle.events(history.last, PAGE):
            history.add(found)
            events = [*events, *(record.to_json() for record in found)][-MAX_EVENTS:]
            if len(found) < PAGE:
                break
    documents = {
        "job": job_document(handle.name, view, history.restarts, handle.created_at()),
        "nodes": NodesDocument().make(status, history, is_over=view.is_over),
        "data": _data(handle, status),
        "servers": ServersDocument().make(status, history),
        "decisions": _decisions(handle, history),
        "series": _series(handle),
        "events": {"events": events, "after": history.last, "more": False},
        "spec": _spec(handle),
        "logs": _logs(handle, status, log_lines) if log_lines else {},
    }
    now = time.time()
    return {
        "mode": "report",
        "version": __version__,
        "generated_at": now,
        "job": handle.name,
        "config": {
            "version": __version__,
            "now": now,
            "where": handle.where,
            "platform": handle.platform,
            "job": handle.name,
            "allow_control": False,
        },
        "documents": documents,
    }


def _spec(handle: JobHandle) -> dict[str, Any]:
    try:
        return spec_document(handle.written_spec())
    except PliantError as error:
        return {"yaml": f"# {error.message}\n", "redacted": [], "cut": False}


def _data(handle: JobHandle, status: JobStatus) -> dict[str, Any]:
    try:
        return data_document(status, handle.shard_maps())
    except PliantError as error:
        return data_document(status, None, error.message)


def _decisions(handle: JobHandle, history: EventHistory) -> dict[str, Any]:
    try:
        return decisions_document(handle.plans(), handle.explain(), history)
    except PliantError as error:
        return decisions_document(None, None, history, error.message)


def _series(handle: JobHandle) -> dict[str, Any]:
    try:
        return series_document(handle.series())
    except PliantError as error:
        return {"available": False, "note": error.message}


def _logs(handle: JobHandle, status: JobStatus, lines: int) -> dict[str, Any]:
    """Of nodes that failed, and of the first ones; the names of all are there."""
    try:
        nodes = handle.nodes_with_output()
    except PliantError:
        return {}
    failed = [node.name for node in status.nodes if node.state is NodeState.FAILED]
    first = [status.first_failure.node] if status.first_failure is not None else []
    chosen = list(dict.fromkeys(node for node in (*first, *failed, *nodes) if node in nodes))[:MAX_LOGS]
    found = {}
    for node in sorted(chosen, key=nodes.index):
        try:
            found[node] = log_document(handle.log_page(node, lines=lines), chosen)
        except (PliantError, NotAvailable):
            continue
    return found
