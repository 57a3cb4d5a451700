"""Parameter servers of one job without processes: the master's real book of orders and real executors, logs and dumps, which are
killed between any two calls."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.options import PsOptions
from pliant.core.parameters.orders import Order, OrderKind
from pliant.ps.files import move_folder, write_manifest
from pliant.ps.payloads import BlockGradient, Floats, Push
from pliant.ps.recovery.dumps import is_whole
from pliant.ps.recovery.order_executor import OrderExecutor
from pliant.ps.recovery.restore import restored
from pliant.ps.specs import DenseSpec, InitializerSpec, OptimizerSpec
from pliant.ps.wire.frames import encode_push

NAMES = "abcd"


class ReplicatedServers:
    """Of one job, by seat."""

    def __init__(self, folder: Path, *, sync: bool, batch: int = 1) -> None:
        self.folder = folder
        self.book = ParameterBook(PsOptions(sync=sync, batch=batch, partitions=16), 1)
        self.messages: list[str] = []
        self._running: dict[int, OrderExecutor] = {}
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
        point = self.book.restore_point(seat)
        store = self._stores[seat.number] = restored(point, self.folder, self.messages.append)
        self._incarnations[node] = incarnation
        self._running[seat.number] = OrderExecutor(
            store,
            point,
            self.folder,
            report=self.messages.append,
            on_dump=lambda order, failure: None,
            stopping=threading.Event(),
        )
        self._until[seat.number] = point.last
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
            if order.kind is OrderKind.MOVE and order.target == seat and not self._given(order):
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
            self._running[seat].finish_replay()
            self.book.ready(0, seat=seat, fencing_token=self.book.seat(seat).fencing_token, address="somewhere")

    def _given(self, order: Order) -> bool:
        return is_whole(move_folder(self.folder, order.number) / f"from-{order.source}-to-{order.target}")

    def serves(self, seat: int) -> bool:
        return seat in self._running and seat not in self._until

    def finish_dump(self, seat: int) -> bool:
        """The seat reports that it has written its part, as the master hears it."""
        opened = self.book.open_dump
        assert opened is not None
        if opened.with_written(seat).complete:
            write_manifest(self.folder, opened.with_written(seat), self.book.restore_chain())
        done = self.book.dump_written(
            0, seat=seat, fencing_token=self.book.seat(seat).fencing_token, order=opened.order
        )
        if done is not None:
            for executor in self._running.values():
                executor.truncate_log(self.book.base.order)
        return done is not None

    @staticmethod
    def wake(old: OrderExecutor, *heard: Order) -> None:
        """A server that has lost its seat goes on with the orders that it had heard of."""
        for order in heard:
            old.execute(order)
        for writer in old._writers:
            writer.join()

    def stage(self, seat: int, variable: str, sequence: int, session: str = "s") -> None:
        self.stage_on(self._running[seat], variable, sequence, session)

    @staticmethod
    def stage_on(server: OrderExecutor, variable: str, sequence: int, session: str = "s") -> None:
        push = Push(session, sequence, blocks=(BlockGradient(variable, 0, np.ones(4, np.float32)),))
        meta, payload = encode_push(push)
        server.stage(push, meta, memoryview(b"".join(payload)))

    def contribute(self, seat: int, sequence: int, session: str = "s") -> None:
        assert self.outcome(seat, self.book.seat(seat).fencing_token, sequence, session) == "accepted"

    def outcome(self, seat: int, fencing_token: int, sequence: int, session: str = "s") -> str:
        """Of a contribution that was staged on the server with this fencing token."""
        told = self.book.contribute(
            0,
            session=session,
            sequence=sequence,
            based_on=self.book.iteration,
            examples=1,
            holders=[[seat, fencing_token]],
            map_version=self.book.map.version,
        )
        return told.outcome.value

    def move_all(self) -> None:
        while (move := self.book.next_move()) is not None:
            blocks = [list(block) for block in move.blocks]
            self.book.move(
                0, source=move.source, target=move.target, partitions=list(move.partitions), blocks=blocks, reason=""
            )
            self.follow()

    def of(self, seat: int) -> list[str]:
        return [name for name in NAMES if self.book.map.blocks[name][0] == seat]

    def value(self, seat: int, variable: str) -> Floats:
        found: Floats = self._stores[seat]._catalog.block(variable, 0).value
        return found
