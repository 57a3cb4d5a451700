"""The certificates, tokens and kubeconfigs of one cluster; made anew for each, and of no use elsewhere."""

from __future__ import annotations

import datetime
import ipaddress
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = datetime.timedelta(days=30)
PORT = 6443


@dataclass(frozen=True)
class User:
    """Somebody who may call the API server, by a token."""

    name: str  # of the file: NAME.kubeconfig
    user: str
    groups: tuple[str, ...] = ()


USERS = (
    User("admin", "admin", ("system:masters",)),
    User("operator", "operator", ("system:masters",)),  # the same rights, another name in the audit log
    User("masters", "masters", ("system:masters",)),  # likewise, for a bench that plays masters
    User("nobody", "nobody"),  # no rights at all, for tests of refusals
    User("controller-manager", "system:kube-controller-manager"),
    User("scheduler", "system:kube-scheduler"),
    User("proxy", "system:kube-proxy"),
)


def make(folder: Path, address: str, service_address: str, nodes: Sequence[str]) -> None:
    """Everything the servers and their callers need, in ``folder``."""
    folder.mkdir(mode=0o700, parents=True)
    authority, key = _authority()
    _write(folder / "ca.crt", authority.public_bytes(serialization.Encoding.PEM))
    _write_key(folder / "ca.key", key)
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    addresses = ["127.0.0.1", address, service_address]
    for server in ("apiserver", "kubelet"):
        _issue(folder, server, [(NameOID.COMMON_NAME, server)], names, addresses, authority, key)
    to_kubelet = [(NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, "kube-apiserver")]
    _issue(folder, "kubelet-client", to_kubelet, names, addresses, authority, key)
    signing = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write_key(folder / "accounts.key", signing)
    public = signing.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(folder / "accounts.pub", public)
    users = [*USERS, *(User(node, f"system:node:{node}", ("system:nodes",)) for node in nodes)]
    lines = []
    for user in users:
        token = secrets.token_urlsafe(24)
        lines.append(f'{token},{user.user},{user.name},"{",".join(user.groups)}"\n')
        _write_kubeconfig(folder, user.name, address, token)
    _write(folder / "tokens.csv", "".join(lines).encode())


def _authority() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pliant-testbed")])
    builder = _begin(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.sign(key, hashes.SHA256()), key


def _begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFE)
    )


def _issue(
    folder: Path,
    file: str,
    subject: Sequence[tuple[x509.ObjectIdentifier, str]],
    names: Sequence[str],
    addresses: Sequence[str],
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject_name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
    alternatives = [x509.DNSName(name) for name in names]
    where = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = (
        _begin(subject_name, authority.subject, key)
        .add_extension(x509.SubjectAlternativeName([*alternatives, *where]), critical=False)
        .add_extension(usage, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    _write(folder / f"{file}.crt", certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(folder / f"{file}.key", key)


def _write_key(path: Path, key: CertificateIssuerPrivateKeyTypes) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    _write(path, pem)


def _write(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)


def _write_kubeconfig(folder: Path, name: str, address: str, token: str) -> None:
    cluster = {"server": f"https://{address}:{PORT}", "certificate-authority": str(folder / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": name}}],
        "current-context": "testbed",
    }
    _write(folder / f"{name}.kubeconfig", json.dumps(config, indent=1).encode())
