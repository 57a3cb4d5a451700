"""``pliant brain`` on a database of its own, with what masters reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.databases import Databases, databases
from typer.testing import CliRunner, Result

from pliant.brain.store.database import Database
from pliant.cli.app import app

__all__ = ["databases"]


class BrainCommands:
    def __init__(self, database: Database, home: Path) -> None:
        self.database = database
        self.home = home
        self.url = database.engine.url.render_as_string(hide_password=False)

    def __call__(self, *args: str) -> Result:
        return invoke(self.home, *args, "--database", self.url)

    def json(self, *args: str) -> Any:
        result = self(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


def invoke(home: Path, *args: str) -> Result:
    return CliRunner(env={"PLIANT_HOME": str(home), "COLUMNS": "250"}).invoke(app, ["brain", *args])


@pytest.fixture
def brain(databases: Databases, tmp_path: Path) -> Iterator[BrainCommands]:
    with databases.migrated("sqlite") as database:
        yield BrainCommands(database, tmp_path / "home")


@pytest.fixture
def brain_on_postgresql(databases: Databases, tmp_path: Path) -> Iterator[BrainCommands]:
    with databases.migrated("postgresql") as database:
        yield BrainCommands(database, tmp_path / "home")
