"""What only its owner can use is made so or refused, as ssh does."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.core.errors import Conflict
from pliant.files.private import (
    check_own_entries,
    check_own_file,
    exposed_parents,
    inherited_umask,
    make_private_folder,
)


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def become_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)


def test_a_new_folder_and_its_new_parents_are_private_whatever_the_umask(tmp_path: Path) -> None:
    assert make_private_folder(tmp_path / "a" / "b" / "c") is None
    assert {mode_of(tmp_path / name) for name in ("a", "a/b", "a/b/c")} == {0o700}


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o750, 0o2775])
def test_a_folder_of_ours_that_lets_others_in_is_closed_to_them(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    assert make_private_folder(folder) == mode
    assert mode_of(folder) & 0o777 == 0o700
    assert make_private_folder(folder) is None


def test_a_link_a_file_and_a_shared_folder_are_refused_and_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    for name, why in (("link", "symbolic link"), ("file", "not a directory"), ("shared", "shared with other users")):
        with pytest.raises(Conflict, match=why):
            make_private_folder(tmp_path / name)
    assert mode_of(tmp_path / "shared") == 0o1777


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    become_another_user(monkeypatch)
    with pytest.raises(Conflict, match="belongs to the user"):
        make_private_folder(tmp_path / "theirs")


def test_what_another_user_left_in_a_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").symlink_to("/nowhere")
    check_own_entries(tmp_path)
    become_another_user(monkeypatch)
    with pytest.raises(Conflict, match="token belongs to"):
        check_own_entries(tmp_path)


def test_a_secret_is_a_regular_file_that_nobody_else_can_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    check_own_file(path, secret="it")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(Conflict, match="not a regular file"):
        check_own_file(tmp_path / "link", secret="it")
    path.chmod(0o640)
    with pytest.raises(Conflict, match=r"mode 0640\), so it is not secret"):
        check_own_file(path, secret="it")
    path.chmod(0o600)
    become_another_user(monkeypatch)
    with pytest.raises(Conflict, match="belongs to"):
        check_own_file(path, secret="it")


def test_parents_in_which_others_can_replace_a_folder_are_named(tmp_path: Path) -> None:
    above = tmp_path / "above"
    (above / "job").mkdir(parents=True)
    for mode, by_anyone in ((0o777, [True]), (0o1777, []), (0o755, [])):
        above.chmod(mode)
        found = [(parent, anyone) for parent, _, anyone in exposed_parents(above / "job") if parent == above]
        assert found == [(above, anyone) for anyone in by_anyone]
    above.chmod(0o777)
    (tmp_path / "link").symlink_to(above / "job")
    assert any(parent == above for parent, *_ in exposed_parents(tmp_path / "link")), "also behind a link"


def test_a_process_that_restricted_nothing_hands_its_umask_down() -> None:
    assert inherited_umask() == -1
