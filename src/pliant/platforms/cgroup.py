"""One control group per node: real limits of memory and CPU, where the system allows them.

The kernel has two layouts. Version 1 mounts each controller (``memory``, ``cpu``, ``cpuacct``) as a tree of its own;
version 2 is one tree for all, in which a group may only limit its children if it holds no process itself. Both are
found from ``/proc/<pid>/cgroup`` and ``/proc/<pid>/mountinfo``, all below ``root``, so tests give a tree of their own.

A node's group is made *below* the group of this process, so a limit set on us (a container, a batch system) holds
for our nodes too. Version 2 usually forbids that; there the nearest group above is taken that hands out memory and
may be written, but never by stepping out of a group with a limit.

Neighbours: the local platform makes and removes groups; the agent's ``usage`` reads them; ``exits`` is given the
number of OOM kills.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pliant.core.errors import Conflict, NotAvailable, RetryableError

SYSTEM = Path("/")
CONTROLLERS = ("memory", "cpu", "cpuacct")
CPU_PERIOD_US = 100_000
UNLIMITED = 1 << 60  # version 1 says "no limit" by a number near 2**63, rounded to pages


@dataclass(frozen=True, slots=True)
class CgroupReading:
    """What a group says of itself. ``memory_bytes`` leaves out file cache that can be dropped at once."""

    version: str  # "v1" or "v2"
    memory_bytes: int
    memory_limit_bytes: int | None  # the smallest of the group's own and those above; None: no limit
    cpu_seconds: float | None  # since the group was made; None: not accounted apart
    oom_kills: int  # processes that the kernel killed for memory, since the group was made
    throttled_s: float = 0.0  # that it was kept from running by its CPU limit, since the group was made


@dataclass(frozen=True, slots=True)
class _CgroupPaths:
    """Where a process is: its directory per controller, and the mounts above which nothing can be seen."""

    version: str
    groups: Mapping[str, Path]
    mounts: Mapping[str, Path]


def available(root: Path = SYSTEM) -> str | None:
    """``"v1"`` or ``"v2"`` if nodes can be given limits here, else None: see ``why_not``."""
    try:
        return _parents(root).version
    except NotAvailable:
        return None


def why_not(root: Path = SYSTEM) -> str:
    """Why nodes cannot be given limits here, as text for people; empty if they can."""
    try:
        _parents(root)
    except NotAvailable as refusal:
        return refusal.message
    return ""


def read_current(root: Path = SYSTEM, pid: int | str = "self") -> CgroupReading | None:
    """The group that a process is in; None without cgroups, and at the top, where it is the whole machine.

    Meant for an agent that has the group for itself, as in a container.
    """
    try:
        paths = _locate(root, pid)
    except NotAvailable:
        return None
    if _is_top(paths.version, paths.groups["memory"]):
        return None
    return _read(paths.version, paths.groups, paths.mounts["memory"])


class CgroupLimit:
    """The group of one node. It outlives the process that made it; ``create`` finds it again by its name."""

    def __init__(self, version: str, groups: Mapping[str, Path], mount: Path) -> None:
        self.version = version
        self._groups = dict(groups)
        self._mount = mount

    @classmethod
    def create(cls, job: str, node: str, *, memory_mb: int = 0, cpu: float = 0.0, root: Path = SYSTEM) -> CgroupLimit:
        """Make the group, or adopt it if it exists, and set its limits (0: none).

        ``job`` must be unique on the machine: two jobs of one name would share groups.
        """
        parents = _parents(root)
        if cpu > 0 and "cpu" not in parents.groups:
            raise NotAvailable("cannot limit CPU: no writable cpu controller")
        group = cls(parents.version, _named(parents, job, node), parents.mounts["memory"])
        try:
            if parents.version == "v2":
                _hand_out(parents.groups["memory"], cpu > 0)
            for directory in group.directories:
                directory.mkdir(exist_ok=True)
            group.limit(memory_mb=memory_mb, cpu=cpu)
        except OSError as failure:
            with contextlib.suppress(OSError):
                for directory in group.directories:
                    directory.rmdir()
            raise NotAvailable(f"cannot create the cgroup {group.directories[0]}: {failure}") from failure
        return group

    @classmethod
    def find(cls, job: str, node: str, *, root: Path = SYSTEM) -> CgroupLimit | None:
        """The group of a node, if somebody made it."""
        try:
            parents = _parents(root)
        except NotAvailable:
            return None
        group = cls(parents.version, _named(parents, job, node), parents.mounts["memory"])
        return group if any(directory.exists() for directory in group.directories) else None

    @property
    def directories(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self._groups.values()))

    @property
    def procs_files(self) -> tuple[Path, ...]:
        """A process joins by writing its pid (``0``: the writer) to each; see ``Program.start(attach_to=…)``."""
        return tuple(directory / "cgroup.procs" for directory in self.directories)

    def limit(self, *, memory_mb: int = 0, cpu: float = 0.0) -> None:
        """Change the limits; 0 removes them. Swap is disabled: a node must not exceed its memory by swapping."""
        memory, processor = self._groups["memory"], self._groups.get("cpu")
        quota = max(1000, round(cpu * CPU_PERIOD_US))
        if self.version == "v2":
            (memory / "memory.max").write_text(str(memory_mb << 20) if memory_mb else "max")
            if (memory / "memory.swap.max").exists():
                (memory / "memory.swap.max").write_text("0" if memory_mb else "max")
            if processor and (cpu > 0 or (processor / "cpu.max").exists()):
                (processor / "cpu.max").write_text(f"{quota if cpu > 0 else 'max'} {CPU_PERIOD_US}")
            return
        wanted = str(memory_mb << 20) if memory_mb else "-1"
        with_swap = memory / "memory.memsw.limit_in_bytes"  # never below the limit without swap, at any moment
        if with_swap.exists():
            with_swap.write_text("-1")
        (memory / "memory.limit_in_bytes").write_text(wanted)
        if with_swap.exists():
            with_swap.write_text(wanted)
        if processor:
            (processor / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
            (processor / "cpu.cfs_quota_us").write_text(str(quota if cpu > 0 else -1))

    def resize(self, *, memory_mb: int = 0, cpu: float = 0.0) -> None:
        """Change the limits of a group that has processes. Less memory than they hold is refused: the kernel would kill."""
        held = self.read().memory_bytes >> 20
        if 0 < memory_mb < held:
            raise Conflict(f"{memory_mb} MB requested, but its program uses {held} MB")
        if cpu > 0 and "cpu" not in self._groups:
            raise NotAvailable("cannot limit CPU: no writable cpu controller")
        try:
            if self.version == "v2" and cpu > 0:
                _hand_out(self._groups["memory"].parent, cpu=True)
            self.limit(memory_mb=memory_mb, cpu=cpu)
        except OSError as failure:  # version 1 itself refuses less than cannot be reclaimed
            raise Conflict(
                f"the cgroup {self.directories[0]} cannot be set to {memory_mb} MB and {cpu:g} CPU: {failure}"
            ) from failure

    def attach(self, pid: int) -> None:
        """Move a process in. Its later children start here; what it allocated before stays accounted elsewhere."""
        for procs in self.procs_files:
            procs.write_text(str(pid))

    def pids(self) -> set[int]:
        found: set[int] = set()
        for top in self.directories:
            for directory in _with_subgroups(top):
                with contextlib.suppress(OSError):
                    found.update(map(int, (directory / "cgroup.procs").read_text().split()))
        return found

    def read(self) -> CgroupReading:
        return _read(self.version, self._groups, self._mount)

    def oom_kills(self) -> int:
        return _oom_kills(self.version, self._groups["memory"])

    def remove(self, timeout: float = 5.0) -> None:
        """Kill what is left inside and remove the group. Again is no error. Never call it from inside the group."""
        deadline = time.monotonic() + timeout
        pause = 0.001  # a killed process leaves its group a moment later; there is no event for it
        while True:
            left = self.pids()
            for pid in left - {os.getpid()}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if all(_removed(directory) for directory in self.directories):
                return
            if os.getpid() in left or time.monotonic() > deadline:
                raise RetryableError(f"the cgroup {self.directories[0]} still holds the processes {sorted(left)}")
            time.sleep(pause)
            pause = min(0.05, pause * 2)


def cgroup_job(job: str, job_dir: Path) -> str:
    """Unique on this machine: two folders may hold jobs of one name."""
    return f"{job}-{zlib.crc32(str(job_dir).encode()):08x}"


def _named(parents: _CgroupPaths, job: str, node: str) -> dict[str, Path]:
    name = re.sub(r"[^\w.-]", "_", f"pliant-{job}-{node}", flags=re.ASCII)[:255]
    return {controller: parent / name for controller, parent in parents.groups.items()}


def _with_subgroups(top: Path) -> Iterator[Path]:
    """The group and those that the program made inside it, the deepest first."""
    for directory, _, _ in os.walk(top, topdown=False):
        yield Path(directory)


def _removed(top: Path) -> bool:
    try:
        for directory in _with_subgroups(top):
            directory.rmdir()
    except FileNotFoundError:
        return not top.exists()
    except OSError as failure:
        if failure.errno != errno.EBUSY:
            raise
        return False
    return True


def _parents(root: Path) -> _CgroupPaths:
    """The groups in which a node's own may be made; refuses with the reason."""
    paths = _locate(root, "self")
    if paths.version == "v1":
        groups = {name: path for name, path in paths.groups.items() if _writable(path)}
        if "memory" not in groups:
            raise NotAvailable(f"the memory cgroup {paths.groups['memory']} is not writable by this user")
        return _CgroupPaths("v1", groups, paths.mounts)
    own, mount = paths.groups["memory"], paths.mounts["memory"]
    above = [group for group in own.parents if group.is_relative_to(mount)]
    for group in (own, *above):
        given = _words(group / "cgroup.subtree_control")
        if _is_top("v2", group):
            given |= _words(group / "cgroup.controllers")  # the top alone may hold processes and hand out
        if "memory" in given and _writable(group) and os.access(group / "cgroup.procs", os.W_OK):
            return _CgroupPaths("v2", {name: group for name in ("memory", "cpu") if name in given}, paths.mounts)
        if _limited(group):
            raise NotAvailable(f"the cgroup {group} is limited and allows no child groups")
    raise NotAvailable(f"no cgroup from {own} upwards delegates memory and is writable by this user")


