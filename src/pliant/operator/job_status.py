"""What the operator writes into the status of an ElasticJob.

The master reports phase ``Running``, progress and how the job ended (``platforms/kubernetes/elastic_job_status.py``). The
operator reports the phase while there is no master, and always the conditions: ``SpecValid``, ``MasterReady``, ``Suspended``,
``JournalDurable`` (what the loss of the master's machine would cost), ``JournalLost`` once that has happened,
``WaitingForNodes`` once the master said that the job waits, ``CheckpointsFailing`` once one could not be written, and at the end
``Complete`` or ``Failed``; and the sizes of the cluster's machines, which a master may not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.core.job import FINAL_PHASES, Phase
from pliant.core.status import CHECKPOINTS_FAILING, WAITING
from pliant.core.takeover import JOURNAL_LOST, RecoveryOutcome
from pliant.operator.observed import (
    NOT_READY,
    READY,
    ObservedJob,
    StatusReason,
    condition,
    container,
    is_deleting,
    is_over,
    is_ready,
    last_termination,
)
from pliant.platforms.kubernetes.elastic_job_status import ratio
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import master_name, worker_selector
from pliant.platforms.kubernetes.plans import status_of
from pliant.platforms.kubernetes.timestamps import rfc3339, seconds_of

MAX_MESSAGE_CHARS = 1000
JOURNAL_DURABLE = "JournalDurable"  # the condition
OWN_PHASES = frozenset(  # of a job that has not run yet, or does not now
    {"", Phase.PENDING, Phase.INVALID, Phase.CREATING, Phase.SUSPENDING, Phase.SUSPENDED}
)


@dataclass(frozen=True, slots=True)
class JournalState:
    """Whether the journal outlives the master's Pod, and what follows from that."""

    is_durable: bool
    why: StatusReason


