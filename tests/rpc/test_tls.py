from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import trustme
from tests.rpc.raw import send_raw

from pliant.core.errors import MasterUnavailable, Unauthenticated
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, MasterClient
from pliant.rpc.tls import SERVER_NAME, TlsFiles, create_certificates
from pliant.testing import RunningMaster

SECURE = {"components": {"need_pod_manager": False}}  # TCP is with TLS


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningMaster]:
    with RunningMaster(tmp_path_factory.mktemp("secure"), SECURE, host="127.0.0.1") as running:
        yield running


def ask(address: Address) -> str:
    client = MasterClient(address)
    try:
        status: pb.JobStatus = client.call(client.stubs.job.GetStatus, pb.Empty(), timeout=60)
        return status.name
    finally:
        client.close()


def ask_with(master: RunningMaster, credentials: grpc.ChannelCredentials) -> grpc.StatusCode:
    options = [("grpc.ssl_target_name_override", SERVER_NAME)]
    target, token = master.tcp_address.target, master.tcp_address.token
    method = "/pliant.v1.Job/GetStatus"
    return send_raw(target, method, b"", token=token, timeout=60, credentials=credentials, options=options)


def test_a_client_with_the_jobs_certificate_and_token_is_let_in(secure: RunningMaster) -> None:
    assert secure.tcp_address.tls is not None
    assert ask(secure.tcp_address) == "tested"


def test_the_token_is_needed_beside_the_certificate(secure: RunningMaster) -> None:
    with pytest.raises(Unauthenticated):
        ask(Address(secure.tcp_address.target, "f" * 64, secure.tcp_address.tls))


def test_a_plain_client_is_refused_by_a_master_with_tls(secure: RunningMaster) -> None:
    with pytest.raises(MasterUnavailable):
        ask(Address(secure.tcp_address.target, secure.tcp_address.token, None, allows_plaintext=True))


def test_a_client_without_a_certificate_is_refused(secure: RunningMaster) -> None:
    only_trusts = grpc.ssl_channel_credentials(TlsFiles(secure.job_dir.tls).read("ca.crt"))
    assert ask_with(secure, only_trusts) is grpc.StatusCode.UNAVAILABLE


def test_a_client_with_a_certificate_of_another_authority_is_refused(secure: RunningMaster) -> None:
    stranger = trustme.CA().issue_cert("pliant-node")
    ours = TlsFiles(secure.job_dir.tls).read("ca.crt")
    key, chain = stranger.private_key_pem.bytes(), stranger.cert_chain_pems[0].bytes()
    assert ask_with(secure, grpc.ssl_channel_credentials(ours, key, chain)) is grpc.StatusCode.UNAVAILABLE


def test_the_certificate_of_another_job_is_refused(secure: RunningMaster, tmp_path: Path) -> None:
    other = create_certificates(tmp_path / "tls")
    with pytest.raises(MasterUnavailable):
        ask(Address(secure.tcp_address.target, secure.tcp_address.token, other))


def test_a_client_does_not_talk_to_a_master_of_another_authority(secure: RunningMaster, tmp_path: Path) -> None:
    files = create_certificates(tmp_path / "tls")
    authority = trustme.CA()
    (files.folder / "ca.crt").write_bytes(authority.cert_pem.bytes())
    with pytest.raises(MasterUnavailable):
        ask(Address(secure.tcp_address.target, secure.tcp_address.token, files))


def test_a_client_with_tls_does_not_talk_to_a_plain_master(tmp_path: Path) -> None:
    plain = {**SECURE, "security": {"tls": False}}
    certificates = create_certificates(tmp_path / "tls")
    with RunningMaster(tmp_path, plain, host="127.0.0.1") as master, pytest.raises(MasterUnavailable):
        ask(Address(master.tcp_address.target, master.tcp_address.token, certificates))


def test_certificates_are_made_once_and_their_keys_are_private(tmp_path: Path) -> None:
    create_certificates(tmp_path / "tls", ("10.0.0.7", "host.example"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()}
    create_certificates(tmp_path / "tls")
    assert {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()} == before
    assert set(before) == {"ca.crt", "master.key", "master.crt", "node.key", "node.crt"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "tls").iterdir())


def test_a_missing_certificate_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated, match="PLIANT_TLS_DIR"):
        TlsFiles(tmp_path).channel_credentials()
