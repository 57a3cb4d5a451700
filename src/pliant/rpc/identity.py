"""Who belongs to a job: whoever knows its secret.

The secret is made once per job and kept in a file that only the job's owner can read. Programs learn the file's path
from the environment, never the secret itself, so it shows up in no process list, log or crash report. A file that others could have
written, or can read, holds no secret and is refused.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from pathlib import Path

from pliant.core.errors import Unauthenticated
from pliant.files.atomic import write_bytes
from pliant.files.private import FILE_MODE, check_own_file, is_trusted

TOKEN_HEADER = "pliant-token"
_MIN_LENGTH = 32  # characters
_NOT_SECRET = 0o027  # modes of a file that others can read, or that others or its group can write


def create_token_file(path: Path) -> str:
    """Create a job's secret, or read the existing one. Of several processes that create it at once, the first one wins."""
    if not os.path.lexists(path):
        write_bytes(path, secrets.token_hex(32).encode(), mode=FILE_MODE, overwrite=False)
    check_own_file(path, secret="the job's token")
    return read_token_file(path)


def read_token_file(path: Path) -> str:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            found = os.fstat(file.fileno())
            token = file.read().strip() if stat.S_ISREG(found.st_mode) else ""
    except OSError as error:
        raise Unauthenticated(
            f"cannot read the job's token from {path}: {error.strerror}",
            hint="run as the user who started the job, or set PLIANT_TOKEN_FILE to a copy of the token",
        ) from None
    if not is_trusted(found, forbidden=_NOT_SECRET):
        raise Unauthenticated(
            f"{path} is not secret: others can read or change it (mode {stat.S_IMODE(found.st_mode):04o})",
            hint="`chmod 600` it, and make sure that it is yours",
        )
    if len(token) < _MIN_LENGTH:
        raise Unauthenticated(f"{path} does not contain a job token")
    return token


def same_token(given: str | bytes, expected: str) -> bool:
    if isinstance(given, str):
        given = given.encode(errors="replace")
    return hmac.compare_digest(given, expected.encode())
