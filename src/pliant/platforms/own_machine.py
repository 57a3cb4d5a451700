"""How much memory this machine has, or the container that this process is in."""

from __future__ import annotations

import psutil

from pliant.platforms.cgroup import read_current

MB = 1 << 20


def memory_mb() -> int:
    total, group = psutil.virtual_memory().total, read_current()
    limit = group.memory_limit_bytes if group is not None else None
    return min(total, limit or total) // MB


def available_mb() -> float:
    """Memory that programs could still be given."""
    free, group = psutil.virtual_memory().available, read_current()
    if group is not None and group.memory_limit_bytes:
        free = min(free, max(0, group.memory_limit_bytes - group.memory_bytes))
    return free / MB
