"""What can go wrong with a database. No message has a password in it, nor the values of a statement."""

from __future__ import annotations

from pliant.core.errors import BrainUnavailable, FencedOff, PermanentError

__all__ = [
    "DatabaseBusy",
    "DatabaseFault",
    "DatabaseRefused",
    "DatabaseUnavailable",
    "FencedOff",
    "LostLease",
    "SchemaMismatch",
]


class DatabaseUnavailable(BrainUnavailable):
    """The server does not answer, or the connection broke in the middle: the transaction may or may not have been committed."""


class DatabaseBusy(BrainUnavailable):
    """Another transaction was in the way (a deadlock, a lock that was not free in time); nothing was changed."""


class DatabaseRefused(PermanentError):
    """The server knows no such user, password or database."""


class DatabaseFault(PermanentError):
    """The database rejected a statement of ours."""


class SchemaMismatch(PermanentError):
    """The tables are those of another release."""


class LostLease(FencedOff):
    """Another Brain is the active one by now."""
