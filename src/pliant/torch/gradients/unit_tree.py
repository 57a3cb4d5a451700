"""The canonical binary tree over the units 0..N-1 of a step, along which their gradients are added up.

Floating-point addition is commutative, but not associative: the bits of a sum depend on its grouping alone. So the grouping is
fixed: whoever adds, adds along this tree, and the bits do not depend on who had which unit, when, or in which order.

- Node (level, at) covers the units from ``at << level`` to the next multiple, as far as they are below N. Its value is the
  sum of its two halves, left + right. Where the right half is empty, the value is that of the left half, without an addition,
  and the two count as one node: the higher one.
- A *partial sum* is the value of a node all of whose units are there. Any set of units has one smallest set of partial sums
  (``complete``), at most two per level for neighbouring units: O(log m) buffers for m units, and one addition per unit.
- ``merges`` finishes the sum: which partial sum is added to which, in an order that computes every node once.

Pure: no tensors, no I/O. ``partial_sums`` keeps the values of one worker, transports bring those of all together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple


class Node(NamedTuple):
    level: int
    at: int

    @property
    def first(self) -> int:
        """Its first unit."""
        return self.at << self.level


class UnitTree:
    def __init__(self, units: int) -> None:
        self.units = units
        self.root = Node((units - 1).bit_length(), 0)

    def leaf(self, unit: int) -> Node:
        return self._highest(Node(0, unit))

    def sibling(self, node: Node) -> Node:
        """The other half of the node above. Never of the root."""
        return Node(node.level, node.at ^ 1)

    def parent(self, node: Node) -> Node:
        """The node above, by its highest name."""
        return self._highest(Node(node.level + 1, node.at >> 1))

    def climb(self, node: Node, there: Collection[Node]) -> tuple[list[Node], Node]:
        """Add a node to the partial sums that are ``there``: those that it is merged with, in order, and what it becomes."""
        merged = []
        while node != self.root and self.sibling(node) in there:
            merged.append(self.sibling(node))
            node = self.parent(node)
        return merged, node

    def complete(self, units: Collection[int]) -> list[Node]:
        """The partial sums of these units, by their first unit."""
        there: set[Node] = set()
        for unit in units:
            merged, node = self.climb(self.leaf(unit), there)
            there.difference_update(merged)
            there.add(node)
        return sorted(there, key=lambda node: node.first)

    def merges(self, nodes: Sequence[Node]) -> list[tuple[int, int]]:
        """How these partial sums, which cover all units, become one: (i, j) adds number j to number i, left + right.

        The result is in number 0.
        """
        pairs, left = self.partial_merges(nodes)
        if left != [(self.root, 0)]:
            raise ValueError(f"{nodes} do not make up the units 0..{self.units - 1}")
        return pairs

    def partial_merges(self, nodes: Sequence[Node]) -> tuple[list[tuple[int, int]], list[tuple[Node, int]]]:
        """The same for any partial sums, by their first unit: what is added, and which nodes are then in which numbers."""
        pairs: list[tuple[int, int]] = []
        open_: list[tuple[Node, int]] = []
        for number, node in enumerate(nodes):
            open_.append((node, number))
            while len(open_) > 1 and open_[-2][0] == self.sibling(open_[-1][0]):
                _, right = open_.pop()
                left_node, left = open_.pop()
                pairs.append((left, right))
                open_.append((self.parent(left_node), left))
        return pairs, open_

    def _highest(self, node: Node) -> Node:
        while node != self.root and node.at % 2 == 0 and (node.at + 1) << node.level >= self.units:
            node = Node(node.level + 1, node.at >> 1)
        return node


@lru_cache(maxsize=16)
def hosted_units(counts: tuple[int, ...]) -> tuple[range, ...]:
    """Neighbouring units for each rank, as many as ``counts`` has for it: the ranks in an order that makes few partial sums."""
    tree = UnitTree(sum(counts))
    ranks = range(len(counts))
    orders = (list(ranks), sorted(ranks, key=lambda r: counts[r]), sorted(ranks, key=lambda r: -counts[r]))
    found = [_in_order(order, counts) for order in orders]
    return min(found, key=lambda hosted: sum(len(tree.complete(units)) for units in hosted))


def _in_order(ranks: Sequence[int], counts: Sequence[int]) -> tuple[range, ...]:
    hosted, first = {}, 0
    for rank in ranks:
        hosted[rank], first = range(first, first + counts[rank]), first + counts[rank]
    return tuple(hosted[rank] for rank in range(len(counts)))
