"""The token of a job: made by the command, used by ``pliant run`` elsewhere, accepted by the Brain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.commands.brain.conftest import invoke

from pliant.core.errors import Unauthenticated
from pliant.launch.joining_brain import BRAIN_DIR, give_token, with_address
from pliant.master.job_dir import JobDir
from pliant.rpc.brain.access import BrainFolder
from pliant.rpc.brain.identity import Caller, caller_of, credentials
from pliant.spec import JobSpec

pytestmark = pytest.mark.databases

CLUSTER_TOKEN = "c" * 64
CA = b"-----BEGIN CERTIFICATE-----\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With the folder of a Brain that serves TCP."""
    made = tmp_path / "home"
    BrainFolder(made / "brain").write(CLUSTER_TOKEN, None)
    (made / "brain/tls").mkdir(mode=0o700)
    (made / "brain/tls/ca.crt").write_bytes(CA)
    return made


def spec(name: str) -> JobSpec:
    optimize = {"mode": "cluster", "brain": "brain.example:50051"}
    roles = {"worker": {"command": ["python", "train.py"]}}
    return JobSpec.model_validate({"name": name, "roles": roles, "optimize": optimize})


def test_no_token_is_printed_unless_asked_for(home: Path, tmp_path: Path) -> None:
    results = [invoke(home, "token"), invoke(home, "token", "--json"), invoke(home, "token", "digits")]
    results.append(invoke(home, "token", "digits", "--out", str(tmp_path / "out")))
    token = (tmp_path / "out/token").read_text()
    assert not any(secret in result.output for result in results for secret in (CLUSTER_TOKEN, token))
    assert str(home / "brain/token") in results[0].stdout
    assert results[2].exit_code == 2, "neither --out nor --show"
    assert invoke(home, "token", "--show").stdout == f"{CLUSTER_TOKEN}\n"
    assert invoke(home, "token", "digits", "--show").stdout == f"{token}\n"
    assert json.loads(invoke(home, "token", "digits", "--show", "--json").stdout)["token"] == token


def test_the_folder_is_only_for_its_owner_and_has_all_that_a_job_needs(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep/out"
    assert invoke(home, "token", "digits", "--out", str(out)).exit_code == 0
    assert out.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in out.iterdir()} == dict.fromkeys(
        ("token", "ca.crt", "job"), 384
    )
    assert ((out / "job").read_text().strip(), (out / "ca.crt").read_bytes()) == ("local/digits", CA)
    assert invoke(home, "token", "digits", "--out", str(out)).exit_code == 0, "again is the same"


def test_a_job_elsewhere_joins_with_it_and_the_brain_knows_who_calls(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke(home, "token", "digits", "--out", str(tmp_path / "out"))
    monkeypatch.setenv(BRAIN_DIR, str(tmp_path / "out"))
    job = JobDir(tmp_path / "job")
    joined = with_address(spec("digits"))
    give_token(joined, job)
    assert joined.optimize.brain == "brain.example:50051"
    caller = Caller("local", "digits")
    access = BrainFolder(job.brain).access(joined.optimize.brain, caller)
    assert access.ca == CA
    assert caller_of(dict(credentials(access.token, caller)), CLUSTER_TOKEN) == caller
    assert caller_of(dict(credentials(access.token, Caller("local", "other"))), CLUSTER_TOKEN) is None
    with pytest.raises(Unauthenticated, match="local/digits"):
        give_token(spec("other"), JobDir(tmp_path / "other"))


def test_the_namespace_is_part_of_it(home: Path) -> None:
    one = invoke(home, "token", "digits", "--namespace", "team-a", "--show").stdout
    assert invoke(home, "token", "team-a/digits", "--show").stdout == one
    assert invoke(home, "token", "digits", "--show").stdout != one
    assert invoke(home, "token", "a b", "--show").exit_code == 2


def test_no_other_token_is_overwritten(home: Path, tmp_path: Path) -> None:
    assert invoke(home, "token", "digits", "--out", str(home / "brain")).exit_code == 2
    assert (home / "brain/token").read_text() == CLUSTER_TOKEN
    out = str(tmp_path / "out")
    invoke(home, "token", "digits", "--out", out)
    other = invoke(home, "token", "other", "--out", out)
    assert (other.exit_code, "local/digits" in other.stderr) == (2, True)
    assert invoke(home, "token", "other", "--show", "--dir", out).exit_code == 2, "a job's token makes no others"


def test_without_a_brains_folder_the_error_says_how_to_get_one(tmp_path: Path) -> None:
    result = invoke(tmp_path / "home", "token")
    assert (result.exit_code, "pliant brain serve" in result.stderr) == (2, True)


def test_a_job_on_the_machine_of_a_brain_that_serves_tcp_finds_its_authority(home: Path) -> None:
    access = BrainFolder(home / "brain").access("127.0.0.1:50051", Caller("local", "digits"))
    assert (access.token, access.ca) == (CLUSTER_TOKEN, CA)
