"""Databases for tests: SQLite files, and PostgreSQL and MariaDB servers of this test run (``tools/databases``).

The servers are started when a test first needs one, shared by the workers of pytest-xdist, and gone when the last worker is,
however it ends. Each worker has a database of its own in them, migrated once and emptied between tests. Where a server is not
installed its tests are skipped, but not with ``CI`` set.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import delete, text
from tools.databases.servers import missing
from tools.databases.supervisor import shared_server

from pliant.brain.store.database import Database
from pliant.brain.store.migrating import migrate
from pliant.brain.store.tables import metadata

FAMILIES = ("sqlite", "postgresql", "mariadb")
_numbers = count(1)


class Databases:
    """Of one worker."""

    def __init__(self, shared: Path, own: Path) -> None:
        self._shared, self._own = shared, own
        self._worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self._servers: dict[str, str] = {}
        self._migrated: dict[str, Database] = {}
        self._stack = ExitStack()

    @contextmanager
    def empty(self, family: str) -> Iterator[Database]:
        """Without any table."""
        with self._created(family, f"empty_{self._worker}_{next(_numbers)}") as url:
            database = Database(url)
            try:
                yield database
            finally:
                database.close()

    @contextmanager
    def migrated(self, family: str) -> Iterator[Database]:
        """With all tables, and nothing in them. PostgreSQL and MariaDB: only one at a time."""
        if family == "sqlite":
            template = self._own / "template.db"
            if not template.exists():
                made = Database(f"sqlite:///{template}")
                migrate(made)
                made.close()
            folder = self._own / f"sqlite-{next(_numbers)}"
            folder.mkdir(mode=0o700)
            database = Database(f"sqlite:///{shutil.copy(template, folder / 'brain.db')}")
            try:
                yield database
            finally:
                database.close()
                shutil.rmtree(folder)
            return
        if family not in self._migrated:
            database = Database(
                self._stack.enter_context(self._created(family, f"tests_{self._worker}_{next(_numbers)}"))
            )
            self._stack.callback(database.close)
            migrate(database)
            self._migrated[family] = database
        database = self._migrated[family]
        try:
            yield database
        finally:
            with database.engine.begin() as connection:
                for table in reversed(metadata.sorted_tables):
                    connection.execute(delete(table))

    def close(self) -> None:
        self._stack.close()

    @contextmanager
    def _created(self, family: str, name: str) -> Iterator[str]:
        if family == "sqlite":
            folder = self._own / name
            yield f"sqlite:///{folder / 'brain.db'}"
            shutil.rmtree(folder, ignore_errors=True)
            return
        url = self._server(family)
        system = Database(url.replace("DATABASE", "postgres" if family == "postgresql" else "mysql"))
        try:
            with system.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text(f"CREATE DATABASE {name}"))
                yield url.replace("DATABASE", name)
                connection.execute(text(f"DROP DATABASE {name}{' WITH (FORCE)' if family == 'postgresql' else ''}"))
        finally:
            system.close()

    def _server(self, family: str) -> str:
        require(family)
        if family not in self._servers:
            self._servers[family] = self._stack.enter_context(shared_server(family, self._shared))["url"]
        return self._servers[family]


def require(family: str) -> None:
    """Skip this test where there is no such server."""
    reason = missing(family) if family != "sqlite" else ""
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "databases"
    shared.mkdir(exist_ok=True)
    own = tmp_path_factory.mktemp("databases-own")
    found = Databases(shared, own)
    yield found
    found.close()
    shutil.rmtree(own, ignore_errors=True)


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(databases: Databases, family: str) -> Iterator[Database]:
    """With all tables, and nothing in them."""
    with databases.migrated(family) as found:
        yield found


@pytest.fixture
def empty_database(databases: Databases, family: str) -> Iterator[Database]:
    with databases.empty(family) as found:
        yield found
