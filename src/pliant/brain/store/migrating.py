"""Bringing a database to the schema of this release, and refusing one of another.

Whoever migrates holds a lock of the database, so two at a time are one after the other, and the second finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from pliant.brain.store.database import Database
from pliant.brain.store.errors import DatabaseBusy, SchemaMismatch
from pliant.brain.store.urls import MYSQL, POSTGRESQL, SQLITE, idle_setting

VERSION_TABLE = "schema_revision"
_LOCK = "pliant brain migration"
_LOCK_NUMBER = 0x706C69616E74  # the same for PostgreSQL, whose locks are numbers
_LOCK_TIMEOUT_S = 600
_FOLDER = Path(__file__).parent / "migrations"


def head() -> str:
    """The revision of this release."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def revisions() -> list[str]:
    """All that this release knows, oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


def current_revision(database: Database) -> str:
    """Of the database; empty: it has no tables of ours."""
    with database.reading() as connection:
        return _revision(connection)


def description_of(revision: str) -> str:
    """In one sentence, for people."""
    return str(ScriptDirectory.from_config(_config()).get_revision(revision).doc)


def pending_revisions(database: Database) -> list[str]:
    """That ``migrate`` would apply, oldest first. Raises ``SchemaMismatch`` if the database is of a later release."""
    found, known = current_revision(database), revisions()
    _check_known(database, found, known)
    return known[known.index(found) + 1 if found else 0 :]


def migrate(database: Database, to: str = "head") -> list[str]:
    """The revisions that were applied, oldest first; none if there is nothing to do."""
    known = revisions()

    def upgrade(connection: Connection) -> list[str]:
        before = _revision(connection)
        _check_known(database, before, known)
        _allow_pauses(connection, database.family)
        config = _config()
        config.attributes["connection"] = connection
        config.attributes["is_transactional"] = database.family != MYSQL
        command.upgrade(config, to)
        after = _revision(connection)
        return known[known.index(before) + 1 if before else 0 : known.index(after) + 1]

    try:
        with _lock(database):
            return database.transaction(upgrade)
    finally:
        database.close()  # MySQL keeps what was set for a migration as long as the connection


def check_schema(database: Database) -> None:
    """Raises ``SchemaMismatch`` unless the database has exactly the tables of this release."""
    found, known = current_revision(database), revisions()
    _check_known(database, found, known)
    if found != known[-1]:
        raise SchemaMismatch(
            f"{database.shown_url} has schema {found or 'none'}, this release needs {known[-1]}",
            hint="run: pliant brain migrate",
        )


def _check_known(database: Database, found: str, known: list[str]) -> None:
    if found and found not in known:
        raise SchemaMismatch(
            f"{database.shown_url} has schema {found}, newer than {known[-1]} of this release",
            hint="use the release of Pliant that migrated it, or a later one",
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config


def _revision(connection: Connection) -> str:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision() or ""


def _allow_pauses(connection: Connection, family: str) -> None:
    """A migration may compute for long between two statements."""
    if family == POSTGRESQL:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    elif family == MYSQL:
        connection.exec_driver_sql(f"SET SESSION innodb_lock_wait_timeout = 30 {idle_setting(0)}")


@contextmanager
def _lock(database: Database) -> Iterator[None]:
    """Held by a connection of its own, until the migration is committed. SQLite needs none: its transaction is the lock."""
    if database.family == SQLITE:
        yield
        return
    with database.reading() as connection:
        if database.family == POSTGRESQL:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT_S}s'")
            _allow_pauses(connection, database.family)
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})
            yield
            return
        _allow_pauses(connection, database.family)
        wanted = {"name": _LOCK, "seconds": _LOCK_TIMEOUT_S}
        if connection.scalar(text("SELECT get_lock(:name, :seconds)"), wanted) != 1:
            raise DatabaseBusy(f"{database.shown_url} is being migrated by another process")
        try:
            yield
        finally:
            connection.execute(text("SELECT release_lock(:name)"), {"name": _LOCK})
