"""A client's copy of dense variables: flat arrays, and of each block which iteration it is and whose.

Servers leave out blocks that did not change since what the copy has. That is known by seat and fencing token: another server,
or the same seat after it was restored, is asked for everything once.

Neighbours: ``client`` (pulls into one), ``model_stream`` (servers send into one), ``routing`` (where blocks are).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from pliant.ps.client.routing import Route
from pliant.ps.payloads import Floats
from pliant.ps.placement import blocks_of
from pliant.ps.specs import DenseSpec

Block = tuple[str, int]
Blocks = dict[Block, Floats]


class DenseCopy:
    def __init__(self) -> None:
        self._values: dict[str, Floats] = {}  # flat
        self._have: dict[Block, tuple[int, int, int]] = {}  # seat, its fencing token, iteration

    def make_room(self, spec: DenseSpec) -> None:
        if spec.name not in self._values:
            self._values[spec.name] = np.empty(spec.size, np.float32)

    def forget(self) -> None:
        """Everything is to be sent again."""
        self._have.clear()

    def shaped(self, spec: DenseSpec) -> Floats:
        return self._values[spec.name].reshape(spec.shape)

    def servers(self, route: Route, names: Iterable[str]) -> dict[int, Blocks]:
        """The blocks of these variables, each with its array, by the server of the seat that has them."""
        found: dict[int, Blocks] = {}
        for name in names:
            for block, (first, length) in enumerate(blocks_of(route.variables[name].size)):
                part = self._values[name][first : first + length]
                found.setdefault(route.block_server(name, block), {})[name, block] = part
        return found

    def wanted(self, route: Route, server: int, blocks: Iterable[Block]) -> list[tuple[str, int, int]]:
        """These blocks of a server, each with the iteration that is here."""
        owner = (route.seats[server], route.fencing_tokens[server])
        asked = []
        for name, block in blocks:
            seat, fencing_token, iteration = self._have.get((name, block), (-1, -1, -1))
            asked.append((name, block, iteration if (seat, fencing_token) == owner else -1))
        return asked

    def receive(self, route: Route, server: int, blocks: Blocks, answer: Callable[[], int]) -> int:
        """Have the blocks of an answer read into their arrays; returns the iteration that all blocks of the server are of now."""
        for block in blocks:
            self._have.pop(block, None)  # half an answer may be in it, if the rest does not come
        iteration = answer()
        self._have |= dict.fromkeys(blocks, (route.seats[server], route.fencing_tokens[server], iteration))
        return iteration
