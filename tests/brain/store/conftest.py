"""Every test that takes ``database`` runs on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

from tests.databases import database, databases, empty_database, family

__all__ = ["database", "databases", "empty_database", "family"]
