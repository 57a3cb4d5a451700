"""Folders and files that only their owner can use, checked the way ssh checks its own: type, owner and mode, and no links.

A job's folder holds its secret, its certificates, its journal and the socket of its master, so whoever can write there is the
job. What is ours and lets others in is corrected; what is not ours is refused.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from pliant.core.errors import Conflict

FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = 0o077  # what group and others may do
KEEP_UMASK = -1  # for subprocess: the child inherits ours

_umask_before = KEEP_UMASK


def make_private_folder(folder: Path) -> int | None:
    """Create a folder, with its missing parents, or make one that exists private. Returns the mode that had to be corrected.

    Raises ``Conflict`` for what is not a folder of ours, and for one that is shared on purpose (with a sticky bit).
    """
    for missing in reversed([folder, *(parent for parent in folder.parents if not parent.exists())]):
        with contextlib.suppress(FileExistsError):
            os.mkdir(missing, FOLDER_MODE)
    check_own_folder(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise _not_ours(folder, found.st_uid)
        before = stat.S_IMODE(found.st_mode)
        if not before & OTHERS:
            return None
        if before & stat.S_ISVTX:
            raise Conflict(f"{folder} is shared with other users (mode {before:04o})", hint="use a folder inside it")
        os.fchmod(descriptor, before & ~OTHERS)
        if os.fstat(descriptor).st_mode & OTHERS:
            raise Conflict(
                f"{folder} lets other users in (mode {before:04o}), and its file system does not keep permissions",
                hint="use a folder on another file system",
            )
        return before
    finally:
        os.close(descriptor)


def check_own_folder(folder: Path) -> None:
    """It is a folder, not a link to one, and belongs to this user; its mode is not looked at."""
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise Conflict(f"{folder} is a symbolic link", hint=f"use {os.path.realpath(folder)}, if that is yours")
    if not stat.S_ISDIR(found.st_mode):
        raise Conflict(f"{folder} is not a directory")
    if found.st_uid != os.geteuid():
        raise _not_ours(folder, found.st_uid)


def check_own_entries(folder: Path) -> None:
    """Nothing in it was left by another user, who could write there before it was made private."""
    with os.scandir(folder) as entries:
        for entry in entries:
            owner = entry.stat(follow_symlinks=False).st_uid
            if owner != os.geteuid():
                raise _not_ours(Path(entry.path), owner)


def check_own_file(path: Path, *, secret: str) -> None:
    """A regular file of ours that nobody else can read or write. ``secret``: what it holds, for the message."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise Conflict(f"{path} is not a regular file", hint="remove it")
    if found.st_uid != os.geteuid():
        raise _not_ours(path, found.st_uid)
    if found.st_mode & OTHERS:
        raise Conflict(
            f"{path} can be used by others (mode {stat.S_IMODE(found.st_mode):04o}), so {secret} is not secret",
            hint="remove it, or `chmod 600` it if nobody else could read it so far",
        )


def exposed_parents(folder: Path) -> Iterator[tuple[Path, str, bool]]:
    """The folders above it in which others could replace what is below: the folder, why, and whether anyone at all can."""
    above = {*folder.absolute().parents, *Path(os.path.realpath(folder)).parents}
    for parent in sorted(above):
        with contextlib.suppress(OSError):
            found = parent.stat()
            mode = stat.S_IMODE(found.st_mode)
            if found.st_uid not in (0, os.geteuid()):
                yield parent, f"belongs to {user_name(found.st_uid)}", False
            elif mode & stat.S_ISVTX:
                continue
            elif mode & stat.S_IWOTH:
                yield parent, f"can be written by everyone (mode {mode:04o})", True
            elif mode & stat.S_IWGRP and not _is_own_group(found.st_gid):
                yield parent, f"can be written by the group {_group_name(found.st_gid)} (mode {mode:04o})", False


def is_trusted(found: os.stat_result, *, forbidden: int) -> bool:
    """Of something that is only used: it belongs to this user or to root (for root: to anyone), and ``forbidden`` is not set in
    its mode. Secrets that Kubernetes mounts belong to root."""
    is_owner_trusted = found.st_uid in (0, os.geteuid()) or os.geteuid() == 0
    return is_owner_trusted and not found.st_mode & forbidden


def restrict_new_files() -> None:
    """Whatever this process creates from now on is its user's only. Programs get the umask of before: ``inherited_umask``."""
    global _umask_before
    before = os.umask(OTHERS)
    if _umask_before == KEEP_UMASK:
        _umask_before = before


def inherited_umask() -> int:
    """For processes that are started for the user: the umask that this one was started with."""
    return _umask_before


def user_name(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user {uid}"


def _not_ours(path: Path, uid: int) -> Conflict:
    return Conflict(f"{path} belongs to {user_name(uid)}", hint="remove it, or choose another place")


def _is_own_group(gid: int) -> bool:
    """A group of the same name as the user, which nobody else is in: that is how many systems set up their users."""
    try:
        group = grp.getgrgid(gid)
        return group.gr_name == pwd.getpwuid(os.geteuid()).pw_name and set(group.gr_mem) <= {group.gr_name}
    except KeyError:
        return False


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