def _locate(root: Path, pid: int | str) -> _CgroupPaths:
    process = root / "proc" / str(pid)
    try:
        lines = (process / "cgroup").read_text().splitlines()
        mounts = (process / "mountinfo").read_text().splitlines()
    except OSError as failure:
        raise NotAvailable(f"no cgroups on this system: {failure}") from failure
    paths: dict[str, str] = {}  # by controller; "" is version 2
    for line in lines:
        _, names, path = line.split(":", 2)
        paths.update(dict.fromkeys(names.split(","), path))
    groups: dict[str, Path] = {}
    found: dict[str, Path] = {}
    for line in mounts:
        left, _, right = line.partition(" - ")
        inside, where = left.split()[3:5]
        kind, *_, options = right.split()
        mount = root / where.lstrip("/")
        if kind == "cgroup2" and "" in paths:
            own = _own(mount, inside, paths[""])
            if "memory" in _words(own / "cgroup.controllers"):
                return _CgroupPaths("v2", {"memory": own, "cpu": own}, {"memory": mount, "cpu": mount})
        elif kind == "cgroup":
            for name in set(options.split(",")).intersection(CONTROLLERS, paths):
                groups[name], found[name] = _own(mount, inside, paths[name]), mount
    if "memory" not in groups:
        raise NotAvailable("no memory controller is mounted, neither of cgroup version 1 nor 2")
    return _CgroupPaths("v1", groups, found)


