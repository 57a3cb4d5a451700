"""The Brain's own folder: the cluster's token, its certificates, and where it serves.

On a machine the Brain makes all of them, once, and the folder is its user's only. In a cluster somebody else made them, and they
are mounted read-only (a Secret, which belongs to root): such a folder is used as it is, and where it serves is not written down.
"""

from __future__ import annotations

import os
from pathlib import Path

from pliant.core.errors import PermanentError
from pliant.files.atomic import write_json
from pliant.files.private import make_private_folder
from pliant.rpc.brain.access import TOKEN, WHERE
from pliant.rpc.identity import create_token_file, read_token_file
from pliant.rpc.tls import TlsFiles, create_certificates


class OwnFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_mounted = path.is_dir() and bool(os.statvfs(path).f_flag & os.ST_RDONLY)

    def token(self) -> str:
        """The cluster's; made, if there is none yet."""
        if self.is_mounted:
            return read_token_file(self.path / TOKEN)
        make_private_folder(self.path)
        return create_token_file(self.path / TOKEN)

    def certificates(self, host: str) -> TlsFiles:
        """Of a Brain that others reach at ``host``."""
        folder = self.path / "tls"
        if (folder / "master.crt").exists():
            return TlsFiles(folder)
        if self.is_mounted:
            raise PermanentError(
                f"{folder} has no master.crt, and nothing can be written there",
                hint="put ca.crt, master.crt and master.key there, for the name pliant-master",
            )
        return create_certificates(folder, (host,))

    def publish(self, address: str, term: int) -> None:
        """For programs on this machine."""
        if not self.is_mounted:
            write_json(self.path / WHERE, {"address": address, "pid": os.getpid(), "term": term})
