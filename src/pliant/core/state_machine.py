"""What every journaled state machine of a job has in common: operations, a snapshot, and a way back from it.

An *operation* is a public method whose first argument is ``now``; its other arguments are keyword-only JSON values. The
journal stores operations by name, and ``apply`` carries one out again, so calling the same operations in the same order
yields the same state. ``core/__init__.py`` has the rules that such a machine obeys; ``core/job_state.py`` puts those of a
job together.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pliant.core.errors import CorruptData


class StateMachine(ABC):
    OPERATIONS: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        methods = inspect.getmembers(cls, inspect.isfunction)
        cls.OPERATIONS = frozenset(
            name for name, method in methods if not name.startswith("_") and _arguments(method)[1:2] == ["now"]
        )

    def apply(self, method: str, now: float, arguments: Mapping[str, Any]) -> Any:
        """Carry out an operation as the journal has it."""
        if method not in self.OPERATIONS:
            raise CorruptData(f"{type(self).__name__} has no operation {method!r}")
        return getattr(self, method)(now, **arguments)

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """All that changes, as JSON values."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a snapshot, after ``restore_definitions``."""

    def definitions(self) -> Mapping[str, Any]:
        """What is large and never changes once it is there, by name; the journal stores each once."""
        return {}

    def restore_definitions(self, definitions: Mapping[str, Any]) -> None:
        """Those that the snapshot to be restored speaks of, and perhaps more."""
        return


def _arguments(method: Any) -> list[str]:
    return list(inspect.signature(method).parameters)
