"""The Brain's folder: made by itself, or by somebody else who mounts it read-only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pliant.brain.own_folder import OwnFolder
from pliant.files.atomic import read_json
from pliant.rpc.brain.access import TOKEN, WHERE
from pliant.rpc.tls import create_certificates

SECRET = "s" * 64
USE = """
import sys
from pathlib import Path
from pliant.brain.own_folder import OwnFolder
folder = OwnFolder(Path(sys.argv[1]))
print(folder.token())
folder.publish("10.0.0.1:50051", 1)
folder.certificates("10.0.0.1").server_credentials(mutual=False)
print("serves")
"""


def as_a_secret(folder: Path, *, certificates: bool) -> None:
    """As Kubernetes mounts one: its files are links."""
    content = folder / "..data"
    content.mkdir(parents=True)
    (content / TOKEN).write_text(SECRET)
    (content / TOKEN).chmod(0o440)
    (folder / TOKEN).symlink_to(f"..data/{TOKEN}")
    if certificates:
        create_certificates(content / "tls")
        (folder / "tls").symlink_to("..data/tls")


def use_read_only(folder: Path) -> subprocess.CompletedProcess[str]:
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$0" -c "$2" "$1"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, sys.executable, str(folder), USE]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module", autouse=True)
def _mounts_are_possible() -> None:
    done = subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True, timeout=60)
    if done.returncode != 0:
        pytest.skip("this user may not make mount namespaces")


def test_a_folder_that_somebody_else_made_is_used_as_it_is(tmp_path: Path) -> None:
    as_a_secret(tmp_path / "brain", certificates=True)
    done = use_read_only(tmp_path / "brain")
    assert done.stdout.split() == [SECRET, "serves"], done.stderr
    assert not (tmp_path / "brain" / WHERE).exists()


def test_a_folder_without_certificates_that_cannot_be_written_says_what_is_missing(tmp_path: Path) -> None:
    as_a_secret(tmp_path / "brain", certificates=False)
    done = use_read_only(tmp_path / "brain")
    assert done.stdout.split() == [SECRET]
    assert "has no master.crt" in done.stderr


def test_a_folder_of_its_own_gets_a_token_certificates_and_where_it_serves(tmp_path: Path) -> None:
    folder = OwnFolder(tmp_path / "brain")
    token = folder.token()
    folder.certificates("localhost").server_credentials(mutual=False)
    folder.publish("localhost:1", 3)
    found = read_json(tmp_path / "brain" / WHERE)
    assert found is not None
    assert (found["address"], found["term"]) == ("localhost:1", 3)
    assert OwnFolder(tmp_path / "brain").token() == token
