from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.commands.brain.conftest import invoke

from pliant.brain.store.migrating import revisions

pytestmark = pytest.mark.databases


def test_a_check_changes_nothing_and_says_what_a_migration_then_does(tmp_path: Path) -> None:
    folder = tmp_path / "brain"
    checked = invoke(tmp_path, "migrate", "--check", "--dir", str(folder), "--json")
    assert (checked.exit_code, json.loads(checked.stdout)["pending"]) == (1, revisions())
    assert not folder.exists()
    applied = invoke(tmp_path, "migrate", "--dir", str(folder), "--json")
    assert (applied.exit_code, json.loads(applied.stdout)["applied"]) == (0, revisions())
    assert (folder / "brain.db").stat().st_mode & 0o777 == 0o600
    again = invoke(tmp_path, "migrate", "--check", "--dir", str(folder), "--json")
    assert (again.exit_code, json.loads(again.stdout)["pending"]) == (0, [])
    assert "nothing to do" in invoke(tmp_path, "migrate", "--dir", str(folder)).stdout


def test_every_revision_is_described(tmp_path: Path) -> None:
    shown = invoke(tmp_path, "migrate").stdout.splitlines()
    assert len(shown) == len(revisions())
    assert shown[0].startswith("applied: 0001 Jobs")
