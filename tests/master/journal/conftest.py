from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.brain.journal_brain import JournalBrain
from tests.databases import database, databases, empty_database, family

from pliant.brain.store.database import Database

__all__ = ["brain", "database", "databases", "empty_database", "family"]


@pytest.fixture
def brain(tmp_path: Path, database: Database) -> Iterator[JournalBrain]:
    found = JournalBrain(tmp_path / "brain", database).start()
    yield found
    found.stop()