def master_state(pod: Object | None) -> StatusReason:
    """StatusReason the master does not serve, or ``Ready``."""
    if pod is None:
        return StatusReason("NoPod", "the master's Pod does not exist")
    if is_ready(pod):
        return StatusReason("Ready")
    if is_deleting(pod):
        return StatusReason("Ending", "the master's Pod is terminating")
    status, state = pod.get("status") or {}, container(pod)
    if is_over(pod):
        end = last_termination(pod)
        how = status.get("reason") or end.get("reason") or "unknown reason"
        detail = status.get("message") or end.get("message") or ""
        return StatusReason("Ended", _text(f"the master's Pod ended ({how}, exit code {end.get('exitCode')})", detail))
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == NOT_READY:
        return StatusReason(
            scheduled.get("reason") or "Unschedulable", _text("the master is unschedulable", scheduled.get("message"))
        )
    waiting = (state.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        end = last_termination(pod)
        detail = end.get("message") or waiting.get("message")
        code = f", exit code {end['exitCode']}" if "exitCode" in end else ""
        return StatusReason(waiting["reason"], _text(f"the master cannot start ({waiting['reason']}{code})", detail))
    return StatusReason("Starting", "the master is starting")


def _text(first: str, more: str | None) -> str:
    return (f"{first}: {more.strip()}" if more else first)[:MAX_MESSAGE_CHARS]


def phase_of(observed: ObservedJob, spec_problem: str, *, nodes_left: bool) -> StatusReason:
    """The phase by what the operator observes, with its message; an empty one: the master reports it."""
    if observed.ended:
        return StatusReason("")
    if observed.suspended:
        if nodes_left:
            return StatusReason(Phase.SUSPENDING, "waiting for the nodes to end")
        return StatusReason(Phase.SUSPENDED, "spec.suspend is true")
    state = master_state(observed.master)
    if state.reason == "Ready":
        return StatusReason(Phase.RUNNING) if observed.phase in OWN_PHASES else StatusReason("")
    if observed.phase not in OWN_PHASES:
        return StatusReason("")  # it was running: its nodes go on while the master is away, see condition MasterReady
    if spec_problem and observed.master is None:
        return StatusReason(Phase.INVALID, spec_problem[:MAX_MESSAGE_CHARS])
    return StatusReason(Phase.CREATING, state.message)


def conditions_of(
    observed: ObservedJob,
    spec_problem: str,
    phase: str,
    message: str,
    now: float,
    *,
    journal: JournalState | None = None,
    recovery: Mapping[str, Any] | None = None,
) -> list[Object]:
    """All conditions; those that did not change keep their times."""
    state = StatusReason("JobEnded", "the job has ended") if phase in FINAL_PHASES else master_state(observed.master)
    if observed.suspended and state.reason == "NoPod":
        state = StatusReason("Suspended", "the job is suspended")
    found = [
        _condition(
            "SpecValid",
            not spec_problem,
            StatusReason("Invalid", spec_problem) if spec_problem else StatusReason("Valid"),
        ),
        _condition("MasterReady", state.reason == "Ready", state),
        _condition(
            "Suspended", phase == Phase.SUSPENDED, StatusReason("Suspended" if observed.suspended else "NotSuspended")
        ),
    ]
    before = {entry["type"]: entry for entry in status_of(observed.job or {}).get("conditions") or ()}
    waiting = _waiting(observed) if phase not in FINAL_PHASES else None
    if waiting is not None or WAITING in before:
        found.append(_condition(WAITING, waiting is not None, waiting or StatusReason("NotWaiting")))
    if journal is not None:
        found.append(_condition(JOURNAL_DURABLE, journal.is_durable, journal.why))
    elif JOURNAL_DURABLE in before:  # as it was: the job has ended, or its spec cannot be read
        found.append(dict(before[JOURNAL_DURABLE]))
    if recovery and recovery.get("outcome"):
        found.append(
            _condition(JOURNAL_LOST, True, StatusReason(recovery["outcome"], str(recovery.get("message") or "")))
        )
    if (failing := _failing_checkpoints(observed)) or CHECKPOINTS_FAILING in before:
        found.append(_condition(CHECKPOINTS_FAILING, bool(failing), failing or StatusReason("Written")))
    if phase == Phase.SUCCEEDED:
        found.append(_condition("Complete", True, StatusReason("Succeeded", message)))
    elif phase in FINAL_PHASES:
        found.append(_condition("Failed", True, StatusReason(_failure(observed) or phase, message)))
    for entry in found:
        old = before.get(entry["type"], {})
        same = old.get("status") == entry["status"] and old.get("lastTransitionTime")
        entry["lastTransitionTime"] = old["lastTransitionTime"] if same else rfc3339(now)
        if entry["type"] == JOURNAL_LOST:  # it may be lost again
            entry["lastTransitionTime"] = (recovery or {}).get("time") or entry["lastTransitionTime"]
    return found


def _waiting(observed: ObservedJob) -> StatusReason | None:
    """What its master says that the job waits for; None: it does not."""
    said = status_of(observed.job or {}).get("waiting") or {}
    return StatusReason(str(said["reason"]), str(said.get("message") or "")) if said.get("reason") else None


def _failing_checkpoints(observed: ObservedJob) -> StatusReason | None:
    """What its master says of checkpoints that cannot be written; None: they are, or there are none."""
    for found in status_of(observed.job or {}).get("checkpoints") or ():
        if found.get("failures_in_a_row"):
            where = f"checkpoints cannot be written to {found.get('directory')}"
            return StatusReason("CannotWrite", _text(where, found.get("message")))
    return None


def _failure(observed: ObservedJob) -> str:
    """The reason that the failure was reported with, so that it stays."""
    return str(condition(observed.job or {}, "Failed").get("reason") or "")


def _condition(kind: str, holds: bool, why: StatusReason) -> Object:
    found = {"type": kind, "status": READY if holds else NOT_READY, "reason": why.reason}
    return {**found, "message": why.message[:MAX_MESSAGE_CHARS]} if why.message else found


def status_patch(
    observed: ObservedJob,
    spec_problem: str,
    *,
    nodes_left: bool,
    now: float,
    failure: StatusReason | None = None,
    machines: list[Object] | None = None,
    journal: JournalState | None = None,
    started_over: str = "",
) -> dict[str, Any]:
    """What differs from the present status; empty: nothing does. ``failure``: the job fails for this reason. ``machines``: sizes of
    those that its nodes may run on, if they are known. ``started_over``: it starts over now, for this reason."""
    assert observed.job is not None
    before = status_of(observed.job)
    decided = phase_of(observed, spec_problem, nodes_left=nodes_left)
    if failure:
        decided = StatusReason(Phase.FAILED, failure.message)
    phase = decided.reason or str(before.get("phase") or "")
    message = decided.message if decided.reason else str(before.get("message") or "")
    recovery = before.get("recovery")
    if started_over and (not recovery or not _starts_over_already(observed, recovery)):
        outcome = RecoveryOutcome.STARTED_OVER.value
        recovery = {"outcome": outcome, "message": started_over[:MAX_MESSAGE_CHARS], "time": rfc3339(now)}
    conditions = conditions_of(observed, spec_problem, phase, message, now, journal=journal, recovery=recovery)
    if failure:
        conditions[-1]["reason"] = failure.reason
    desired: dict[str, Any] = {"conditions": conditions, "selector": worker_selector(observed.name)}
    if machines is not None:
        desired["machines"] = machines
    if recovery and recovery is not before.get("recovery"):
        desired["recovery"] = recovery
    if decided.reason:
        desired |= {"phase": decided.reason, "message": decided.message or None}
    if phase not in FINAL_PHASES:
        desired["observed_generation"] = observed.job["metadata"].get("generation")
        desired["master"] = {
            "pod": master_name(observed.name),
            "ready": is_ready(observed.master) if observed.master else False,
        }
    if phase in (Phase.SUSPENDED, Phase.CREATING) and observed.master is None:
        desired |= {"replicas": 0, **_counts(observed.job)}
    if phase == Phase.SUSPENDED and not before.get("suspended"):
        desired["suspended"] = rfc3339(now)
    if phase != Phase.SUSPENDED and before.get("suspended"):
        desired["suspended"] = None
    if phase in FINAL_PHASES and not before.get("finished"):
        desired["finished"] = rfc3339(now)
    return _difference(desired, before)


def _starts_over_already(observed: ObservedJob, recovery: Mapping[str, Any]) -> bool:
    """Whether that is written already: of these nodes and plans, none is younger than it."""
    since = seconds_of(recovery.get("time"))
    left = (*observed.nodes, *observed.master_plans)
    is_older = all(seconds_of(item["metadata"].get("creationTimestamp")) <= since for item in left)
    return recovery.get("outcome") == RecoveryOutcome.STARTED_OVER and is_older


def _counts(job: Object) -> dict[str, str]:
    wanted = {
        name: (role.get("replicas") or {}).get("wanted") for name, role in (job["spec"].get("roles") or {}).items()
    }
    columns = {"worker": "workers", "ps": "ps"}
    return {columns[name]: ratio(0, count) for name, count in wanted.items() if name in columns and count is not None}


def _difference(desired: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    differing = {}
    for key, value in desired.items():
        if isinstance(value, Mapping):
            inner = _difference(value, before.get(key) or {})
            if inner:
                differing[key] = inner
        elif value != before.get(key):
            differing[key] = value
    return differing
