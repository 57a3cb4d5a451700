"""Why storage refused, for people: what happened, what to do, and whether trying again could help.

Stores raise errors of any type; those of fsspec's libraries are known by the names of their classes, since they may not be
installed. Whatever is not known here may pass by itself.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from pliant.core.errors import PermanentError, PliantError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NO_RIGHTS = (errno.EACCES, errno.EPERM)
NOT_A_FOLDER = (errno.ENOTDIR, errno.EEXIST)
NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ProfileNotFound")
MAX_TEXT = 500  # characters of the store's own words


@dataclass(frozen=True, slots=True)
class StorageProblem:
    text: str  # what happened
    hint: str  # what to do
    is_permanent: bool  # until somebody does something about it


def explain(error: BaseException, directory: str) -> StorageProblem:
    """The first cause that is known, of an error and those that it followed from."""
    return next((found for cause in _causes(error) if (found := _known(cause, directory))), _unknown(error))


def _known(error: BaseException, directory: str) -> StorageProblem | None:
    said = _said(error)
    if isinstance(error, PermanentError):
        return StorageProblem(error.message, error.hint, True)
    if type(error).__name__ in NO_CREDENTIALS:
        hint = "set the credentials of this store in the environment of the job (docs/answers.md)"
        return StorageProblem(f"no credentials ({said})", hint, True)
    if not isinstance(error, OSError):
        return None
    number = error.errno
    if number in NO_SPACE:
        hint = f"free space in {directory}, keep fewer checkpoints (keep_last), or use another directory"
        return StorageProblem(f"no space left ({said})", hint, True)
    if number in NO_RIGHTS or isinstance(error, PermissionError):
        hint = f"let the job's user write to {directory}, or use another directory"
        return StorageProblem(f"permission denied ({said})", hint, True)
    if number == errno.EROFS:
        return StorageProblem(f"the file system is read-only ({said})", "use another directory", True)
    if number in NOT_A_FOLDER:
        return StorageProblem(f"a part of the path is not a directory ({said})", "use another directory", True)
    if isinstance(error, FileNotFoundError):
        return StorageProblem(f"not found ({said})", f"check the spelling of {directory}, and create it", True)
    return None


def _unknown(error: BaseException) -> StorageProblem:
    return StorageProblem(_said(error), "check that the store is reachable from the job's machines", False)


def _said(error: BaseException) -> str:
    text = error.message if isinstance(error, PliantError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split())}"[:MAX_TEXT]


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__
