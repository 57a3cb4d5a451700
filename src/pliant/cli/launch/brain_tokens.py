"""Tokens for the Brain: the cluster's, in the folder of a Brain, and folders with the token of one job (``joining_brain.py``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pliant.core.errors import Conflict, NotFound
from pliant.files.atomic import write_bytes
from pliant.files.private import FILE_MODE
from pliant.rpc.brain.access import CA, JOB, TOKEN, WHERE, BrainFolder, brain_home
from pliant.rpc.identity import read_token_file


@dataclass(frozen=True)
class ClusterAccess:
    token_file: Path
    token: str = field(repr=False)
    ca_file: Path | None  # None: the Brain serves no TCP

    @property
    def ca(self) -> bytes | None:
        return self.ca_file.read_bytes() if self.ca_file is not None else None


def cluster_access(directory: Path | None) -> ClusterAccess:
    """Of the Brain's own folder, or of another one with the cluster's token."""
    folder = directory or brain_home()
    file = folder / TOKEN
    if not file.exists():
        raise NotFound(
            f"no Brain has a token here: {file} does not exist",
            hint="start a Brain with `pliant brain serve`, or say where its folder is: --dir FOLDER",
        )
    if (folder / JOB).exists():
        raise Conflict(
            f"{folder} has the token of one job only: {(folder / JOB).read_text().strip()}",
            hint="tokens of jobs are made where the Brain's folder is",
        )
    found = [path for path in (folder / "tls" / CA, folder / CA) if path.exists()]
    return ClusterAccess(file, read_token_file(file), found[0] if found else None)


def write_job_folder(folder: Path, token: str, ca: bytes | None, namespace: str, name: str) -> None:
    """Raises ``Conflict`` for a folder with another token in it: that of a cluster would be lost."""
    owner = f"{namespace}/{name}"
    job = folder / JOB
    found = job.read_text().strip() if job.exists() else ""
    if found not in ("", owner):
        raise Conflict(f"{folder} has the token of job {found}", hint="write to another folder, or remove this one")
    if not found and any((folder / each).exists() for each in (TOKEN, WHERE)):
        raise Conflict(f"{folder} has the token of a cluster", hint="write to another folder")
    if folder.exists() and not folder.is_dir():
        raise Conflict(f"{folder} is not a folder", hint="write to another one")
    (folder / CA).unlink(missing_ok=True)  # of a Brain that served TCP before
    BrainFolder(folder).write(token, ca)
    write_bytes(job, f"{owner}\n".encode(), mode=FILE_MODE)
