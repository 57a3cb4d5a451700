"""From the URL that a person writes to the one that SQLAlchemy connects by: which driver, which settings.

| written | driver |
|---|---|
| ``sqlite:///folder/file`` | Python's own |
| ``postgresql://user:password@host:port/name`` | psycopg 3 |
| ``mysql://…`` or ``mariadb://…`` | PyMySQL |
"""

from __future__ import annotations

import importlib.util
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from pliant.core.errors import InvalidRequest, PermanentError

SQLITE, POSTGRESQL, MYSQL = "sqlite", "postgresql", "mysql"
_FAMILIES = {
    "sqlite": SQLITE,
    "postgresql": POSTGRESQL,
    "postgres": POSTGRESQL,
    "mysql": MYSQL,
    "mariadb": MYSQL,
}
_DRIVERS = {SQLITE: "sqlite+pysqlite", POSTGRESQL: "postgresql+psycopg", MYSQL: "mysql+pymysql"}
_MODULES = {POSTGRESQL: "psycopg", MYSQL: "pymysql"}
_EXAMPLES = "sqlite:///path, postgresql://user:password@host/name or mysql://user:password@host/name"
CONNECT_TIMEOUT_S = 10
IDLE_S = (
    10  # between two statements of a transaction: a client that is frozen, or cut off, holds locks that others wait for
)
SILENCE_S = 600  # after which a server that was asked something is taken for dead; migrations of large tables take long


def parse_url(written: str) -> URL:
    """With the driver that we use. Raises ``InvalidRequest``, which does not repeat the URL: it may have a password."""
    try:
        url = make_url(written)
    except (ArgumentError, ValueError):
        raise InvalidRequest("not the URL of a database", hint=f"use {_EXAMPLES}") from None
    family = _FAMILIES.get(url.drivername.partition("+")[0])
    if family is None:
        raise InvalidRequest(f"{url.drivername!r:.40} databases are not supported", hint=f"use {_EXAMPLES}")
    if "@" in (url.host or ""):
        raise InvalidRequest(
            "the password in the URL of the database has an @", hint="write it as %40; likewise %2F for a slash"
        )
    if not url.database or (family == SQLITE and (url.database == ":memory:" or url.host)):
        raise InvalidRequest(f"the URL of a {family} database names no database", hint=f"use {_EXAMPLES}")
    return url.set(drivername=_DRIVERS[family])


def check_driver(family: str) -> None:
    module = _MODULES.get(family)
    if module is not None and importlib.util.find_spec(module) is None:
        raise PermanentError(
            f"a {family} database needs {module}, which is not installed",
            hint=f"pip install 'pliant[brain-{family}]'",
        )


def family_of(url: URL) -> str:
    return url.drivername.partition("+")[0]


def idle_setting(seconds: int) -> str:
    """Of MySQL or MariaDB, at the end of a SET: how long a transaction may wait for its client; 0: without a limit. MySQL has this
    for connections only, also those that no transaction is open on: the pool replaces these."""
    of_connection = seconds * 3 or 28_800
    return f"/*M!100300 , idle_transaction_timeout = {seconds} */ /*!80000 , wait_timeout = {of_connection} */"


def connect_arguments(family: str) -> dict[str, Any]:
    if family == POSTGRESQL:
        return {
            "connect_timeout": CONNECT_TIMEOUT_S,
            "application_name": "pliant-brain",
            "options": f"-c timezone=UTC -c lock_timeout=30s -c idle_in_transaction_session_timeout={IDLE_S}s",
            "tcp_user_timeout": 30_000,  # ms
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
        }
    if family == MYSQL:
        return {
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_TIMEOUT_S,
            "read_timeout": SILENCE_S,
            "write_timeout": SILENCE_S,
            "init_command": "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
            f" innodb_lock_wait_timeout = 30 {idle_setting(IDLE_S)}",
        }
    return {"timeout": 30}
