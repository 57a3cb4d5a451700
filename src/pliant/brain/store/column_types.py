"""Types of columns, the same for this release's tables and for migrations: what is here never changes, types are only added.

Times are seconds since the epoch. Texts are bounded, so that no database cuts or refuses them in a way of its own
(``bounded.py`` does it before). MySQL and MariaDB compare texts byte by byte (``utf8mb4_bin``), as the others do.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Double, Integer, LargeBinary, String, Text
from sqlalchemy.dialects import mysql

NAME = 253  # characters of the name of anything, as in Kubernetes
WORD = 64  # of a state, a role, a kind
SENTENCE = 1000

Id = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up by itself there
Count = BigInteger()
Number: Double[float] = Double()
Name = String(NAME)
Word = String(WORD)
Sentence = String(SENTENCE)
Document = Text().with_variant(mysql.LONGTEXT(), "mysql")  # JSON; TEXT ends at 64 kB there
Blob = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")

TABLE_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def number(name: str) -> Column[float]:
    """A time or a measure; 0 where there is none."""
    return Column(name, Number, nullable=False, server_default="0")


def count(name: str) -> Column[int]:
    return Column(name, Count, nullable=False, server_default="0")


def maybe_number(name: str) -> Column[float | None]:
    return Column(name, Number, nullable=True)


def name(column: str) -> Column[str]:
    return Column(column, Name, nullable=False, server_default="")


def word(column: str) -> Column[str]:
    return Column(column, Word, nullable=False, server_default="")


def sentence(column: str) -> Column[str]:
    return Column(column, Sentence, nullable=False, server_default="")


def document(column: str) -> Column[str | None]:
    return Column(column, Document, nullable=True)