def _own(mount: Path, inside: str, path: str) -> Path:
    """A container often sees only its own part mounted: ``inside`` is that part's path in the whole tree."""
    relative = os.path.relpath(path, inside)
    own = mount / relative if not relative.startswith("..") else mount
    return own if own.is_dir() else mount


def _hand_out(group: Path, cpu: bool) -> None:
    given = _words(group / "cgroup.subtree_control")
    for name in ("memory", "cpu") if cpu else ("memory",):
        if name not in given:
            (group / "cgroup.subtree_control").write_text(f"+{name}")


def _is_top(version: str, group: Path) -> bool:
    """The top of the whole machine, not just of what a container sees."""
    return (group / "release_agent").exists() if version == "v1" else not (group / "memory.current").exists()


def _writable(directory: Path) -> bool:
    return os.access(directory, os.W_OK | os.X_OK)


def _limited(group: Path) -> bool:
    return any(_words(group / name) - {"max", str(CPU_PERIOD_US)} for name in ("memory.max", "memory.high", "cpu.max"))


def _words(file: Path) -> set[str]:
    try:
        return set(file.read_text().split())
    except OSError:
        return set()


def _pairs(file: Path) -> dict[str, int]:
    """Files such as ``memory.stat``: a name and a number per line."""
    try:
        rows = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _number(file: Path) -> int | None:
    """The number in a file; None for ``max`` and where there is no such file."""
    text = next(iter(_words(file)), "")
    return int(text) if text.isdecimal() else None


def _oom_kills(version: str, group: Path) -> int:
    return _pairs(group / ("memory.events" if version == "v2" else "memory.oom_control")).get("oom_kill", 0)


def _read(version: str, groups: Mapping[str, Path], mount: Path) -> CgroupReading:
    group = groups["memory"]
    stat = _pairs(group / "memory.stat")
    if version == "v2":
        used, cache = _number(group / "memory.current") or 0, stat.get("inactive_file", 0)
        line = [group, *(above for above in group.parents if above.is_relative_to(mount))]
        limits = [limit for above in line if (limit := _number(above / "memory.max")) is not None]
        limit = min(limits, default=None)
        counts = _pairs(groups["cpu"] / "cpu.stat") if "cpu" in groups else {}
        cpu = counts["usage_usec"] / 1e6 if "usage_usec" in counts else None
        throttled = counts.get("throttled_usec", 0) / 1e6
    else:
        used, cache = _number(group / "memory.usage_in_bytes") or 0, stat.get("total_inactive_file", 0)
        limit = stat.get("hierarchical_memory_limit", UNLIMITED)
        limit = None if limit >= UNLIMITED else limit
        accounts = groups.get("cpuacct")
        apart = accounts is not None and not _is_top("v1", accounts)
        nanos = _number(accounts / "cpuacct.usage") if accounts is not None and apart else None
        cpu = None if nanos is None else nanos / 1e9
        throttled = _pairs(groups["cpu"] / "cpu.stat").get("throttled_time", 0) / 1e9 if "cpu" in groups else 0.0
    return CgroupReading(version, max(0, used - cache), limit, cpu, _oom_kills(version, group), throttled)
