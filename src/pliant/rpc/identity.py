"""Who belongs to a job: whoever knows its secret.

The secret is made once per job and kept in a file that only the job's owner can read. Programs learn the file's path
from the environment, never the secret itself, so it shows up in no process list, log or crash report.
"""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from pliant.core.errors import Unauthenticated
from pliant.files.atomic import write_bytes

TOKEN_HEADER = "pliant-token"
_MIN_LENGTH = 32  # characters


def create_token_file(path: Path) -> str:
    """Create a job's secret, or read the existing one. Of several processes that create it at once, the first one wins."""
    if path.exists():
        return read_token_file(path)
    write_bytes(path, secrets.token_hex(32).encode(), mode=0o600, overwrite=False)
    return read_token_file(path)


def read_token_file(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise Unauthenticated(
            f"cannot read the job's token from {path}: {error.strerror}",
            hint="run as the user who started the job, or set PLIANT_TOKEN_FILE to a copy of the token",
        ) from None
    if len(token) < _MIN_LENGTH:
        raise Unauthenticated(f"{path} does not contain a job token")
    return token


def same_token(given: str | bytes, expected: str) -> bool:
    if isinstance(given, str):
        given = given.encode(errors="replace")
    return hmac.compare_digest(given, expected.encode())
