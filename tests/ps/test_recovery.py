"""What a server has after a kill: the master's real book of orders and real servers' executors, logs and dumps, one after the other
in this process, killed between any two calls."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pliant.core.ps_map import PsMap
from pliant.core.ps_orders import ParameterBook
from pliant.core.ps_states import PsOptions
from pliant.ps.executing import Executor
from pliant.ps.files import write_manifest
from pliant.ps.log import PushLog, index
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
        self._running[seat.number] = Executor(
            store,
            begin,
            self.folder,
            say=self.said.append,
            dumped=lambda order, failure: None,
            stopping=threading.Event(),
        )
        self._execute(seat.number)
        self._running[seat.number].caught_up()
        self.book.ready(0, seat=seat.number, tenure=seat.tenure, address="somewhere")
        return seat.number

    def kill(self, node: str) -> None:
        """Nothing of it is closed or flushed."""
        self.book.lost(0, node=node, for_good=False)

    def follow(self) -> None:
        """All servers execute all orders."""
        for seat in list(self._running):
            if any(s.number == seat for s in self.book.seats()):
                self._execute(seat)

    def _execute(self, seat: int) -> None:
        executor = self._running[seat]
        for order in self.book.orders(executor.done, 1000):
            executor.execute(order)
        for writer in executor._writers:
            writer.join()

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

    def stage(self, seat: int, variable: str, sequence: int, session: str = "s") -> None:
        push = Push(session, sequence, blocks=(BlockGradient(variable, 0, np.ones(4, np.float32)),))
        meta, payload = encode_push(push)
        self._running[seat].stage(push, meta, memoryview(b"".join(payload)))

    def contribute(self, seat: int, sequence: int, session: str = "s") -> None:
        told = self.book.contribute(
            0,
            session=session,
            sequence=sequence,
            based_on=self.book.iteration,
            examples=1,
            seats=[[seat, self.book.seat(seat).tenure]],
            map_version=self.book.map.version,
        )
        assert told.fate == "accepted", told

    def move_all(self) -> None:
        while (move := self.book.movable()) is not None:
            blocks = [list(block) for block in move.blocks]
            self.book.move(
                0, giver=move.giver, taker=move.taker, partitions=list(move.partitions), blocks=blocks, reason=""
            )
            taker = threading.Thread(target=self._execute, args=[move.taker])
            taker.start()
            self._execute(move.giver)
            taker.join()

    def of(self, seat: int) -> list[str]:
        return [name for name in NAMES if self.book.map.blocks[name][0] == seat]

    def value(self, seat: int, variable: str) -> Floats:
        found: Floats = self._stores[seat]._block(variable, 0).value
        return found


def test_a_server_that_came_while_a_dump_was_written_keeps_what_it_accepted(tmp_path: Path) -> None:
    servers = Servers(tmp_path, sync=False)
    servers.book.dump(0)
    servers.book.resize(0, seats=2)
    seat = servers.join("ps-1")
    servers.move_all()
    servers.follow()
    assert servers.finish_dump(0)
    variable = servers.of(seat)[0]
    servers.stage(seat, variable, 1)
    servers.contribute(seat, 1)
    servers.follow()
    assert np.all(servers.value(seat, variable) == -1)
    servers.kill("ps-1")
    servers.join("ps-1", 1)
    assert np.all(servers.value(seat, variable) == -1)
    assert not servers.said


def test_a_dump_during_the_recovery_of_a_server_keeps_what_waits_for_its_order(tmp_path: Path) -> None:
    servers = Servers(tmp_path, sync=True, batch=2)
    servers.stage(0, "a", 1)
    servers.contribute(0, 1)  # half a batch: it waits
    servers.kill("ps-0")
    servers.book.dump(0)
    servers.join("ps-0", 1)  # executes the dump among what it missed
    assert servers.finish_dump(0)
    servers.kill("ps-0")
    servers.join("ps-0", 2)
    servers.stage(0, "a", 2, "t")
    servers.contribute(0, 2, "t")
    servers.follow()
    assert servers.book.iteration == 1
    assert np.all(servers.value(0, "a") == -1)  # the mean of both
    assert not servers.said


def test_a_seat_that_goes_before_it_wrote_its_part_calls_the_dump_off(tmp_path: Path) -> None:
    servers = Servers(tmp_path, sync=False)
    servers.book.resize(0, seats=2)
    leaving = servers.join("ps-1")
    servers.move_all()
    servers.follow()
    dump = servers.book.dump(0)
    assert leaving in dump.seats
    assert not servers.finish_dump(0)
    servers.book.resize(0, seats=1)
    servers.move_all()
    servers.book.retire(0, seat=leaving)
    assert servers.book.open_dump is None
    assert servers.book.base.order < dump.number


def test_a_seat_that_wrote_its_part_and_goes_is_part_of_the_dump(tmp_path: Path) -> None:
    servers = Servers(tmp_path, sync=False)
    servers.book.resize(0, seats=2)
    leaving = servers.join("ps-1")
    servers.move_all()
    servers.follow()
    dump = servers.book.dump(0)
    servers.follow()
    assert not servers.finish_dump(leaving)
    servers.book.resize(0, seats=1)
    servers.move_all()
    servers.book.retire(0, seat=leaving)
    assert servers.finish_dump(0)
    assert servers.book.base.order == dump.number
    assert leaving in servers.book.base.seats


def test_a_log_that_cannot_begin_a_segment_goes_on_with_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PushLog(tmp_path, 1, 0)
    pushes = [encode_push(Push("s", n, blocks=(BlockGradient("a", 0, np.ones(4, np.float32)),))) for n in (1, 2)]
    log.append(pushes[0][0], pushes[0][1])

    def no_room(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "open", no_room)
        with pytest.raises(OSError, match="No space"):
            log.rotate(5, [])
    log.append(pushes[1][0], pushes[1][1])
    log.close()
    assert sorted(index(tmp_path, 0)) == [("s", 1), ("s", 2)]


def test_a_session_is_discarded_only_after_its_push_is_in_the_log(tmp_path: Path) -> None:
    servers = Servers(tmp_path, sync=False)
    executor = servers._running[0]
    appending, discarded = threading.Event(), threading.Event()
    append = executor._log.append

    def slowly(*arguments: Any) -> None:
        appending.set()
        assert not discarded.wait(0.3), "its memory was given away while it was written"
        append(*arguments)

    executor._log.append = slowly  # type: ignore[method-assign, assignment]
    stager = threading.Thread(target=servers.stage, args=(0, "a", 1))
    stager.start()
    assert appending.wait(10)
    servers.book.end_session(0, session="s")
    servers.follow()
    discarded.set()
    stager.join()
    assert not servers._stores[0].staged()
