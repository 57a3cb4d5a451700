"""Errors of the data package that are more precise than those of the core tree."""

from __future__ import annotations

from pliant.core.errors import InvalidRequest, PermanentError


class OutOfRange(InvalidRequest, IndexError):
    """A record number that the data does not have. Also an ``IndexError``, as Python's own sequences raise."""


class MissingLibrary(InvalidRequest):
    """A format needs a library that is not installed; names it and how to get it."""

    def __init__(self, what: str, library: str, *, extra: str = "data") -> None:
        super().__init__(f"{what} needs {library}, which is not installed", hint=f"pip install 'pliant[{extra}]'")


class RecordError(PermanentError):
    """A user's function or reader failed on a record: says which one. The error itself is the ``__cause__``."""

    def __init__(self, message: str, *, location: str = "", index: int = -1) -> None:
        super().__init__(message)
        self.location = location
        self.index = index  # global

    @classmethod
    def at(cls, location: str, index: int, cause: BaseException) -> RecordError:
        return cls(f"{location}: {type(cause).__name__}: {cause}", location=location, index=index)
