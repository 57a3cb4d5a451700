"""Certificates made by Pliant, for traffic that leaves the machine.

Each job gets an authority of its own that signs one certificate for the master and one for the job's nodes. Both sides
show theirs (mutual TLS); a certificate of another job is not accepted.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pliant.core.errors import Unauthenticated

SERVER_NAME = "pliant-master"  # what clients check, whatever address they dial
_VALID = timedelta(days=365)


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
                hint="this job uses TLS; set PLIANT_TLS_DIR to the folder with its certificates",
            ) from None

    def server_credentials(self) -> grpc.ServerCredentials:
        pair = (self.read("master.key"), self.read("master.crt"))
        return grpc.ssl_server_credentials([pair], self.read("ca.crt"), require_client_auth=True)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.read("ca.crt"), self.read("node.key"), self.read("node.crt"))


def create_certificates(folder: Path, hosts: tuple[str, ...] = ()) -> TlsFiles:
    """Make the authority and the two certificates, once; a second call changes nothing."""
    files = TlsFiles(folder)
    if (folder / "node.crt").exists():
        return files
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pliant job authority")])
    ca = _builder(ca_name, ca_name, ca_key.public_key())
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    ca_cert = ca.sign(ca_key, hashes.SHA256())
    _write(folder / "ca.crt", ca_cert.public_bytes(serialization.Encoding.PEM))
    for name, usage in (("master", ExtendedKeyUsageOID.SERVER_AUTH), ("node", ExtendedKeyUsageOID.CLIENT_AUTH)):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"pliant-{name}")])
        builder = _builder(subject, ca_name, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(_names((f"pliant-{name}", "localhost", "127.0.0.1", *hosts)), critical=False)
        cert = builder.sign(ca_key, hashes.SHA256())
        pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        _write(folder / f"{name}.key", key.private_bytes(*pem))
        _write(folder / f"{name}.crt", cert.public_bytes(serialization.Encoding.PEM))
    return files


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=10))
        .not_valid_after(now + _VALID)
    )


def _names(hosts: tuple[str, ...]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)


def _write(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
