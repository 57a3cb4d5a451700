"""Nothing of a payload is loaded before its owner, its hash and its stamps were checked."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pliant.api.functions.packing import pack
from pliant.api.functions.payload import FILE_NAME, Payload, Stamps, digest_of, read_checked
from pliant.core.errors import Conflict, CorruptData

pytest.importorskip("cloudpickle")


@pytest.fixture
def payload() -> Payload:
    return pack(lambda: 1, (), {}, has_path=True).payload


def written(folder: Path, payload: Payload, mode: int = 0o600) -> tuple[Path, str]:
    path, content = folder / FILE_NAME, payload.to_bytes()
    path.write_bytes(content)
    path.chmod(mode)
    return path, digest_of(content)


def test_what_was_written_is_read_back(tmp_path: Path, payload: Payload) -> None:
    assert read_checked(*written(tmp_path, payload)) == payload


def test_another_hash_is_refused(tmp_path: Path, payload: Payload) -> None:
    path, digest = written(tmp_path, payload)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(Conflict, match="was changed after the job was submitted"):
        read_checked(path, digest)


@pytest.mark.parametrize(
    ("stamp", "value", "said"),
    [
        ("python", "3.9", "pickled with Python 3.9, and this is Python"),
        ("implementation", "PyPy", "pickled with Python PyPy"),
        ("cloudpickle", "1.0", "pickled with cloudpickle 1.0, and this is cloudpickle"),
        ("pliant", "0.0.1", "pickled with Pliant 0.0.1"),
    ],
)
def test_a_pickle_of_another_version_is_not_loaded(
    tmp_path: Path, payload: Payload, stamp: str, value: str, said: str
) -> None:
    other = replace(payload, stamps=replace(payload.stamps, **{stamp: value}), body=b"not even a pickle")
    with pytest.raises(Conflict, match=said):
        read_checked(*written(tmp_path, other))


def test_a_reference_without_a_pickle_may_come_from_another_version(tmp_path: Path) -> None:
    plain = pack(len, ([1],), {}, has_path=True).payload
    other = replace(plain, stamps=replace(Stamps.here(), python="3.9"))
    assert read_checked(*written(tmp_path, other)).arguments == [[[1]], {}]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, payload: Payload, mode: int) -> None:
    with pytest.raises(Conflict, match="is not private to this user"):
        read_checked(*written(tmp_path, payload, mode))


def test_a_file_of_somebody_else_is_refused(tmp_path: Path, payload: Payload, monkeypatch: pytest.MonkeyPatch) -> None:
    path, digest = written(tmp_path, payload)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 4711)
    with pytest.raises(Conflict, match="is not private to this user"):
        read_checked(path, digest)


def test_links_fifos_folders_and_missing_files_are_refused(tmp_path: Path, payload: Payload) -> None:
    path, digest = written(tmp_path, payload)
    os.rename(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict, match="cannot be read"):
        read_checked(path, digest)
    path.unlink()
    with pytest.raises(Conflict, match="does not exist"):
        read_checked(path, digest)
    os.mkfifo(path, 0o600)
    with pytest.raises(Conflict, match="a FIFO"):
        read_checked(path, digest)
    path.unlink()
    path.mkdir()
    with pytest.raises(Conflict):
        read_checked(path, digest)


def test_whatever_is_cut_or_garbled_is_corrupt_and_nothing_else(payload: Payload) -> None:
    content = payload.to_bytes()
    for at in range(len(content)):
        with pytest.raises(CorruptData):
            Payload.from_bytes(content[:at], "the payload")
    header, _, body = content.partition(b"\n{")
    for broken in (b"", b"{}", header + b"\n[]\n" + body, header + b"\n" + b"[" * 100_000 + b"\n", content + b"more"):
        with pytest.raises(CorruptData):
            Payload.from_bytes(broken, "the payload")


def test_stamps_are_those_of_this_python() -> None:
    assert Stamps.here().python == f"{sys.version_info.major}.{sys.version_info.minor}"
    Stamps.here().check("here")
