"""What a Pod's status says of its node: that it is there, that there is no room for it, or how it ended. Pure.

The agent reports most ends itself, to the master and as its last words in the container's termination message; this is for what
it cannot tell: a Pod that was evicted, preempted, deleted or killed, whose machine is lost, or whose image cannot be
fetched. The order of the rules matters: memory first, since it looks like any other SIGKILL; then what was done to the
Pod, under which a program may fail in any way; then what the program did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pliant.core.nodes.fault_policy import ExitReason
from pliant.platforms.base import NodeEvent
from pliant.platforms.kubernetes.names import CONTAINER, node_of
from pliant.platforms.kubernetes.timestamps import seconds_of

MAX_CREATION_RETRY_S = (
    30.0  # seconds for a container that cannot be made to become one that can: registries have hiccups
)
SIGKILLED, SIGTERMED = 137, 143
CANNOT_START = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"),
        *("RegistryUnavailable", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    }
)
# Reasons of a failed Pod that say nothing about its program: the machine went, or was needed for others.
TAKEN_AWAY = frozenset(
    {
        *("Evicted", "Preempting", "Preempted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated"),
        *("NodeAffinity", "OutOfcpu", "OutOfmemory", "OutOfpods", "UnexpectedAdmissionError"),
    }
)
LONGEST = 1500  # characters of a message
TAIL_LINES = 20


@dataclass(frozen=True, slots=True)
class PodState:
    """``event`` is what to tell; ``again_in``: seconds after which the same status means more; None: it does not."""

    event: NodeEvent
    again_in: float | None = None
    left_behind: bool = False  # the node ended, and its Pod still takes up room


def pod_state(pod: Mapping[str, Any], *, now: float, gone: bool = False) -> PodState:
    """``gone``: the Pod was deleted, and this is its last status. ``now``: seconds since the epoch."""
    status = pod.get("status") or {}
    base = NodeEvent(node_of(pod), True, host=(pod.get("spec") or {}).get("nodeName") or "")
    phase = status.get("phase", "Pending")
    main = _main(status)
    ended = (main.get("state") or {}).get("terminated")
    reason, words = status.get("reason") or "", status.get("message") or ""
    if ended or phase in ("Failed", "Succeeded") or reason == "NodeLost" or gone:
        kind, message = _end(pod, phase, ended or {}, reason, words, gone)
        over = phase in ("Failed", "Succeeded") or gone
        return PodState(replace(base, alive=False, exit_reason=kind, message=message[:LONGEST]), left_behind=not over)
    waiting = (main.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") in CANNOT_START:
        why = f"{waiting['reason']}: {waiting.get('message') or 'its container cannot be created'}"
        left = MAX_CREATION_RETRY_S - (
            now - seconds_of(status.get("startTime") or pod["metadata"].get("creationTimestamp"), now)
        )
        if left > 0:
            return PodState(replace(base, message=why[:LONGEST]), again_in=left)
        return PodState(
            replace(base, alive=False, exit_reason=ExitReason.ERROR, message=why[:LONGEST]), left_behind=True
        )
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            why = condition.get("message") or condition.get("reason") or "unschedulable"
            return PodState(replace(base, unschedulable=why[:LONGEST]))
    return PodState(base)


def _main(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of the node's own container; of a failed init container where that is why it never began."""
    for container in status.get("initContainerStatuses") or []:
        state = container.get("state") or {}
        failed = (state.get("terminated") or {}).get("exitCode", 0) != 0
        if failed or (state.get("waiting") or {}).get("reason") in CANNOT_START:
            return dict(container)
    found = [c for c in status.get("containerStatuses") or [] if c.get("name") == CONTAINER]
    return found[0] if found else {}


def _end(
    pod: Mapping[str, Any], phase: str, ended: Mapping[str, Any], reason: str, words: str, gone: bool
) -> tuple[ExitReason, str]:
    code, why, said = ended.get("exitCode"), ended.get("reason") or "", ended.get("message") or ""
    deleted = gone or bool(pod["metadata"].get("deletionTimestamp"))
    if why == "OOMKilled":
        return ExitReason.OOM, "out of memory: the kernel killed its container"
    if reason == "Evicted" and "memory" in words and "exceeds its request" in words:
        return ExitReason.OOM, f"evicted, the node ran out of memory: {words}"
    if reason == "Evicted" and "exceed" in words and ("storage" in words or "EmptyDir" in words):
        return ExitReason.ERROR, f"evicted: {words}"
    if (reported := _last_words(said)) is not None:
        return reported
    if reason in TAKEN_AWAY or why == "ContainerStatusUnknown":
        return ExitReason.PREEMPTED, f"{reason or why}: {words or said or 'removed by its node'}"
    if disruption := _disruption(pod):
        return ExitReason.PREEMPTED, disruption
    if code == 0 or (code is None and phase == "Succeeded"):
        return ExitReason.COMPLETED, "finished"
    if deleted and code in (None, SIGKILLED, SIGTERMED):
        return ExitReason.PREEMPTED, "its Pod was deleted"
    if code == SIGTERMED:
        return ExitReason.PREEMPTED, "its agent was terminated (SIGTERM)"
    if code == SIGKILLED:
        return ExitReason.KILLED, "its agent was killed by SIGKILL"
    if code is not None:
        tail = "\n".join(said.strip().splitlines()[-TAIL_LINES:])
        how = f"exit code {code}" + (f" ({why})" if why not in ("", "Error") else "")
        return ExitReason.ERROR, f"{how}: {tail}" if tail else how
    if reason == "DeadlineExceeded":
        return ExitReason.ERROR, f"{reason}: {words}"
    return ExitReason.UNKNOWN, f"{reason}: {words}" if reason else "its Pod failed for an unknown reason"


def _last_words(said: str) -> tuple[ExitReason, str] | None:
    """What its agent left as a termination message; None: it left none."""
    try:
        value = json.loads(said)
        return ExitReason(value["exit_reason"]), str(value["message"])
    except (ValueError, KeyError, TypeError):
        return None


def _disruption(pod: Mapping[str, Any]) -> str:
    """Clusters of today say by a condition that a Pod goes for another's sake."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return (
                f"{condition.get('reason') or 'disrupted'}: {condition.get('message') or 'its Pod is being disrupted'}"
            )
    return ""
