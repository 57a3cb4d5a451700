"""The connection to the Brain's database: a pool, transactions, and errors that say what to do.

Work is done in transactions: ``transaction`` runs a function in one and repeats it after a deadlock, so the function may be called
more than once and has no effect outside of the database. A connection that broke (the server was killed and came back) is
replaced when the next transaction asks for one. A Brain that is not the active one any more is refused by its *term*
(``leases.py``), inside the transaction that it writes in.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from pliant.brain.store.errors import DatabaseBusy, DatabaseFault, DatabaseUnavailable
from pliant.brain.store.failures import translate
from pliant.brain.store.live_connections import LiveConnections
from pliant.brain.store.urls import MYSQL, POSTGRESQL, SQLITE, check_driver, connect_arguments, family_of, parse_url
from pliant.files.private import FILE_MODE, OTHERS, make_private_folder

MAX_ATTEMPTS = 6  # at a transaction that others are in the way of
POOL_TIMEOUT_S = 30
_WRITES = "pliant_writes"  # execution option: SQLite takes its write lock at once instead of failing half way

T = TypeVar("T")


class Database:
    """Safe to use from several threads. Opens no connection before it needs one."""

    def __init__(self, url: str, *, max_connections: int = 16) -> None:
        parsed = parse_url(url)
        self.family = family_of(parsed)  # sqlite, postgresql or mysql
        self.shown_url = parsed.set(drivername=self.family, query={}).render_as_string(hide_password=True)
        check_driver(self.family)
        self._file = Path(parsed.database or "") if self.family == SQLITE else None
        self._is_private = False
        self._engine = create_engine(
            parsed,
            pool_pre_ping=True,
            pool_size=max_connections,
            max_overflow=0,
            pool_timeout=POOL_TIMEOUT_S,
            pool_recycle=1800 if self.family == MYSQL else -1,  # servers close what is idle for hours
            hide_parameters=True,
            connect_args=connect_arguments(self.family),
            pool_use_lifo=True,
            **({} if self.family == SQLITE else {"isolation_level": "READ COMMITTED"}),
        )
        self._live = LiveConnections()
        if self.family == SQLITE:
            event.listen(self._engine, "connect", _set_up_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
        else:
            self._live.listen(self._engine, self.family)

    @property
    def engine(self) -> Engine:
        return self._engine

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read with; what it does is rolled back."""
        with self._errors_of_ours(), self._connect() as connection:
            yield connection

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """What ``work`` returned, committed. Raises ``DatabaseUnavailable``: whether it was committed is not known."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                with self._errors_of_ours(), self._connect(writes=True) as connection, connection.begin():
                    return work(connection)
            except DatabaseBusy:
                if attempt == MAX_ATTEMPTS:
                    raise
                time.sleep(random.uniform(0.01, 0.05) * attempt)
        raise AssertionError("unreachable")

    def server_time(self, connection: Connection) -> float:
        """Of the clock that all Brains share: the server's. A file has none: ours."""
        if self.family == POSTGRESQL:
            return float(connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())")) or 0)
        if self.family == MYSQL:
            return float(connection.scalar(text("SELECT unix_timestamp(sysdate(6))")) or 0)
        return time.time()

    def ping(self) -> None:
        """Raises an error of ours if the database cannot be used."""
        with self.reading() as connection:
            connection.execute(text("SELECT 1"))

    def abort(self) -> None:
        """End whatever waits for the server, which does not answer: it fails with ``DatabaseUnavailable`` now instead of after a
        time-out of TCP, and the server gives up its locks if it still hears of it. A file has no server."""
        self._live.shut_down()

    def close(self) -> None:
        self._engine.dispose()

    def _connect(self, *, writes: bool = False) -> Connection:
        if self._file is not None and not self._is_private:
            _make_private(self._file)
            self._is_private = True
        connection = self._engine.connect()
        return connection.execution_options(**{_WRITES: True}) if writes else connection

    @contextmanager
    def _errors_of_ours(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise translate(error, self.family, self.shown_url) from error
        except OverflowError as error:  # of SQLite's driver, which does not call it an error of the database
            raise DatabaseFault(f"{self.shown_url} takes no such number: {error}") from error
        except PoolTimeout:
            raise DatabaseUnavailable(
                f"{self.shown_url}: no connection was free within {POOL_TIMEOUT_S} s", hint="the database is too slow"
            ) from None


def _set_up_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    for setting in (
        "journal_mode = WAL",
        "synchronous = FULL",  # what was answered survives a power loss
        "foreign_keys = ON",
        "busy_timeout = 30000",
    ):
        connection.execute(f"PRAGMA {setting}").close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _make_private(file: Path) -> None:
    """Statistics of all users are nobody else's business. SQLite gives its other files the mode of this one."""
    try:
        make_private_folder(file.parent)
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
        if file.stat().st_mode & OTHERS:
            file.chmod(FILE_MODE)
    except OSError as error:
        raise DatabaseUnavailable(f"cannot create {file}: {error.strerror}") from None
