"""What the operator tells of a job in its status.

The master tells phase ``Running``, progress and how the job ended. The operator tells the phase while no master speaks, and
the conditions always: ``SpecValid``, ``MasterReady``, ``Suspended``, and at the end ``Complete`` or ``Failed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.operator.seen import (
    NOT_READY,
    READY,
    Seen,
    condition,
    container,
    is_deleting,
    is_over,
    is_ready,
    last_end,
    rfc3339,
)
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import master_name, worker_selector
from pliant.platforms.kubernetes.plans import ENDED, ratio, status_of

LONGEST_MESSAGE = 1000  # characters
OWN_PHASES = frozenset({"", "Pending", "Invalid", "Creating", "Suspending", "Suspended"})


@dataclass(frozen=True, slots=True)
class Why:
    """One word and a sentence."""

    reason: str
    message: str = ""


def master_state(pod: Object | None) -> Why:
    """Why the master does not serve, or ``Ready``."""
    if pod is None:
        return Why("NoPod", "the master's Pod is not there")
    if is_ready(pod):
        return Why("Ready")
    if is_deleting(pod):
        return Why("Ending", "the master's Pod is being removed")
    status, state = pod.get("status") or {}, container(pod)
    if is_over(pod):
        end = last_end(pod)
        how = status.get("reason") or end.get("reason") or "unknown reason"
        told = status.get("message") or end.get("message") or ""
        return Why("Ended", _text(f"the master's Pod ended ({how}, exit code {end.get('exitCode')})", told))
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == NOT_READY:
        return Why(
            scheduled.get("reason") or "Unschedulable", _text("no room for the master", scheduled.get("message"))
        )
    waiting = (state.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        end = last_end(pod)
        told = end.get("message") or waiting.get("message")
        code = f", exit code {end['exitCode']}" if "exitCode" in end else ""
        return Why(waiting["reason"], _text(f"the master does not start ({waiting['reason']}{code})", told))
    return Why("Starting", "the master starts")


def _text(first: str, more: str | None) -> str:
    return (f"{first}: {more.strip()}" if more else first)[:LONGEST_MESSAGE]


def phase_of(seen: Seen, spec_problem: str, *, nodes_left: bool) -> Why:
    """The phase that the operator sees, with why; an empty one: it is the master's to say."""
    if seen.ended:
        return Why("")
    if seen.suspended:
        if nodes_left:
            return Why("Suspending", "waiting for the nodes to end")
        return Why("Suspended", "spec.suspend is true")
    state = master_state(seen.master)
    if state.reason == "Ready":
        return Why("Running") if seen.phase in OWN_PHASES else Why("")
    if seen.phase not in OWN_PHASES:
        return Why("")  # it was running: its nodes go on while the master is away, see condition MasterReady
    if spec_problem and seen.master is None:
        return Why("Invalid", spec_problem[:LONGEST_MESSAGE])
    return Why("Creating", state.message)


def conditions_of(seen: Seen, spec_problem: str, phase: str, message: str, now: float) -> list[Object]:
    """All of them, with the times of those that did not change."""
    state = Why("JobEnded", "the job has ended") if phase in ENDED else master_state(seen.master)
    if seen.suspended and state.reason == "NoPod":
        state = Why("Suspended", "the job is suspended")
    found = [
        _condition("SpecValid", not spec_problem, Why("Invalid", spec_problem) if spec_problem else Why("Valid")),
        _condition("MasterReady", state.reason == "Ready", state),
        _condition("Suspended", phase == "Suspended", Why("Suspended" if seen.suspended else "NotSuspended")),
    ]
    if phase == "Succeeded":
        found.append(_condition("Complete", True, Why("Succeeded", message)))
    elif phase in ENDED:
        found.append(_condition("Failed", True, Why(_failure(seen) or phase, message)))
    before = {entry["type"]: entry for entry in status_of(seen.job or {}).get("conditions") or ()}
    for entry in found:
        old = before.get(entry["type"], {})
        same = old.get("status") == entry["status"] and old.get("lastTransitionTime")
        entry["lastTransitionTime"] = old["lastTransitionTime"] if same else rfc3339(now)
    return found


def _failure(seen: Seen) -> str:
    """The reason that was given for the failure before, so that it stays."""
    return str(condition(seen.job or {}, "Failed").get("reason") or "")


def _condition(kind: str, holds: bool, why: Why) -> Object:
    found = {"type": kind, "status": READY if holds else NOT_READY, "reason": why.reason}
    return {**found, "message": why.message[:LONGEST_MESSAGE]} if why.message else found


def status_patch(
    seen: Seen, spec_problem: str, *, nodes_left: bool, now: float, failure: Why | None = None
) -> dict[str, Any]:
    """What differs from the status that is there; empty: nothing does. ``failure``: the job ends so."""
    assert seen.job is not None
    before = status_of(seen.job)
    phase = Why("Failed", failure.message) if failure else phase_of(seen, spec_problem, nodes_left=nodes_left)
    told_phase = phase.reason or str(before.get("phase") or "")
    message = phase.message if phase.reason else str(before.get("message") or "")
    conditions = conditions_of(seen, spec_problem, told_phase, message, now)
    if failure:
        conditions[-1]["reason"] = failure.reason
    wished: dict[str, Any] = {"conditions": conditions, "selector": worker_selector(seen.name)}
    if phase.reason:
        wished |= {"phase": phase.reason, "message": phase.message or None}
    if told_phase not in ENDED:
        wished["observed_generation"] = seen.job["metadata"].get("generation")
        wished["master"] = {"pod": master_name(seen.name), "ready": is_ready(seen.master) if seen.master else False}
    if told_phase in ("Suspended", "Creating") and seen.master is None:
        wished |= {"replicas": 0, **_counts(seen.job)}
    if told_phase == "Suspended" and not before.get("suspended"):
        wished["suspended"] = rfc3339(now)
    if told_phase != "Suspended" and before.get("suspended"):
        wished["suspended"] = None
    if told_phase in ENDED and not before.get("finished"):
        wished["finished"] = rfc3339(now)
    return _difference(wished, before)


def _counts(job: Object) -> dict[str, str]:
    wanted = {
        name: (role.get("replicas") or {}).get("wanted") for name, role in (job["spec"].get("roles") or {}).items()
    }
    told = {"worker": "workers", "ps": "ps"}
    return {told[name]: ratio(0, count) for name, count in wanted.items() if name in told and count is not None}


def _difference(wished: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    differing = {}
    for key, value in wished.items():
        if isinstance(value, Mapping):
            inner = _difference(value, before.get(key) or {})
            if inner:
                differing[key] = inner
        elif value != before.get(key):
            differing[key] = value
    return differing
