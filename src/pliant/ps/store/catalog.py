"""What a store has: the tables and variables that were defined, and the memory of both.

Blocks of variables are created on first use: what a seat does not own costs it nothing. Not safe for threads by itself:
``store`` guards it. ``checks`` looks here for what a request may name.
"""

from __future__ import annotations

from pliant.core.errors import Conflict, NotFound
from pliant.ps.placement import blocks_of, key_of
from pliant.ps.specs import DenseSpec, Spec, TableSpec
from pliant.ps.store.dense import Block
from pliant.ps.store.table import Table

BlockKey = tuple[str, int]  # variable, number of the block


class Catalog:
    """``names``: the name of each key that a request may use."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self.tables: dict[str, Table] = {}
        self.blocks: dict[BlockKey, Block] = {}
        self._variables: dict[str, DenseSpec] = {}
        self.names: dict[int, str] = {}

    def is_new(self, spec: Spec) -> bool:
        """False: it is defined already, in the same way; in another way: ``Conflict``."""
        known = self.spec_of(spec.name)
        if known == spec:
            return False
        if known is not None:
            raise Conflict(
                f"{spec.name!r} is already defined differently",
                hint="use another name, or start from an empty job directory",
            )
        key = key_of(spec.name)
        if key in self.names:
            raise Conflict(f"{spec.name!r} and {self.names[key]!r} have the same key", hint="rename one of them")
        return True

    def add(self, spec: Spec) -> None:
        if isinstance(spec, TableSpec):
            self.tables[spec.name] = Table(spec, self._partitions)
        else:
            self._variables[spec.name] = spec
        self.names[key_of(spec.name)] = spec.name

    def spec_of(self, name: str) -> Spec | None:
        if name in self.tables:
            return self.tables[name].spec
        return self._variables.get(name)

    def specs(self) -> tuple[Spec, ...]:
        return (*(table.spec for table in self.tables.values()), *self._variables.values())

    def table(self, name: str) -> Table:
        table = self.tables.get(name)
        if table is None:
            known = ", ".join(sorted(self.tables)) or "none"
            raise NotFound(f"table {name!r:.200} not found", hint=f"tables here: {known:.500}")
        return table

    def block_length(self, variable: str, block: int) -> int:
        """Floats of a block that exists by the variable's spec; ``NotFound`` otherwise."""
        spec = self._variables.get(variable)
        if spec is None:
            known = ", ".join(sorted(self._variables)) or "none"
            raise NotFound(f"variable {variable!r:.200} not found", hint=f"variables here: {known:.500}")
        blocks = blocks_of(spec.size)
        if not 0 <= block < len(blocks):
            raise NotFound(f"variable {variable!r} has {len(blocks)} blocks; block {block} does not exist")
        return blocks[block][1]

    def block(self, name: str, number: int) -> Block:
        block = self.blocks.get((name, number))
        if block is None:
            self.block_length(name, number)
            block = self.blocks[(name, number)] = Block(self._variables[name], number)
        return block
