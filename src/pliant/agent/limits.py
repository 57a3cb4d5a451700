"""The limits of a node's program: who enforces them, and what the kernel counts.

By a cgroup of the program's own where the agent may create one; by the platform in a container, whose cgroup is the agent's own;
else ``MemoryWatchdog`` samples memory and the agent kills the program that exceeds its limit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from pliant.agent.usage import MemoryWatchdog
from pliant.core.errors import NotAvailable, RetryableError
from pliant.core.nodes.environment import LimitMode, NodeEnvironment
from pliant.core.resources import Resources
from pliant.files.atomic import read_json
from pliant.platforms.cgroup import CgroupLimit, CgroupReading, cgroup_job, read_current

log = logging.getLogger(__name__)


OWN_LIMIT_INTERVAL_S = 10.0  # a platform may change that of a running container


class NodeLimits:
    def __init__(self, environment: NodeEnvironment) -> None:
        self._environment = environment
        self._is_in_container = environment.limits is LimitMode.CONTAINER
        self._cgroup: CgroupLimit | None = None
        self.resources = environment.resources
        """As requested; the platform may change them while the node runs."""
        self._record = environment.node_dir / "agent.json" if environment.node_dir is not None else None
        self._read_at = 0  # st_mtime_ns of the record
        self._own_limit_mb, self._own_limit_due = 0, 0.0  # of the agent's own group; monotonic

    def apply(self) -> None:
        """Also for a program without limits: it may get some later, and then all that it holds has to be counted."""
        own = self._environment
        if own.limits is not LimitMode.AUTO or own.job_dir is None:
            return
        self.refresh()
        given = self.resources
        try:
            self._cgroup = CgroupLimit.create(
                cgroup_job(own.job, own.job_dir), own.node, memory_mb=given.memory_mb, cpu=given.cpu
            )
            self.refresh()
            if self.resources != given:  # the platform found no group to change a moment ago
                self._cgroup.limit(memory_mb=self.resources.memory_mb, cpu=self.resources.cpu)
        except NotAvailable as reason:
            log.info("no cgroup for %s, sampling its memory instead: %s", own.node, reason)

    def refresh(self) -> None:
        """Read what the platform has written down for this node, if it is new. The platform changes the cgroup itself."""
        if self._record is None:
            return
        try:
            changed_at = self._record.stat().st_mtime_ns
        except OSError:
            return  # the platform has not written it yet
        if changed_at != self._read_at and (record := read_json(self._record)) is not None:
            self._read_at = changed_at
            self.resources = Resources.from_json(record["resources"])

    def remove(self) -> None:
        if self._cgroup is None:
            return
        try:
            self._cgroup.remove()
        except (RetryableError, OSError) as error:  # the platform tries again; how the program ended matters more
            log.warning("%s", error)

    @property
    def procs_files(self) -> tuple[Path, ...]:
        """``cgroup.procs`` files that the program joins before it runs."""
        return tuple(self._cgroup.procs_files) if self._cgroup is not None else ()

    @property
    def reader(self) -> Callable[[], CgroupReading | None] | None:
        """Reads the usage of the program, or in a container that of the whole node; None: there is no cgroup."""
        if self._cgroup is not None:
            return self._cgroup.read
        return read_current if self._is_in_container else None

    def oom_kills(self) -> int:
        """How often the kernel has killed for memory so far."""
        if self._cgroup is not None:
            return self._cgroup.oom_kills()
        group = read_current() if self._is_in_container else None
        return group.oom_kills if group is not None else 0

    def memory_limit_mb(self) -> int:
        """As requested, else as the agent's own cgroup has it; 0: none."""
        if self.resources.memory_mb:
            return self.resources.memory_mb
        if time.monotonic() >= self._own_limit_due:
            self._own_limit_due = time.monotonic() + OWN_LIMIT_INTERVAL_S
            group = read_current()
            self._own_limit_mb = group.memory_limit_bytes >> 20 if group is not None and group.memory_limit_bytes else 0
        return self._own_limit_mb

    def make_watchdog(self, pid: int) -> MemoryWatchdog | None:
        """None where the kernel enforces the limit."""
        if self._cgroup is not None or (self._is_in_container and not self.resources.memory_mb):
            return None
        group = read_current() if self._is_in_container else None
        if group is not None and group.memory_limit_bytes is not None:
            return None
        return MemoryWatchdog(pid, self.resources.memory_mb)
