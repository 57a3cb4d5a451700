"""A database server of one test's own, which can be killed and frozen with all its processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
from sqlalchemy import text
from tests.databases import require
from tools.databases.servers import Server, make_server

from pliant.brain.store.database import Database

NAME = "brain"


class DatabaseServer:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.url = server.url(NAME)
        self.is_postgresql = server.scheme == "postgresql"

    def create(self) -> None:
        system = Database(self.server.url("postgres" if self.is_postgresql else "mysql"))
        try:
            with system.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text(f"CREATE DATABASE {NAME}"))
        finally:
            system.close()

    def kill(self) -> None:
        """As a power loss would."""
        self._send(signal.SIGCONT)
        self.server.kill()

    def start(self) -> None:
        self.server.start()

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def waiting_for_locks(self) -> int:
        """Transactions that do."""
        query = (
            "SELECT count(*) FROM pg_locks WHERE NOT granted"
            if self.is_postgresql
            else "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        )
        database = Database(self.url)
        try:
            with database.reading() as connection:
                return int(connection.scalar(text(query)) or 0)
        finally:
            database.close()

    def _send(self, number: int) -> None:
        """To the server before its children: none is made meanwhile."""
        if self.server.process is None:
            return
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(self.server.process.pid)
            os.kill(server.pid, number)
            for child in server.children(recursive=True):
                with suppress(ProcessLookupError):
                    os.kill(child.pid, number)


@contextmanager
def running_server(family: str) -> Iterator[DatabaseServer]:
    """That loses nothing it has answered when it is killed."""
    require(family)
    server = make_server(family, is_durable=True)
    try:
        server.start()
        found = DatabaseServer(server)
        found.create()
        yield found
        found.thaw()
    finally:
        server.stop()
