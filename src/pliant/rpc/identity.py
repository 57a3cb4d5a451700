"""Who belongs to a job: whoever knows its secret.

The secret is made once per job and kept in a file that only the job's owner can read. Programs learn the file's path
from the environment, never the secret itself, so it shows up in no process list, log or crash report.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from pathlib import Path

from pliant.core.errors import Unauthenticated

TOKEN_HEADER = "pliant-token"
_SHORTEST = 32  # characters


def create_token_file(path: Path) -> str:
    """Make a job's secret, or read the one that is there. The file is whole or not there: who writes may be killed."""
    if path.exists():
        return read_token_file(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # the first one counts
    finally:
        temporary.unlink()
    return read_token_file(path)


def read_token_file(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise Unauthenticated(
            f"cannot read the job's token from {path}: {error.strerror}",
            hint="run as the user who started the job, or set PLIANT_TOKEN_FILE to a copy of the token",
        ) from None
    if len(token) < _SHORTEST:
        raise Unauthenticated(f"{path} does not hold a job's token")
    return token


def same_token(given: str | bytes, expected: str) -> bool:
    if isinstance(given, str):
        given = given.encode(errors="replace")
    return hmac.compare_digest(given, expected.encode())
