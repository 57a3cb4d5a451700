"""How a program reaches the Brain: its address, a token, and the authority that its certificate is signed by.

A job has them in a folder of its own (``token``, and ``ca.crt`` for TCP), put there by whoever launches it. A Brain on this machine
is found by the file ``brain.json`` in ``PLIANT_HOME/brain``, beside the cluster's token.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pliant.core.errors import NotFound, PermanentError
from pliant.files.atomic import read_json, write_bytes
from pliant.files.private import FILE_MODE, make_private_folder
from pliant.rpc.brain.identity import CLUSTER, Caller, job_token
from pliant.rpc.channel import Address
from pliant.rpc.identity import read_token_file
from pliant.rpc.tls import Authority
from pliant.rpc.unix_socket import is_unix

TOKEN, CA = "token", "ca.crt"
TLS = "tls"
JOB = "job"  # whose token it is, where that is not the cluster's
WHERE = "brain.json"


def brain_home() -> Path:
    return Path(os.environ.get("PLIANT_HOME", Path.home() / ".pliant")) / "brain"


@dataclass(frozen=True)
class BrainAccess:
    address: str  # host:port or unix:PATH
    token: str = field(repr=False)
    caller: Caller = CLUSTER
    ca: bytes | None = None

    def dialled(self) -> Address:
        return Address(self.address, self.token, Authority(self.ca) if self.ca is not None else None)


@dataclass(frozen=True)
class BrainFolder:
    """What one job, or the cluster's own programs, have to reach the Brain."""

    path: Path

    @property
    def token(self) -> Path:
        return self.path / TOKEN

    def write(self, token: str, ca: bytes | None) -> None:
        make_private_folder(self.path)
        write_bytes(self.token, token.encode(), mode=FILE_MODE)
        if ca is not None:
            write_bytes(self.path / CA, ca, mode=FILE_MODE)

    def access(self, address: str, caller: Caller) -> BrainAccess:
        token = read_token_file(self.token)
        ca = None
        if not is_unix(address):
            try:
                own = self.path / TLS / CA  # in the folder of a Brain, which serves TCP
                ca = (own if own.exists() else self.path / CA).read_bytes()
            except OSError as error:
                raise PermanentError(
                    f"cannot read {self.path / CA}: {error.strerror}",
                    hint="the token is sent only to a Brain that proves itself: copy ca.crt from its folder (tls/ca.crt)",
                ) from None
        return BrainAccess(address, token, caller, ca)


def local_brain(home: Path | None = None) -> BrainAccess:
    """The Brain that runs on this machine, with the cluster's token."""
    folder = home or brain_home()
    try:
        found = read_json(folder / WHERE)
    except OSError:
        found = None
    if found is None:
        raise NotFound(
            f"no Brain was ever started here: {folder / WHERE} does not exist",
            hint="start one with `pliant brain serve`, or say where it is: --brain host:port",
        )
    ca = folder / TLS / CA
    return BrainAccess(
        str(found["address"]), read_token_file(folder / TOKEN), ca=ca.read_bytes() if ca.exists() else None
    )


def prepare_job(folder: BrainFolder, cluster: BrainAccess, namespace: str, name: str) -> None:
    """Give a job what it needs, and no more: a token that is good for itself only."""
    folder.write(job_token(cluster.token, namespace, name), cluster.ca)
