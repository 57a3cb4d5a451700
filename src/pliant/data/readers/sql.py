"""A table of a database as records: a record is a dict of the chosen columns, in the order of the primary key.

Databases have no record numbers, so on opening one query fetches the key of every 1000th row; a range then starts at the key
before it and never counts through the table. The table must stay as it is during a job: rows that come or go would move the
numbers of all after them. To train on a table that changes, copy it first (``pliant data pack``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import Any

from pliant.core.errors import CorruptData, InvalidRequest, NotFound
from pliant.data.contract import Metadata, PartReader
from pliant.data.errors import MissingLibrary

EVERY = 1000  # rows between remembered keys


def _library() -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise MissingLibrary("a database table", "sqlalchemy") from None
    return sqlalchemy


@contextmanager
def _database(where: str) -> Iterator[None]:
    """What the database says, as an error of ours that names it."""
    exc = _library().exc
    try:
        yield
    except exc.NoSuchTableError:
        raise
    except exc.DatabaseError as error:
        raise CorruptData(f"{where} cannot be read: {error.orig!s:.1000}") from error
    except (exc.SQLAlchemyError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"{where} cannot be used: {error!s:.1000}") from error


class SqlReader(PartReader):
    """``SqlReader("sqlite:///data.db", table="samples", columns=["x", "y"])``; ``key``: a unique column to order by."""

    def __init__(self, url: str, *, table: str, columns: Sequence[str] | None = None, key: str | None = None) -> None:
        self._url = url
        self._table_name = table
        self._columns = list(columns) if columns is not None else None
        self._key_name = key

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._url, self._table_name, self._columns, self._key_name)

    @cached_property
    def _engine(self) -> Any:
        sql = _library()
        try:
            return sql.create_engine(self._url)
        except (sql.exc.ArgumentError, ImportError) as error:
            raise InvalidRequest(
                f"the database URL cannot be used: {error}", hint="check its scheme and driver"
            ) from None

    @cached_property
    def _table(self) -> Any:
        sql = _library()
        try:
            with _database(self._where):
                return sql.Table(self._table_name, sql.MetaData(), autoload_with=self._engine)
        except sql.exc.NoSuchTableError:
            known = ", ".join(sql.inspect(self._engine).get_table_names())
            raise NotFound(
                f"table {self._table_name!r} not found in {self._where}", hint=f"tables: {known or 'none'}"
            ) from None

    @property
    def _where(self) -> str:
        return str(self._engine.url.render_as_string(hide_password=True))

    @cached_property
    def _chosen(self) -> list[Any]:
        return [self._column(name) for name in self._columns or [c.name for c in self._table.columns]]

    def _column(self, name: str) -> Any:
        if name not in self._table.columns:
            known = ", ".join(c.name for c in self._table.columns)
            raise InvalidRequest(f"table {self._table_name!r} has no column {name!r}", hint=f"it has: {known}")
        return self._table.columns[name]

    @cached_property
    def _key(self) -> Any:
        if self._key_name is not None:
            return self._column(self._key_name)
        keys = list(self._table.primary_key.columns)
        if len(keys) != 1:
            what = f"table {self._table_name!r} has {len(keys)} columns in its primary key"
            raise InvalidRequest(
                f"{what}, so rows cannot be ordered by a single column", hint="pass a unique column: key=…"
            )
        return keys[0]

    @cached_property
    def _count(self) -> int:
        sql = _library()
        with _database(self._where), self._engine.connect() as connection:
            rows, keys = connection.execute(sql.select(sql.func.count(), sql.func.count(self._key.distinct()))).one()
        if rows != keys:
            raise InvalidRequest(f"column {self._key.name!r} has {keys} values for {rows} rows; a key must be unique")
        return int(rows)

    @cached_property
    def _marks(self) -> list[Any]:
        """The keys of rows 0, 1000, 2000, …"""
        sql = _library()
        number = sql.func.row_number().over(order_by=self._key).label("n")
        rows = sql.select(self._key.label("k"), number).subquery()
        query = sql.select(rows.c.k).where((rows.c.n - 1) % EVERY == 0).order_by(rows.c.k)
        with _database(self._where), self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    @property
    def metadata(self) -> Metadata:
        return Metadata("sql", tuple(c.name for c in self._chosen), {c.name: str(c.type) for c in self._chosen})

    def create_shards(self) -> Mapping[str, int]:
        return {self._table_name: self._count}

    def read_part(self, number: int, start: int, stop: int) -> Iterable[dict[str, Any]]:
        for first in range(start, stop, EVERY):
            yield from self._rows(first, min(first + EVERY, stop))

    def _rows(self, start: int, stop: int) -> list[dict[str, Any]]:
        mark = start // EVERY
        skip = start - mark * EVERY
        query = _library().select(*self._chosen).where(self._key >= self._marks[mark]).order_by(self._key)
        with _database(self._where), self._engine.connect() as connection:
            rows = connection.execute(query.limit(skip + stop - start)).mappings()
            found = [dict(row) for row in islice(rows, skip, None)]
        if len(found) != stop - start:
            raise CorruptData(f"table {self._table_name!r} of {self._where}: rows were deleted after it was opened")
        return found

    def close(self) -> None:
        if "_engine" in self.__dict__:
            self._engine.dispose()


def _reopen(url: str, table: str, columns: Sequence[str] | None, key: str | None) -> SqlReader:
    return SqlReader(url, table=table, columns=columns, key=key)
