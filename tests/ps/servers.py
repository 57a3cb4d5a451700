"""Parameter servers of one job without processes: the master's real book of orders and real executors, logs and dumps, which are
killed between any two calls."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core.ps_map import PsMap
from pliant.core.ps_orders import ParameterBook
from pliant.core.ps_states import Kind, Order, PsOptions
from pliant.ps.dumps import is_whole
from pliant.ps.executing import Executor
from pliant.ps.files import move_folder, write_manifest
from pliant.ps.pieces import BlockGradient, Floats, Push
from pliant.ps.restoring import Beginning, restored
from pliant.ps.specs import DenseSpec, InitializerSpec, OptimizerSpec
from pliant.ps.wire import encode_push

NAMES = "abcd"


class Servers:
    """Of one job, by seat."""

    def __init__(self, folder: Path, *, sync: bool, batch: int = 1) -> None:
        self.folder = folder
        self.book = ParameterBook(PsOptions(sync=sync, batch=batch, partitions=16), 1)
        self.said: list[str] = []
        self._running: dict[int, Executor] = {}
        self._stores: dict[int, Any] = {}
        self._until: dict[int, int] = {}  # of servers that are not back yet: what they execute before they serve
        self._incarnations: dict[str, int] = {}
        self.join("ps-0")
        specs = [DenseSpec(n, (4,), OptimizerSpec("sgd", 1.0), InitializerSpec("zeros")).to_json() for n in NAMES]
        self.book.define(0, tables=[], variables=json.loads(json.dumps(specs)))
        self.follow()

    def join(self, node: str, incarnation: int = 0) -> int:
        """A process starts, takes a seat, and executes what it has missed."""
        seat = self.book.join(0, node=node, incarnation=incarnation)
        assert seat is not None
        base = self.book.base
        specs = (*map(dict, base.tables), *map(dict, base.variables))
        begin = Beginning(
            seat.number,
            seat.tenure,
            base.order,
            self.book.last,
            "",
            PsMap.from_json(base.parameter_map),
            specs,
            base.iteration,
            self.book.options.partitions,
        )
        store = self._stores[seat.number] = restored(begin, self.folder, self.said.append)
        self._incarnations[node] = incarnation
        self._running[seat.number] = Executor(
            store,
            begin,
            self.folder,
            say=self.said.append,
            dumped=lambda order, failure: None,
            stopping=threading.Event(),
        )
        self._until[seat.number] = begin.last
        self._execute(seat.number)
        return seat.number

    def kill(self, node: str) -> None:
        """Nothing of it is closed or flushed."""
        for seat in self.book.lost(0, node=node, for_good=False):
            self._running.pop(seat, None)
            self._until.pop(seat, None)

    def restart(self, node: str) -> int:
        return self.join(node, self._incarnations[node] + 1)

    def follow(self) -> None:
        """All servers that run execute all orders they can."""
        for _ in range(len(self._running) + 1):  # one may wait for what another one gives
            for seat in list(self._running):
                if any(s.number == seat for s in self.book.seats()):
                    self._execute(seat)

    def _execute(self, seat: int) -> None:
        executor = self._running[seat]
        for order in self.book.orders(executor.done, 1000):
            if order.kind is Kind.MOVE and order.taker == seat and not self._given(order):
                return
            executor.execute(order)
            self._come_back(seat)
        self._come_back(seat)
        for writer in executor._writers:
            writer.join()

    def _come_back(self, seat: int) -> None:
        """A server that has executed all that was ordered before it came serves from then on."""
        if self._running[seat].done >= self._until.get(seat, 1 << 60):
            del self._until[seat]
            self._running[seat].caught_up()
            self.book.ready(0, seat=seat, tenure=self.book.seat(seat).tenure, address="somewhere")

    def _given(self, order: Order) -> bool:
        return is_whole(move_folder(self.folder, order.number) / f"from-{order.giver}-to-{order.taker}")

    def serves(self, seat: int) -> bool:
        return seat in self._running and seat not in self._until

    def finish_dump(self, seat: int) -> bool:
        """The seat reports that it has written its part, as the master hears it."""
        opened = self.book.open_dump
        assert opened is not None
        if opened.with_written(seat).complete:
            write_manifest(self.folder, opened.with_written(seat), self.book.chain())
        done = self.book.dumped(0, seat=seat, tenure=self.book.seat(seat).tenure, order=opened.order)
        if done is not None:
            for executor in self._running.values():
                executor.cut(self.book.base.order)
        return done is not None

    @staticmethod
    def wake(old: Executor, *heard: Order) -> None:
        """A server that has lost its seat goes on with the orders that it had heard of."""
        for order in heard:
            old.execute(order)
        for writer in old._writers:
            writer.join()

    def stage(self, seat: int, variable: str, sequence: int, session: str = "s") -> None:
        self.stage_on(self._running[seat], variable, sequence, session)

    @staticmethod
    def stage_on(server: Executor, variable: str, sequence: int, session: str = "s") -> None:
        push = Push(session, sequence, blocks=(BlockGradient(variable, 0, np.ones(4, np.float32)),))
        meta, payload = encode_push(push)
        server.stage(push, meta, memoryview(b"".join(payload)))

    def contribute(self, seat: int, sequence: int, session: str = "s") -> None:
        assert self.fate(seat, self.book.seat(seat).tenure, sequence, session) == "accepted"

    def fate(self, seat: int, tenure: int, sequence: int, session: str = "s") -> str:
        """Of a contribution that was staged on the server with this tenure."""
        told = self.book.contribute(
            0,
            session=session,
            sequence=sequence,
            based_on=self.book.iteration,
            examples=1,
            seats=[[seat, tenure]],
            map_version=self.book.map.version,
        )
        return told.fate.value

    def move_all(self) -> None:
        while (move := self.book.movable()) is not None:
            blocks = [list(block) for block in move.blocks]
            self.book.move(
                0, giver=move.giver, taker=move.taker, partitions=list(move.partitions), blocks=blocks, reason=""
            )
            self.follow()

    def of(self, seat: int) -> list[str]:
        return [name for name in NAMES if self.book.map.blocks[name][0] == seat]

    def value(self, seat: int, variable: str) -> Floats:
        found: Floats = self._stores[seat]._block(variable, 0).value
        return found
