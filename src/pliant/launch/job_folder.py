"""The folder of a job that is started or resumed on this machine, and taking that back if no master of it can start.

What fails before it starts leaves nothing: of a new job exactly what was created is removed, in a folder that existed before
nothing else; of a resumed job the summary is put back, so it is as ended as it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pliant.core.errors import Conflict, NotFound, PliantError
from pliant.core.job import Phase
from pliant.files.atomic import write_json, write_text
from pliant.files.locks import FileLock
from pliant.files.private import (
    FILE_MODE,
    check_own_entries,
    check_own_folder,
    exposed_parents,
    make_private_folder,
)
from pliant.handles.job_dirs import argument_of, jobs_home
from pliant.launch.joining_brain import give_token, with_address
from pliant.master.job_dir import JobDir
from pliant.rpc.identity import create_token_file
from pliant.spec import JobSpec, load_spec

OWN_FILES = (
    *(
        "job.yaml",
        "token",
        "tls",
        "journal.db*",
        "problem.json",
        "logs",
        "nodes",
        "notes",
        "reserve",
        "*.lock",
        "brain",
        "ray.json",
    ),
    *("master.sock", ".sock-*"),
)


LOCK_TIMEOUT_S, LOCK_POLL_S = 10.0, 0.02

Warn = Callable[[str], None]  # somebody else may be able to read or replace what is in the folder


class FolderOptions(Protocol):
    @property
    def job_dir(self) -> Path | None: ...  # None: by the job's name

    @property
    def log_dir(self) -> Path | None: ...  # None: in the job's folder

    @property
    def overwrite(self) -> bool: ...  # a job that has ended is replaced


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)


@dataclass(frozen=True)
class PreparedJob:
    home: JobDir
    undo: Callable[[], None]  # before a master has served
    is_resumed: bool = False
    platform: str = "local"


def folder_of(name: str, options: FolderOptions) -> JobDir:
    return JobDir((options.job_dir or jobs_home() / name).absolute())


def prepare(spec: JobSpec, options: FolderOptions, warn: Warn = _warn) -> PreparedJob:
    """Create the folder of a new job, with everything in it that a master needs."""
    home = folder_of(spec.name, options)
    spec = with_address(spec)
    with _one_at_a_time(home.path):
        return _prepare(spec, home, options, warn)


def _prepare(spec: JobSpec, home: JobDir, options: FolderOptions, warn: Warn) -> PreparedJob:
    if home.exists():
        check_own_folder(home.path)
        _check_idle(home)
        over = home.summary_file.exists()
        if not options.overwrite:
            how = "ended" if over else "was interrupted"
            raise Conflict(
                f"there is a job in {home.path}, which {how}",
                hint=f"choose another --name; `pliant resume {argument_of(home)}` continues it, --overwrite replaces it",
            )
        shutil.rmtree(home.path)
    undo = _Removal(home.path, options.log_dir)
    try:
        create_folder(home, warn)
        if options.log_dir is not None:
            home.logs.rmdir()
            options.log_dir.mkdir(parents=True, exist_ok=True)
            home.logs.symlink_to(options.log_dir.absolute(), target_is_directory=True)
        if spec.optimize.uses_brain:
            give_token(spec, home)
        write_text(home.spec, spec.to_yaml(), mode=FILE_MODE)
    except OSError as error:
        undo()
        raise PliantError(f"cannot write the job's folder {home.path}: {error.strerror}") from error
    except PliantError:
        undo()
        raise
    return PreparedJob(home, undo, platform=spec.platform.kind)


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Of two that start a job of one name at once, the second one finds the first one's: if both made it, the one that cannot
    start its master would take back the other's. The lock is on the folder that it is in, which may have other users: one who
    keeps it is waited for, but not for long, and neither is a file system without such locks a reason not to start."""
    parent = next(above for above in folder.parents if above.is_dir())
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(LOCK_POLL_S)
        yield


def create_folder(home: JobDir, warn: Warn = _warn) -> None:
    """The private folder of a new job, with a new secret: what lies there under that name is no secret of this job."""
    _check_parents(home, warn)
    was_empty = not _names(home.path)
    before = home.create()
    if before is not None and not was_empty:
        warn(f"only you can use {home.path} now (its mode was {before:04o})")
    check_own_entries(home.path)
    home.token.unlink(missing_ok=True)
    create_token_file(home.token)


