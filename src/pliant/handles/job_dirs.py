"""Where jobs live: ``~/.pliant/jobs/NAME`` (``PLIANT_HOME`` moves it), or any folder given by ``--job-dir``."""

from __future__ import annotations

import contextlib
import os
import secrets
from difflib import get_close_matches
from pathlib import Path

from pliant.core.errors import InvalidRequest, NotFound
from pliant.files.home import pliant_home
from pliant.files.private import user_name
from pliant.master.job_dir import JobDir

_WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris"),
    *("juniper", "kelp", "linden", "maple", "north", "opal", "pine", "quartz", "reed"),
)


def jobs_home() -> Path:
    return pliant_home() / "jobs"


def fresh_name() -> str:
    return f"{secrets.choice(_WORDS)}-{secrets.token_hex(3)}"


def argument_of(home: JobDir) -> str:
    """What commands find the job by: its name, or its folder if that is not among those of all jobs."""
    return home.path.name if home.path.parent == jobs_home().absolute() else str(home.path)


def all_jobs() -> list[JobDir]:
    """Oldest first; of a folder that several users share, those that this one may read."""
    home = jobs_home()
    found: dict[JobDir, float] = {}
    for path in home.iterdir() if home.is_dir() else ():
        job = JobDir(path)
        with contextlib.suppress(OSError):  # it may be removed just now
            if _is_readable(job):
                found[job] = job.spec.stat().st_mtime
    return sorted(found, key=found.__getitem__)


def _is_readable(job: JobDir) -> bool:
    return os.access(job.spec, os.R_OK, effective_ids=True)


def find_job(name: str | None, job_dir: Path | None = None) -> JobDir:
    """By folder, by name, or the newest one."""
    if job_dir is not None:
        job = JobDir(job_dir.absolute())
        if not _is_readable(job):
            owner = job_dir.stat().st_uid if job_dir.exists() else os.geteuid()
            if owner != os.geteuid():
                raise InvalidRequest(f"{job_dir} belongs to {user_name(owner)}", hint="run the command as that user")
            raise NotFound(f"no job in {job_dir}", hint="pass the same directory as to `pliant run --job-dir`")
        return job
    if name is not None and (os.sep in name or (Path(name) / "job.yaml").exists()):
        return find_job(None, Path(name))
    jobs = all_jobs()
    if name is None:
        if not jobs:
            raise NotFound("no jobs yet", hint="start one with `pliant run -- python train.py`")
        return jobs[-1]
    for job in jobs:
        if job.path.name == name:
            return job
    names = [job.path.name for job in jobs]
    close = get_close_matches(name, names, 1)
    hint = (
        f"did you mean {close[0]}?"
        if close
        else "list jobs with `pliant jobs`; for a job in another directory use --job-dir"
    )
    raise NotFound(f"job {name!r} not found", hint=hint)
