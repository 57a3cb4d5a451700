"""Certificates made by Pliant, for traffic that leaves the machine.

Each job gets an authority of its own that signs one certificate for the master and one for the job's nodes. Both sides
show theirs (mutual TLS); a certificate of another job is not accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from pliant.core.errors import Unauthenticated

SERVER_NAME = "pliant-master"  # what clients check, whatever address they dial


@dataclass(frozen=True)
class TlsFiles:
    """The files of one job under one folder."""

    folder: Path

    def read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise Unauthenticated(
                f"cannot read {self.folder / name}: {error.strerror}",
                hint="this job uses TLS; set PLIANT_TLS_DIR to the directory with its certificates",
            ) from None

    def server_credentials(self, *, mutual: bool = True) -> grpc.ServerCredentials:
        """``mutual``: clients show a certificate, too."""
        pair = (self.read("master.key"), self.read("master.crt"))
        return grpc.ssl_server_credentials([pair], self.read("ca.crt") if mutual else None, require_client_auth=mutual)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.read("ca.crt"), self.read("node.key"), self.read("node.crt"))


@dataclass(frozen=True)
class TlsMaterial:
    """What a node has, in memory: for those who read it from elsewhere than a folder."""

    ca: bytes
    key: bytes
    certificate: bytes

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> TlsMaterial:
        """By the names that they have in a folder."""
        return cls(files["ca.crt"], files["node.key"], files["node.crt"])

    def channel_credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)


@dataclass(frozen=True)
class Authority:
    """Of a server that asks for no certificate of its clients, only for a token: by it they know that it is the server."""

    ca: bytes

    def channel_credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.ca)


def create_certificates(folder: Path, hosts: tuple[str, ...] = ()) -> TlsFiles:
    """Make the authority and the two certificates, once; a second call changes nothing."""
    if not (folder / "node.crt").exists():
        from pliant.rpc.certificates import write_certificates  # 0.1 s of imports, and few jobs use TLS

        write_certificates(folder, hosts)
    return TlsFiles(folder)
