"""The connections of one database that are open, also those that are being opened: so that one that hangs can be ended.

A thread that waits for a server which is frozen, or behind a network that drops everything, waits until TCP gives up: minutes.
Shutting down the socket under it makes it fail at once, and nothing else can.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Any

from sqlalchemy import Engine, event

from pliant.brain.store.urls import CONNECT_TIMEOUT_S, MYSQL, SILENCE_S


class LiveConnections:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Any] = {}  # connections of the driver, by their ids
        self._errors: tuple[type[Exception], ...] = ()  # of the driver

    def listen(self, engine: Engine, family: str) -> None:
        self._errors = (engine.dialect.loaded_dbapi.Error,)
        event.listen(engine, "connect", self._opened)
        event.listen(engine, "close", self._closed)
        event.listen(engine, "close_detached", lambda connection: self._closed(connection))
        if family == MYSQL:
            event.listen(engine, "do_connect", self._connect_mysql)

    def shut_down(self) -> None:
        with self._lock:
            found = list(self._open.values())
        for connection in found:
            with suppress(OSError, *self._errors):  # it was closed meanwhile
                _shut_down(connection)

    def _opened(self, connection: Any, record: object = None) -> None:
        with self._lock:
            self._open[id(connection)] = connection

    def _closed(self, connection: Any, record: object = None) -> None:
        with self._lock:
            self._open.pop(id(connection), None)

    def _connect_mysql(self, dialect: Any, record: object, arguments: Any, named: dict[str, Any]) -> Any:
        """PyMySQL's time-out of connecting ends where the server's greeting begins, for which it waits as for any answer."""
        hurried = {**named, "defer_connect": True, "read_timeout": CONNECT_TIMEOUT_S}
        connection = dialect.loaded_dbapi.connect(*arguments, **hurried)
        self._opened(connection)
        try:
            connection.connect()
        except BaseException:
            self._closed(connection)
            raise
        connection._read_timeout = named.get("read_timeout", SILENCE_S)
        return connection


def _shut_down(connection: Any) -> None:
    """A copy of its socket: the original stays the driver's, which closes it."""
    found = getattr(connection, "_sock", None)  # PyMySQL; None: closed
    if found is None and hasattr(connection, "pgconn"):  # psycopg, whose number is that of no socket once it is closed
        found = None if connection.closed else connection
    if found is None:
        return
    number = found.fileno()
    if number >= 0:
        with socket.socket(fileno=os.dup(number)) as copy:
            copy.shutdown(socket.SHUT_RDWR)
