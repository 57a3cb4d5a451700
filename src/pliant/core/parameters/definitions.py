"""The tables and variables that workers defined, as the JSON objects that travel and are stored (``ps/specs.py`` reads them).

Here only what a decision depends on is looked at: the name, and the shape of a variable. ``Definitions`` is a part of
``core/parameters/book.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pliant.core.errors import Conflict, InvalidRequest

Definition: TypeAlias = Mapping[str, Any]

MAX_DEFINITIONS = 10_000  # tables and variables
MAX_FLOATS = 1 << 54  # of a variable


class Definitions:
    """``initialized``: the variables that have their first values."""

    def __init__(
        self, tables: Iterable[Definition] = (), variables: Iterable[Definition] = (), initialized: Iterable[str] = ()
    ) -> None:
        self._tables = {str(table["name"]): table for table in tables}
        self._variables = {str(variable["name"]): variable for variable in variables}
        self._initialized = dict.fromkeys(initialized)

    def __bool__(self) -> bool:
        return bool(self._tables or self._variables)

    @property
    def tables(self) -> tuple[Definition, ...]:
        return tuple(self._tables.values())

    @property
    def variables(self) -> tuple[Definition, ...]:
        return tuple(self._variables.values())

    @property
    def initialized(self) -> tuple[str, ...]:
        return tuple(self._initialized)

    def has_variable(self, name: str) -> bool:
        return name in self._variables

    def is_initialized(self, name: str) -> bool:
        return name in self._initialized

    def new(
        self, tables: Sequence[Definition], variables: Sequence[Definition]
    ) -> tuple[tuple[Definition, ...], tuple[Definition, ...]]:
        """Those that are not defined yet. One that is defined differently is a conflict."""
        new_tables = _new(self._tables, tables, "table")
        new_variables = _new(self._variables, variables, "variable")
        count = len(self._tables) + len(self._variables) + len(new_tables) + len(new_variables)
        if (new_tables or new_variables) and count > MAX_DEFINITIONS:
            raise InvalidRequest(f"more than {MAX_DEFINITIONS} tables and variables in total")
        return new_tables, new_variables

    def add(self, tables: Iterable[Definition], variables: Iterable[Definition]) -> None:
        self._tables |= {str(table["name"]): table for table in tables}
        self._variables |= {str(variable["name"]): variable for variable in variables}

    def initialize(self, names: Iterable[str]) -> None:
        self._initialized |= dict.fromkeys(names)

    def snapshot(self) -> dict[str, Any]:
        return {
            "tables": list(self.tables),
            "variables": list(self.variables),
            "initialized": list(self.initialized),
        }

    @classmethod
    def from_snapshot(cls, state: Mapping[str, Any]) -> Definitions:
        return cls(state["tables"], state["variables"], state["initialized"])


def floats(variable: Definition) -> int:
    """How many a variable has, by its shape."""
    shape = variable.get("shape")
    if not isinstance(shape, list) or any(type(side) is not int or side < 0 for side in shape):
        raise InvalidRequest(f"variable {variable.get('name')!r} needs a shape (a list of integers), not {shape!r}")
    size = math.prod(shape)
    if size > MAX_FLOATS:
        raise InvalidRequest(f"variable {variable.get('name')!r} has {size:,} floats; allowed: {MAX_FLOATS:,}")
    return size


def _new(known: Mapping[str, Definition], given: Sequence[Definition], what: str) -> tuple[Definition, ...]:
    new = []
    for definition in given:
        name = definition.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidRequest(f"a {what} needs a name: {definition!r:.200}")
        if name not in known:
            new.append(definition)
        elif known[name] != definition:
            differs = [key for key in {**definition, **known[name]} if definition.get(key) != known[name].get(key)]
            raise Conflict(
                f"{what} {name!r} is already defined, with a different {', '.join(sorted(differs))}",
                hint="all workers must define it identically",
            )
    if len({definition["name"] for definition in new}) != len(new):
        raise InvalidRequest(f"a {what} is defined twice in one call")
    return tuple(new)
