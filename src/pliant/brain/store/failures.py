"""From an error of a driver to one of ours: which passes by itself, and which a person has to act on."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from pliant.brain.store.errors import DatabaseBusy, DatabaseFault, DatabaseRefused, DatabaseUnavailable
from pliant.brain.store.urls import MYSQL, POSTGRESQL
from pliant.core.errors import PliantError

_POSTGRESQL_BUSY = {"40001", "40P01", "55P03"}  # serialization failure, deadlock, lock not available
_POSTGRESQL_AWAY = ("08", "25P03", "53", "57P", "58")  # connection, idle for too long, resources, shutdown, system
_POSTGRESQL_REFUSALS = ("authentication failed", "no pg_hba.conf entry", "does not exist", "permission denied")
_MYSQL_BUSY = {1205, 1213}  # lock wait time-out, deadlock
_MYSQL_REFUSALS = {1044, 1045, 1049, 1698}
_MYSQL_AWAY = {1040, 1053, 1077, 1079, 1129, 1203, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 4031}


def translate(error: DBAPIError, family: str, shown_url: str) -> PliantError:
    cause: Any = error.orig
    if family == POSTGRESQL:
        return _postgresql(error, cause, shown_url)
    if family == MYSQL:
        return _mysql(error, cause, shown_url)
    text = str(cause)
    if "locked" in text or "busy" in text:
        return DatabaseBusy(f"{shown_url} is locked by another process")
    if isinstance(error, OperationalError) and ("unable to open" in text or "disk" in text or "readonly" in text):
        return DatabaseUnavailable(f"cannot use {shown_url}: {text}", hint="check the file, its folder and the disk")
    return _fault(error, shown_url)


def _postgresql(error: DBAPIError, cause: Any, shown_url: str) -> PliantError:
    state, text = getattr(cause, "sqlstate", None) or "", str(cause)
    if state in _POSTGRESQL_BUSY:
        return DatabaseBusy(f"{shown_url}: another transaction was in the way ({state})")
    if state.startswith("28") or state == "3D000" or (not state and any(sign in text for sign in _POSTGRESQL_REFUSALS)):
        return _refused(shown_url, text)
    if error.connection_invalidated or state.startswith(_POSTGRESQL_AWAY):
        return _away(shown_url, text)
    if not state and isinstance(error, OperationalError | InterfaceError):
        return _away(shown_url, text)
    return _fault(error, shown_url)


def _mysql(error: DBAPIError, cause: Any, shown_url: str) -> PliantError:
    code = cause.args[0] if getattr(cause, "args", ()) and isinstance(cause.args[0], int) else 0
    if code in _MYSQL_BUSY:
        return DatabaseBusy(f"{shown_url}: another transaction was in the way ({code})")
    if code in _MYSQL_REFUSALS:
        return _refused(shown_url, str(cause.args[-1]))
    if error.connection_invalidated or code in _MYSQL_AWAY or (code == 0 and isinstance(error, InterfaceError)):
        return _away(shown_url, str(cause))
    return _fault(error, shown_url)


def _refused(shown_url: str, text: str) -> PliantError:
    return DatabaseRefused(
        f"{shown_url} refused us: {_first_line(text)}", hint="check user, password and database name in the URL"
    )


def _away(shown_url: str, text: str) -> PliantError:
    return DatabaseUnavailable(f"{shown_url} does not answer: {_first_line(text)}")


def _fault(error: DBAPIError, shown_url: str) -> PliantError:
    return DatabaseFault(
        f"{shown_url} rejected a statement: {type(error.orig).__name__}: {_first_line(str(error.orig))}"
    )


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else "no reason given")[:300]
