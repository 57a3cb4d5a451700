"""What a person may change from the page, if the dashboard was started with ``--allow-control``: scale a role, stop the job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from pliant.core.errors import InvalidRequest, MasterUnavailable
from pliant.dashboard.threads import DaemonThreads
from pliant.handles.job_handle import JobHandle, RoleChange

MAX_REPLICAS = 1_000_000
STOP_DEADLINE_S = 60.0
ASKED_S = 1.0  # a request that was not refused by then is under way


def scale(handle: JobHandle, body: Mapping[str, Any], user: str) -> dict[str, int]:
    role, replicas = body.get("role", "worker"), body.get("replicas")
    if not isinstance(role, str) or not 0 < len(role) <= 200:
        raise InvalidRequest("role must be the name of a role")
    if type(replicas) is not int or not 0 <= replicas <= MAX_REPLICAS:
        raise InvalidRequest(f"replicas must be a number from 0 to {MAX_REPLICAS:,}")
    (changed,) = handle.scale([RoleChange(role, replicas)], _reason("scaled", user))
    return {"before": changed.before, "now": changed.now}


async def stop(threads: DaemonThreads, handle: JobHandle, body: Mapping[str, Any], user: str) -> None:
    """Returns when the job was asked to stop, which may take it a while."""
    at_once = body.get("now", False)
    if not isinstance(at_once, bool):
        raise InvalidRequest("now must be true or false")

    def work() -> None:
        try:
            deadline = time.monotonic() + STOP_DEADLINE_S
            handle.stop(now=at_once, reason=_reason("stopped", user), deadline=deadline)
        except MasterUnavailable:
            if time.monotonic() < deadline:
                raise  # else it was asked, and is still on its way

    task = asyncio.ensure_future(threads.run(work))
    done, _ = await asyncio.wait({task}, timeout=ASKED_S)
    if done:
        task.result()
    else:
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def _reason(what: str, user: str) -> str:
    return f"{what} on the dashboard by {user}" if user else f"{what} on the dashboard"
