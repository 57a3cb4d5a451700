"""Why an actor is dead, in our words: from the cause that Ray's control store keeps of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pliant.core.nodes.fault_policy import ExitReason

NEAR = 0.8  # of what it asked for
MAX_TEXT = 300  # characters of Ray's own words


@dataclass(frozen=True, slots=True)
class DeathCause:
    """``reason``: as Ray names it: WORKER_DIED, NODE_DIED, RAY_KILL, OOM, CREATION_FAILED, RUNTIME_ENV, OUT_OF_SCOPE, …"""

    reason: str
    text: str = ""
    is_preempted: bool = False


def took_the_memory(used_mb: float, asked_mb: int, others_mb: Iterable[float]) -> bool:
    """Whether a node is to blame that its machine ran out of memory. Ray's memory monitor kills the newest actors of a machine,
    whoever took it. ``others_mb``: what other nodes of the job on that machine used; what nobody measured is 0."""
    if asked_mb:
        return used_mb >= NEAR * asked_mb
    return used_mb >= max(others_mb, default=0.0)


def classify(cause: DeathCause, *, was_asked: bool, took_memory: bool) -> tuple[ExitReason, str]:
    """``was_asked``: we removed it. ``took_memory``: see above."""
    text = " ".join(cause.text.split())[:MAX_TEXT]
    if cause.reason == "NODE_DIED" or cause.is_preempted:
        return ExitReason.PREEMPTED, f"its machine left the Ray cluster: {text}" if text else "its machine is gone"
    if cause.reason == "OOM":
        if took_memory:
            return ExitReason.OOM, f"killed by Ray's memory monitor: {text}"
        return ExitReason.PREEMPTED, f"killed by Ray's memory monitor for the memory of another: {text}"
    if cause.reason in ("CREATION_FAILED", "RUNTIME_ENV"):
        return ExitReason.ERROR, f"Ray could not start it: {text}"
    if was_asked:
        return ExitReason.PREEMPTED, "it was removed"
    if cause.reason == "RAY_KILL":
        return ExitReason.KILLED, "its actor was killed by a call of Ray"
    return ExitReason.KILLED, "its actor's process was killed"
