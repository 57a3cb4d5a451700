"""Steps of migrations that can be repeated: MySQL commits each change of a table by itself, so a migration that was killed
half way is run again from its beginning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alembic import op
from sqlalchemy import Column, Connection, MetaData, inspect


def create_missing(connection: Connection, metadata: MetaData) -> None:
    metadata.create_all(connection, checkfirst=True)
    there = inspect(connection)
    for table in metadata.sorted_tables:
        names = {index["name"] for index in there.get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in names:
                index.create(connection)


def add_missing_columns(connection: Connection, table: str, columns: Iterable[Column[Any]]) -> None:
    names = {column["name"] for column in inspect(connection).get_columns(table)}
    for column in columns:
        if column.name not in names:
            op.add_column(table, column)


def replace_view(connection: Connection, name: str, query: str) -> None:
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
    connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}".replace("%", "%%"))
