"""A ``ParameterBook`` with one server and one worker, for tests of dumps."""

from __future__ import annotations

from typing import Any

from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.options import PsOptions

BEGUN = 1000.0  # seconds


class TrainedBook:
    """One server; each push is an iteration."""

    def __init__(self, **options: Any) -> None:
        self.book = ParameterBook(PsOptions(sync=False, **options), 1)
        self.seat = self.book.join(BEGUN, node="ps-0", incarnation=0)
        assert self.seat is not None
        self.token = self.seat.fencing_token
        self.book.ready(BEGUN, seat=0, fencing_token=self.token, address="there:1")
        self.book.define(BEGUN, tables=[], variables=[{"name": "w", "shape": [4]}])
        self.pushes = 0

    def trains(self, iterations: int) -> TrainedBook:
        for _ in range(iterations):
            self.pushes += 1
            self.book.contribute(
                BEGUN,
                session="a",
                sequence=self.pushes,
                based_on=self.book.iteration,
                examples=1,
                holders=[[0, self.token]],
                map_version=self.book.map.version,
            )
        return self

    def dumps(self) -> tuple[int, bool]:
        """The order of a dump, and whether it is full."""
        order = self.book.dump(BEGUN)
        self.book.dump_written(BEGUN, seat=0, fencing_token=self.token, order=order.number)
        return order.number, order.full

    def due(self, seconds: float = 0.0) -> str:
        return self.book.dump_due(BEGUN + seconds, begun=BEGUN)
