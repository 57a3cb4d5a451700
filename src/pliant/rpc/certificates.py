"""Making a job's certificates: the authority, and what it signs. Apart from ``tls``: ``cryptography`` is slow to import."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pliant.files.atomic import write_bytes

_VALID = timedelta(days=365)


def write_certificates(folder: Path, hosts: tuple[str, ...]) -> None:
    """The authority first, ``node.crt`` last: where that is, all are."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pliant job authority")])
    ca = _builder(ca_name, ca_name, ca_key.public_key())
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    ca_cert = ca.sign(ca_key, hashes.SHA256())
    _write(folder / "ca.crt", ca_cert.public_bytes(serialization.Encoding.PEM))
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    for name, usages in (("master", [server]), ("node", [server, client])):  # parameter servers are nodes that serve
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"pliant-{name}")])
        builder = _builder(subject, ca_name, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(_names((f"pliant-{name}", "localhost", "127.0.0.1", *hosts)), critical=False)
        cert = builder.sign(ca_key, hashes.SHA256())
        pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        _write(folder / f"{name}.key", key.private_bytes(*pem))
        _write(folder / f"{name}.crt", cert.public_bytes(serialization.Encoding.PEM))


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
    write_bytes(path, content, mode=0o600)
