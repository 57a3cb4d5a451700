"""Can this machine run jobs? One function per subject; ``examine`` calls them all."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from pliant.cli.doctor.check import Check
from pliant.handles.job_dirs import all_jobs, jobs_home
from pliant.handles.liveness import launcher_is_alive, master_is_alive
from pliant.handles.ray import is_on_ray

GIB = 1 << 30
LITTLE_DISK = 1 * GIB  # bytes; below, logs and checkpoints may not fit
LITTLE_SHM = GIB // 4  # bytes; PyTorch's data loaders share batches there
FEW_FILES = 1024
EXTRAS = {
    "torch": "torch",
    "data": "pyarrow",
    "kubernetes": "kopf",
    "ray": "ray",
    "brain": "sqlalchemy",
    "dashboard": "starlette",
}


def examine() -> list[Check]:
    """Everything."""
    return [check for examine_subject in SUBJECTS for check in examine_subject()]


def python_version() -> Iterator[Check]:
    found = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    yield Check("python", "ok" if good else "broken", found, "" if good else "Pliant needs Python 3.11 or newer")


def dependencies() -> Iterator[Check]:
    for line in metadata.requires("pliant") or []:
        if "extra ==" in line:
            continue
        name, least = _requirement(line)
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Check(name, "broken", "not installed", f"pip install '{name}>={least}'")
            continue
        good = _numbers(found) >= _numbers(least)
        hint = "" if good else f"pip install --upgrade '{name}>={least}'"
        yield Check(name, "ok" if good else "broken", found if good else f"{found}; {least} or newer is required", hint)


def cgroups() -> Iterator[Check]:
    from pliant.platforms import cgroup

    version = cgroup.available()
    if version is not None:
        yield Check("cgroups", "ok", f"{version}; resource limits are enforced")
    else:
        hint = "jobs run without memory and CPU limits, which need a writable cgroup"
        yield Check("cgroups", "warning", cgroup.why_not(), hint)


def gpus() -> Iterator[Check]:
    from pliant.platforms.gpus import VISIBLE, find_gpus, visible_gpus

    found = find_gpus()
    usable = visible_gpus(os.environ, found)
    if not found:
        yield Check("gpus", "absent", "no NVIDIA GPU found; --gpu is not available")
        return
    text = f"{len(usable)} of {len(found)} usable: {', '.join(gpu.name for gpu in usable) or 'none'}"
    is_limited = VISIBLE in os.environ
    text += f" ({VISIBLE} is {os.environ[VISIBLE]!r})" if is_limited else ""
    yield Check("gpus", "ok" if usable else "absent", text)


def home_folder() -> Iterator[Check]:
    home = jobs_home()
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"pliant")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        hint = "set PLIANT_HOME to a writable directory"
        yield Check("home", "broken", f"{home} cannot be written: {error.strerror}", hint)
        return
    yield Check("home", "ok", f"{home} is writable")
    free = shutil.disk_usage(home).free
    hint = "run `pliant jobs --prune` to remove finished jobs, or set PLIANT_HOME to another disk"
    little = free < LITTLE_DISK
    yield Check("disk", "warning" if little else "ok", f"{free / GIB:.1f} GiB free in {home}", hint if little else "")


def shared_memory() -> Iterator[Check]:
    path = Path("/dev/shm")
    if not path.is_dir():
        yield Check("/dev/shm", "warning", "not mounted", "multi-process data loaders may not work")
        return
    total = shutil.disk_usage(path).total
    small = total < LITTLE_SHM
    hint = "use docker run --shm-size=2g, or data loaders with num_workers=0" if small else ""
    yield Check("/dev/shm", "warning" if small else "ok", f"{total / GIB:.2f} GiB", hint)


def open_files() -> Iterator[Check]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft != resource.RLIM_INFINITY and soft < FEW_FILES
    text = f"at most {soft} open files (hard limit {hard})"
    yield Check("open files", "warning" if few else "ok", text, f"ulimit -n {FEW_FILES} or more" if few else "")


def loopback() -> Iterator[Check]:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        hint = "workers and parameter servers connect over 127.0.0.1; check firewall and sandbox settings"
        yield Check("loopback", "broken", f"cannot connect to a port of 127.0.0.1: {error}", hint)
    else:
        yield Check("loopback", "ok", f"127.0.0.1 accepts connections (tried port {port})")


def extras() -> Iterator[Check]:
    """By what is installed; nothing is imported, which would take seconds."""
    for extra, package in EXTRAS.items():
        try:
            yield Check(f"extra {extra}", "ok", f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            yield Check(f"extra {extra}", "absent", f"not installed: pip install 'pliant[{extra}]'")


def stale_jobs() -> Iterator[Check]:
    stale = [
        home.path.name
        for home in all_jobs()
        if not home.summary_file.exists()
        and not is_on_ray(home)
        and not master_is_alive(home)
        and not launcher_is_alive(home)
    ]
    if stale:
        hint = "continue one with `pliant resume NAME`, or kill its leftover processes with `pliant stop NAME`"
        yield Check("interrupted jobs", "warning", ", ".join(stale), hint)
    else:
        yield Check("interrupted jobs", "ok", "none")


SUBJECTS: tuple[Callable[[], Iterator[Check]], ...] = (
    python_version,
    dependencies,
    cgroups,
    gpus,
    home_folder,
    shared_memory,
    open_files,
    loopback,
    extras,
    stale_jobs,
)


def _requirement(line: str) -> tuple[str, str]:
    """Name and least version of such as ``grpcio>=1.66``."""
    name, _, least = line.partition(";")[0].partition(">=")
    return name.strip(), least.strip() or "0"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
