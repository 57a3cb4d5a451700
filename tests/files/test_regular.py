"""Files that others put there are opened without waiting, and only if they are plain ones."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import CorruptData
from pliant.files.atomic import read_json
from pliant.files.regular import open_regular, read_bytes
from pliant.files.typed_json import record_of

SPECIAL = ["fifo", "socket", "directory", "device", "link to a device", "loop"]


def put_special(path: Path, kind: str) -> None:
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(str(path))
        case "directory":
            path.mkdir()
        case "device" | "link to a device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_not_a_plain_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "note.json"
    put_special(path, kind)
    with pytest.raises(CorruptData, match=r"note\.json"):
        open_regular(path)
    assert read_json(path) is None


def test_a_link_to_a_file_is_followed_only_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"12345")
    link = tmp_path / "link"
    link.symlink_to("real")
    assert read_bytes(link, 5) == b"12345"
    with pytest.raises(CorruptData):
        read_bytes(link, 5, follow_symlinks=False)


def test_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"123456")
    with pytest.raises(CorruptData, match="more than 5 bytes"):
        read_bytes(path, 5)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none", 5)


@dataclass(frozen=True)
class Note:
    number: int
    text: str
    seconds: float
    sums: tuple[int, ...]


GOOD: dict[str, Any] = {"number": 1, "text": "a", "seconds": 0.5, "sums": [1, 2]}


def test_a_note_has_all_its_fields_in_their_types() -> None:
    assert record_of(Note, {**GOOD, "later": "release"}, "note") == Note(1, "a", 0.5, (1, 2))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", True),
        ("number", -1),
        ("number", 2**63),
        ("number", "1"),
        ("text", 1),
        ("text", "x" * 5000),
        ("seconds", float("nan")),
        ("seconds", 10**400),
        ("sums", "12"),
        ("sums", [1, None]),
        ("sums", {"0": 1}),
    ],
)
def test_a_field_of_another_type_or_range_is_damage_and_named(name: str, value: Any) -> None:
    with pytest.raises(CorruptData, match=f"note.*{name}"):
        record_of(Note, {**GOOD, name: value}, "note")
    with pytest.raises(CorruptData, match=f"{name} is missing"):
        record_of(Note, {key: GOOD[key] for key in GOOD if key != name}, "note")
