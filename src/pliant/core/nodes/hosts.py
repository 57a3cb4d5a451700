"""Machines on which nodes of a job keep failing, so that its next nodes are started elsewhere.

A machine is avoided for a while after ``MIN_FAILURES`` ends within ``WINDOW_S`` that may be its fault. Ends that say nothing about
the machine (preempted, out of memory, completed) do not count. A machine is avoided only while a node of the job runs on
another one that is not avoided: a program that fails everywhere must not be left without machines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pliant.core.nodes.fault_policy import ExitReason

MIN_FAILURES = 2
WINDOW_S = 600.0
MAX_FAILURES_KEPT = 100
BLAMED = frozenset({ExitReason.ERROR, ExitReason.KILLED, ExitReason.HANG, ExitReason.UNKNOWN})


class HostRecord:
    def __init__(self) -> None:
        self._failures: list[tuple[float, str]] = []  # when, on which machine

    def failed(self, now: float, host: str, kind: ExitReason) -> None:
        if host and kind in BLAMED:
            self._failures = [*self._failures, (now, host)][-MAX_FAILURES_KEPT:]

    def avoided(self, now: float, in_use: Collection[str]) -> tuple[str, ...]:
        """``in_use``: machines on which nodes of the job run now."""
        counts: dict[str, int] = {}
        for at, host in self._failures:
            if now - at <= WINDOW_S:
                counts[host] = counts.get(host, 0) + 1
        bad = {host for host, count in counts.items() if count >= MIN_FAILURES}
        return tuple(sorted(bad)) if any(host not in bad for host in in_use if host) else ()

    def snapshot(self) -> list[list[Any]]:
        return [[at, host] for at, host in self._failures]

    def restore(self, state: Collection[Any]) -> None:
        self._failures = [(float(at), str(host)) for at, host in state]


def hosts_of(nodes: Mapping[str, Any]) -> set[str]:
    return {node.host for node in nodes.values() if node.host and node.is_active and node.started_at is not None}
