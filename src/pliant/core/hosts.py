"""Machines on which nodes of a job keep failing, so that its next nodes are started elsewhere.

A machine is avoided for a while after ``FAILURES`` ends within ``WINDOW`` that may be its fault. Ends that say nothing about
the machine (preempted, out of memory, completed) do not count. And a machine is avoided only while a node of the job runs
on another one that is not: a program that fails everywhere is no reason to run nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pliant.core.relaunch import ExitReason

FAILURES = 2
WINDOW = 600.0  # seconds
KEPT = 100  # failures that are remembered
BLAMED = frozenset({ExitReason.ERROR, ExitReason.KILLED, ExitReason.HANG, ExitReason.UNKNOWN})


class HostRecord:
    def __init__(self) -> None:
        self._failures: list[tuple[float, str]] = []  # when, on which machine

    def failed(self, now: float, host: str, kind: ExitReason) -> None:
        if host and kind in BLAMED:
            self._failures = [*self._failures, (now, host)][-KEPT:]

    def avoided(self, now: float, in_use: Collection[str]) -> tuple[str, ...]:
        """``in_use``: machines on which nodes of the job run now."""
        counts: dict[str, int] = {}
        for at, host in self._failures:
            if now - at <= WINDOW:
                counts[host] = counts.get(host, 0) + 1
        bad = {host for host, count in counts.items() if count >= FAILURES}
        return tuple(sorted(bad)) if any(host not in bad for host in in_use if host) else ()

    def snapshot(self) -> list[list[Any]]:
        return [[at, host] for at, host in self._failures]

    def restore(self, state: Collection[Any]) -> None:
        self._failures = [(float(at), str(host)) for at, host in state]


def hosts_of(nodes: Mapping[str, Any]) -> set[str]:
    return {node.host for node in nodes.values() if node.host and node.seated and node.started_at is not None}
