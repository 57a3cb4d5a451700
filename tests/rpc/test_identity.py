from __future__ import annotations

import logging
import os
from pathlib import Path

import grpc
import pytest
from tests.rpc.raw import send_raw

from pliant.core.errors import Conflict, PermanentError, Unauthenticated
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, MasterClient
from pliant.rpc.identity import TOKEN_HEADER, create_token_file, read_token_file, same_token
from pliant.testing import RunningMaster

ANOTHER_JOBS_TOKEN = "0123456789abcdef" * 4


def stop_the_job(target: str, metadata: list[tuple[str, str]]) -> grpc.StatusCode:
    request = pb.StopRequest(reason="an intruder").SerializeToString()
    return send_raw(target, "/pliant.v1.Job/Stop", request, metadata=metadata)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param([], id="no token"),
        pytest.param([(TOKEN_HEADER, "")], id="an empty token"),
        pytest.param([(TOKEN_HEADER, "guess")], id="a guess"),
        pytest.param([(TOKEN_HEADER, ANOTHER_JOBS_TOKEN)], id="another job's token"),
        pytest.param([("authorization", "bearer x")], id="another header"),
    ],
)
def test_who_does_not_know_the_secret_is_refused_and_changes_nothing(
    master: RunningMaster, metadata: list[tuple[str, str]]
) -> None:
    before = master.state()
    assert stop_the_job(master.address.target, metadata) is grpc.StatusCode.UNAUTHENTICATED
    assert master.state() == before


def test_a_prefix_of_the_secret_is_not_the_secret(master: RunningMaster) -> None:
    token = master.address.token
    for given in (token[:-1], token + "0", token.upper() + " ", f" {token}x"):
        assert stop_the_job(master.address.target, [(TOKEN_HEADER, given)]) is grpc.StatusCode.UNAUTHENTICATED


def test_a_refused_caller_is_logged_without_its_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spec = {"components": {"need_pod_manager": False}}
    with caplog.at_level(logging.WARNING, logger="pliant.rpc.server"), RunningMaster(tmp_path, spec) as master:
        for _ in range(5):
            stop_the_job(master.address.target, [(TOKEN_HEADER, ANOTHER_JOBS_TOKEN)])
        assert master.alive
    told = [record.getMessage() for record in caplog.records if "token" in record.getMessage()]
    assert len(told) == 3, "the 1st, 2nd and 4th: a flood does not fill the log"
    assert "/pliant.v1.Job/Stop" in told[0]
    assert ANOTHER_JOBS_TOKEN not in caplog.text


def test_a_wrong_token_comes_out_as_our_own_error(master: RunningMaster) -> None:
    intruder = MasterClient(Address(master.address.target, ANOTHER_JOBS_TOKEN))
    with pytest.raises(Unauthenticated):
        intruder.call(intruder.stubs.job.GetStatus, pb.Empty())
    intruder.close()


def test_a_token_file_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = create_token_file(path)
    assert create_token_file(path) == read_token_file(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    assert create_token_file(tmp_path / "other") != token


def test_a_missing_or_short_token_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated, match="PLIANT_TOKEN_FILE"):
        read_token_file(tmp_path / "none")
    (tmp_path / "short").write_text("abc")
    (tmp_path / "short").chmod(0o600)
    with pytest.raises(Unauthenticated, match="does not contain a job token"):
        read_token_file(tmp_path / "short")


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o622])
def test_a_token_that_others_can_read_or_change_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(ANOTHER_JOBS_TOKEN)
    path.chmod(mode)
    with pytest.raises(Unauthenticated, match=f"not secret.*mode {mode:04o}"):
        read_token_file(path)
    with pytest.raises(Conflict, match="is not secret"):
        create_token_file(path)


def test_a_token_that_kubernetes_mounts_for_its_group_is_used(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(ANOTHER_JOBS_TOKEN)
    path.chmod(0o440)
    (tmp_path / "link").symlink_to(path)
    assert read_token_file(tmp_path / "link") == ANOTHER_JOBS_TOKEN


def test_a_token_in_a_jobs_folder_that_is_a_link_or_someone_elses_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_token_file(tmp_path / "planted")
    (tmp_path / "token").symlink_to(tmp_path / "planted")
    with pytest.raises(Conflict, match="not a regular file"):
        create_token_file(tmp_path / "token")
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(Conflict, match="belongs to"):
        create_token_file(tmp_path / "planted")


def test_an_address_does_not_show_its_token() -> None:
    assert ANOTHER_JOBS_TOKEN not in repr(Address("unix:/x", ANOTHER_JOBS_TOKEN))


def test_tokens_of_any_bytes_can_be_compared() -> None:
    assert not same_token("\udcff\x00ü", ANOTHER_JOBS_TOKEN)
    assert not same_token(b"\xff", ANOTHER_JOBS_TOKEN)
    assert same_token(ANOTHER_JOBS_TOKEN.encode(), ANOTHER_JOBS_TOKEN)


def test_an_environment_without_a_master_or_token_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="PLIANT_MASTER_ADDR"):
        Address.from_env({})
    with pytest.raises(PermanentError, match="PLIANT_TOKEN_FILE"):
        Address.from_env({"PLIANT_MASTER_ADDR": "here:1"})