def check_folder(home: JobDir, warn: Warn = _warn) -> None:
    """Of a job that is continued: nobody else could have written in it. Raises ``Conflict`` if somebody could."""
    _check_parents(home, warn)
    if (before := make_private_folder(home.path)) is not None:
        warn(f"only you can use {home.path} now (its mode was {before:04o})")
    check_own_entries(home.path)


def _check_parents(home: JobDir, warn: Warn) -> None:
    for parent, why, by_anyone in exposed_parents(home.path):
        if by_anyone:
            raise Conflict(
                f"{home.path} cannot be private: {parent} {why}",
                hint=f"`chmod o-w {parent}`, or choose another --job-dir",
            )
        warn(f"{parent} {why}, who could replace {home.path}")


def check_exists(home: JobDir) -> None:
    if not home.exists():
        raise NotFound(f"no job to resume in {home.path}", hint="`pliant jobs` lists the jobs of this machine")


def prepare_resume(home: JobDir, warn: Warn = _warn) -> PreparedJob:
    """Have the next master continue a job that was interrupted, was stopped, or has failed.

    The marker is the summary under another name: one rename, which a full disk allows too.
    """
    check_exists(home)
    check_folder(home, warn)
    _check_idle(home)
    summary = home.summary()
    if summary is not None and summary["phase"] == Phase.SUCCEEDED:
        raise Conflict(
            f"job {argument_of(home)} has succeeded; there is nothing to resume",
            hint="`pliant run --overwrite` runs it again",
        )
    was_marked = home.resume_file.exists()  # by somebody who was killed before a master continued it
    try:
        home.problem_file.unlink(missing_ok=True)
        if home.summary_file.exists():
            os.replace(home.summary_file, home.resume_file)
        elif not home.resume_file.exists():
            write_json(home.resume_file, {})
    except OSError as error:
        raise PliantError(f"cannot write the job's folder {home.path}: {error.strerror}") from error

    def undo() -> None:
        with contextlib.suppress(OSError):
            if summary is not None:
                os.replace(home.resume_file, home.summary_file)
            elif not was_marked:
                home.resume_file.unlink(missing_ok=True)

    return PreparedJob(home, undo, is_resumed=True, platform=load_spec(home.spec).platform.kind)


def _check_idle(home: JobDir) -> None:
    if FileLock(home.launcher_lock).is_held() or FileLock(home.master_lock).is_held():
        name = argument_of(home)
        raise Conflict(
            f"job {name} is running in {home.path}",
            hint=f"`pliant attach {name}` follows it, `pliant stop {name}` stops it; or choose another --name",
        )


def remove_own_files(home: JobDir) -> None:
    """What a job that never had a master has in its folder, and the folder unless there is something else in it."""
    for name in OWN_FILES:
        for path in home.path.glob(name):
            _remove(path)
    _remove_if_empty(home.path)


class _Removal:
    """Of what is created from now on in a job's folder and in its folder of logs; their modes are restored."""

    def __init__(self, *folders: Path | None) -> None:
        wanted = [folder.absolute() for folder in folders if folder is not None]
        self._before = {folder: _names(folder) for folder in wanted}
        self._modes = {folder: stat.S_IMODE(folder.stat().st_mode) for folder in wanted if folder.is_dir()}
        self._parents = [parent for folder in wanted for parent in folder.parents if not parent.exists()]

    def __call__(self) -> None:
        for folder, before in reversed(self._before.items()):
            for name in (_names(folder) or set()) - (before or set()):
                _remove(folder / name)
            if before is None:
                _remove_if_empty(folder)
        for folder, mode in self._modes.items():
            with contextlib.suppress(OSError):
                folder.chmod(mode)
        for parent in self._parents:
            _remove_if_empty(parent)


def _names(folder: Path) -> set[str] | None:
    """None: there is no such folder."""
    try:
        return set(os.listdir(folder))
    except OSError:
        return None


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
