"""The Brain's database, for commands that read or change it whether a Brain runs or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pliant.brain.store.database import Database
from pliant.brain.store.migrating import check_schema
from pliant.brain.store.urls import SQLITE, family_of, parse_url
from pliant.core.errors import NotFound
from pliant.rpc.brain.access import brain_home


@contextmanager
def open_database(url: str | None, directory: Path | None) -> Iterator[Database]:
    """With the schema of this release. Raises ``NotFound`` for a file that is not there: nobody but a Brain, or ``pliant brain
    migrate``, makes one."""
    if (missing := missing_file(url, directory)) is not None:
        raise NotFound(
            f"no Brain has a database here: {missing} does not exist",
            hint="start a Brain with `pliant brain serve`, or say where its database is: --database URL or --dir FOLDER",
        )
    with open_unchecked(url, directory) as database:
        check_schema(database)
        yield database


@contextmanager
def open_unchecked(url: str | None, directory: Path | None) -> Iterator[Database]:
    """Whatever its schema is. A file that is not there is created when it is first used."""
    database = Database(_url(url, directory))
    try:
        yield database
    finally:
        database.close()


def missing_file(url: str | None, directory: Path | None) -> Path | None:
    """Of a database that is a file and is not there."""
    parsed = parse_url(_url(url, directory))
    file = Path(parsed.database or "")
    return file if family_of(parsed).startswith(SQLITE) and not file.exists() else None


def _url(url: str | None, directory: Path | None) -> str:
    return url or f"sqlite:///{directory or brain_home()}/brain.db"
