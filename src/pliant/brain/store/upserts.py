"""INSERT that updates the row that is there already, in the words of each database; to be executed with a list of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.sql.dml import Insert

MAX_PARAMETERS = 500  # names or ids in one IN

T = TypeVar("T")


def portions(values: Iterable[T], size: int = MAX_PARAMETERS) -> Iterator[list[T]]:
    """Of a size that fits into one statement."""
    found = list(values)
    for begin in range(0, len(found), size):
        yield found[begin : begin + size]


def upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    add: Collection[str] = (),
    keep: Collection[str] = (),
) -> None:
    """All rows have the same columns. Of a row that is there, those of ``add`` are added to, those of ``keep`` stay as they
    are, and all others are replaced."""
    if rows:
        keys = _keys(table, rows[0])
        others = tuple(name for name in rows[0] if name not in keys and name not in keep)
        statement = _statement(connection.dialect.name, table, keys, others, frozenset(add))
        connection.execute(statement, list(rows))


def _keys(table: Table, row: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns of the primary key, or else of the one unique constraint that the row has values for."""
    primary = tuple(column.name for column in table.primary_key)
    if all(column in row for column in primary):
        return primary
    for constraint in sorted(table.constraints, key=lambda each: str(each.name)):
        columns = tuple(column.name for column in getattr(constraint, "columns", ()))
        if str(constraint.name or "").startswith("uq_") and all(column in row for column in columns):
            return columns
    raise AssertionError(f"a row of {table.name} without a key")


@lru_cache
def _statement(
    family: str, table: Table, keys: tuple[str, ...], others: tuple[str, ...], added: frozenset[str]
) -> Insert:
    def changes(new: Any) -> dict[str, ColumnElement[Any]]:
        return {name: _changed(table.c[name], new[name], name in added) for name in others}

    if family == "mysql":
        inserted = mysql.insert(table)
        return inserted.on_duplicate_key_update(**(changes(inserted.inserted) or {keys[0]: table.c[keys[0]]}))
    found = postgresql.insert(table) if family == "postgresql" else sqlite.insert(table)
    if not others:
        return found.on_conflict_do_nothing(index_elements=list(keys))
    return found.on_conflict_do_update(index_elements=list(keys), set_=changes(found.excluded))


def _changed(column: Column[Any], new: ColumnElement[Any], is_added: bool) -> ColumnElement[Any]:
    return column + new if is_added else new
