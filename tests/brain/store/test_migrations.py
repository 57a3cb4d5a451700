"""Every earlier schema, with data in it, becomes that of this release; one of another release is refused."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import MetaData, Table, func, insert, inspect, select, text, update
from tests.brain.store.reporting import report
from tests.databases import Databases

from pliant.brain.store import column_types
from pliant.brain.store.database import Database
from pliant.brain.store.errors import SchemaMismatch
from pliant.brain.store.jobs import running_jobs
from pliant.brain.store.migrating import VERSION_TABLE, check_schema, current_revision, head, migrate, revisions
from pliant.brain.store.reports import write_reports
from pliant.brain.store.tables import metadata

VIEWS = {"v_jobs", "v_plans", "v_node_usage", "v_machines", "v_quota_use"}


def fill(database: Database) -> dict[str, int]:
    """One row in each table that there is, with parents before children; how many each has."""
    with database.engine.begin() as connection:
        there = MetaData()
        there.reflect(connection)
        tables = [table for table in there.sorted_tables if table.name != VERSION_TABLE]
        for table in tables:
            counted = next(iter(table.c)).name == "id" and next(iter(table.c)).type.python_type is int
            names = [column.name for column in table.c][1 if counted else 0 :]  # the database counts them itself
            connection.execute(insert(table).values(**{name: _value(table, name) for name in names}))
        return {table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables}


def _value(table: Table, column: str) -> object:
    kind = table.c[column].type.python_type
    return {int: 1, float: 1.5, str: "{}", bytes: b"\0\xff", bool: True}.get(kind, 1)


def test_a_new_database_gets_all_revisions_once(empty_database: Database) -> None:
    assert current_revision(empty_database) == ""
    assert migrate(empty_database) == revisions() == ["0001", "0002", "0003"]
    assert migrate(empty_database) == []
    assert current_revision(empty_database) == head()
    check_schema(empty_database)


@pytest.mark.parametrize("revision", revisions())
def test_data_of_an_earlier_schema_is_kept(empty_database: Database, revision: str) -> None:
    migrate(empty_database, to=revision)
    before = fill(empty_database)
    assert "jobs" in before
    if revision != head():
        with pytest.raises(SchemaMismatch, match="pliant brain migrate"):
            check_schema(empty_database)
    assert migrate(empty_database) == revisions()[revisions().index(revision) + 1 :]
    check_schema(empty_database)
    with empty_database.reading() as connection:
        for name, rows in before.items():
            assert connection.scalar(select(func.count()).select_from(metadata.tables[name])) == rows
    assert len(running_jobs(empty_database)) == 0  # ended_at is 1.5
    write_reports(empty_database, [report(1)], 2000.0)
    assert len(running_jobs(empty_database)) == 1


def test_the_migrated_schema_is_that_of_the_code(empty_database: Database) -> None:
    migrate(empty_database)
    with empty_database.reading() as connection:
        options = {"compare_type": True, "version_table": VERSION_TABLE}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        assert set(inspect(connection).get_view_names()) == VIEWS


def test_a_schema_without_a_column_differs_from_that_of_the_code(empty_database: Database) -> None:
    migrate(empty_database)
    with empty_database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE quotas DROP COLUMN weight"))
    with empty_database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert len(compare_metadata(context, metadata)) == 1


def test_a_migration_that_was_killed_half_way_can_be_run_again(empty_database: Database) -> None:
    """As MySQL leaves it, which commits every change by itself."""
    migrate(empty_database, to="0001")
    with empty_database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE jobs ADD COLUMN granted BIGINT DEFAULT 0 NOT NULL"))
        connection.execute(text("CREATE TABLE quotas_of_another (x INTEGER)"))
        clusters = metadata.tables["clusters"].to_metadata(MetaData())
        clusters.create(connection)
    assert migrate(empty_database) == ["0002", "0003"]
    check_schema(empty_database)


def test_a_newer_schema_is_refused(empty_database: Database) -> None:
    migrate(empty_database)
    with empty_database.engine.begin() as connection:
        there = Table(VERSION_TABLE, MetaData(), autoload_with=connection)
        connection.execute(update(there).values(version_num="0999"))
    with pytest.raises(SchemaMismatch, match="newer"):
        check_schema(empty_database)
    with pytest.raises(SchemaMismatch, match="newer"):
        migrate(empty_database)


def test_processes_that_migrate_at_once_do_it_once(databases: Databases, family: str) -> None:
    context = multiprocessing.get_context("spawn")
    with databases.empty(family) as database, context.Pool(3) as pool:
        url = database.engine.url.render_as_string(hide_password=False)
        done = pool.map(migrate_url, [url] * 3, chunksize=1)
        assert sorted(done) == [[], [], revisions()]
        check_schema(database)


def migrate_url(url: str) -> list[str]:
    database = Database(url)
    try:
        return migrate(database)
    finally:
        database.close()


def test_migrations_do_not_depend_on_tables_of_this_release() -> None:
    versions = Path(column_types.__file__).parent / "migrations" / "versions"
    files = sorted(versions.glob("r*.py"))
    assert len(files) == len(revisions())
    assert not [file for file in files if "store.tables" in file.read_text()]
