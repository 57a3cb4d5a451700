"""One worker's partial sums of a step: a binary counter over the canonical tree, with tensors as its digits.

Adding the gradients of a unit merges them with the partial sums that they complete. They survive a broken world: further units
are added to what is there, in any order (``unit_tree``).

What others may be reading (a world's shared memory, the buffers of a collective) is *lent*: it is never written again. A
partial sum that is lent is merged into new memory.

Autograd may give one memory to several parameters (``a.view(-1) + b``). What it gives is not written before its backward pass is
over, and is kept for one parameter only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch

from pliant.torch.gradients.unit_tree import Node, UnitTree


@dataclass
class PartialSum:
    values: list[torch.Tensor | None]  # per parameter; None where no unit used it
    lent: bool = False


class PartialSums:
    def __init__(self, tree: UnitTree) -> None:
        self._tree = tree
        self._sums: dict[Node, PartialSum] = {}
        self._merged: list[
            tuple[PartialSum, bool]
        ] = []  # what the unit at work is merged with; whether it is the left half
        self._merged_nodes: list[Node] = []
        self._node = tree.root  # what they become
        self._new = PartialSum([])
        self._kept: set[int] = set()  # addresses of the unit's gradients that are kept as they came

    @property
    def nodes(self) -> list[Node]:
        return sorted(self._sums, key=lambda node: node.first)

    @property
    def node(self) -> Node:
        """What the unit at work becomes a part of."""
        return self._node

    def __getitem__(self, node: Node) -> PartialSum:
        """Also of the one that the unit at work becomes."""
        return self._new if node == self._node and self._new.values else self._sums[node]

    def clear(self) -> None:
        self._sums.clear()
        self._merged, self._merged_nodes, self._new = [], [], PartialSum([])

    def begin(self, unit: int, params: int) -> None:
        self._merged_nodes, self._node = self._tree.climb(self._tree.leaf(unit), self._sums)
        self._merged = [(self._sums[node], node.at % 2 == 0) for node in self._merged_nodes]
        self._new = PartialSum([None] * params)
        self._kept.clear()

    def add(self, index: int, grad: torch.Tensor | None, target: torch.Tensor | None = None) -> None:
        """Add this unit's gradient of a parameter, as autograd gave it.

        ``target``: where the sum is to be; then the partial sum is lent.
        """
        value, is_lent = grad, False
        others = [(s.values[index], s.lent, is_left) for s, is_left in self._merged]
        adding = [(other, lent, is_left) for other, lent, is_left in others if other is not None]
        if value is None and adding:
            (value, is_lent, _), *adding = adding
        for number, (other, lent, is_left) in enumerate(adding, start=1):
            assert value is not None
            left, right = (other, value) if is_left else (value, other)
            into = target if number == len(adding) else None
            if into is None:
                into = other if not lent else value if not is_lent and value is not grad else None
            value, is_lent = torch.add(left, right) if into is None else torch.add(left, right, out=into), False
        if value is not None and target is not None and value is not target:
            value = target.copy_(value)
        if value is not None and value is grad:
            address = value.untyped_storage().data_ptr()
            if address in self._kept:
                value = value.clone()
            self._kept.add(address)
        self._new.values[index] = value
        self._new.lent |= is_lent or target is not None

    def end(self) -> None:
        for node in self._merged_nodes:
            del self._sums[node]
        self._sums[self._node] = self._new
        self._merged, self._merged_nodes, self._new = [], [], PartialSum([])

    def add_nothing(self, unit: int, params: int) -> None:
        """A unit without records."""
        self.begin(unit, params)
        for index in range(params):
            self.add(index, None)
        self.end()

    def complete(self, units: Collection[int]) -> bool:
        """Whether these are the partial sums of those units."""
        return self.nodes == self._tree.complete(units)
