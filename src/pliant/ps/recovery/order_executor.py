"""Executes the replicated log of orders on one store. The same orders with the same staged pushes yield the same store, bit for
bit.

After a restart the orders since the last dump are executed again, with what the log has. What was moved is in files of its
own until a dump covers the move, so that a move can be executed again too: the source's file is written once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path

from pliant.core.errors import PliantError, RetryableError
from pliant.core.parameters.dumps import RestorePoint
from pliant.core.parameters.orders import Order, OrderKind
from pliant.core.parameters.partition_map import Move, PartitionMap
from pliant.ps.files import dump_folder, move_folder
from pliant.ps.payloads import Push
from pliant.ps.recovery import push_log
from pliant.ps.recovery.dumps import is_whole, read_chunks, write_chunks
from pliant.ps.recovery.push_log import PushLog, RecordLocation
from pliant.ps.recovery.restore import ownership
from pliant.ps.specs import spec_from_json
from pliant.ps.store.store import ParameterStore
from pliant.ps.wire.frames import decode_push, encode_push

log = logging.getLogger(__name__)

PAUSE = 0.02  # seconds between two looks for a file that another server writes
RETRY = 1.0  # seconds before a file is tried again that did not fit


class Stopped(Exception):
    """The server was asked to end while it waited."""


class OrderExecutor:
    def __init__(
        self,
        store: ParameterStore,
        point: RestorePoint,
        folder: Path,
        *,
        report: Callable[[str], None],
        on_dump: Callable[[int, str], None],
        stopping: threading.Event,
        at_disk: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``on_dump`` is called for each dump (its order, and what failed) in a thread of its own. Files are read and
        written within ``at_disk()``."""
        self._store = store
        self._seat = point.seat
        self._map: PartitionMap = point.map
        self._folder = folder
        self._report = report
        self._on_dump = on_dump
        self._stopping = stopping
        self._at_disk = at_disk
        self._logged: dict[tuple[str, int], list[RecordLocation]] = push_log.index(self._home, point.base)
        self._log = PushLog(self._home, point.fencing_token, point.base, durable=point.durable_log)
        self._staging = threading.Lock()  # a push is in the store and in the log, or in neither
        self._writers: list[threading.Thread] = []
        self.done = point.base

    @property
    def _home(self) -> Path:
        return self._folder / f"seat-{self._seat}"

    @property
    def log_bytes(self) -> int:
        return self._log.bytes

    def stage(self, push: Push, meta: bytes, payload: memoryview) -> None:
        """Of a worker: kept in memory and on disk before it is answered."""
        with self._staging:
            if not self._store.stage(push):
                return
            try:
                self._log.append(meta, [payload])
            except OSError as error:
                self._store.unstage(push)
                raise RetryableError(
                    f"the parameter server of seat {self._seat} cannot store a push in {self._home}: {error.strerror}",
                    hint="free up disk space",
                ) from error

    def finish_replay(self) -> None:
        """All orders of before were executed: what is left in the log waits for orders to come."""
        for identity in list(self._logged):
            self._stage_logged(identity)
        self._logged.clear()

    def execute(self, order: Order) -> None:
        assert order.number == self.done + 1, f"order {order.number} after {self.done}"
        match order.kind:
            case OrderKind.DEFINE:
                self._define(order)
            case OrderKind.APPLY | OrderKind.ASSIGN:
                self._apply(order)
            case OrderKind.DISCARD:
                for identity in [key for key in self._logged if key[0] == order.session]:
                    del self._logged[identity]
                with self._staging:  # one that is being written to the log keeps its memory until it is there
                    self._store.discard(order.session)
            case OrderKind.MOVE:
                self._move(order)
            case OrderKind.DUMP:
                if self._seat in order.seats:
                    self._dump(order)
                else:  # it came later, and has nothing to dump; but when the dump is complete, older segments are not read
                    self._write_with_retry(lambda: self._rotate(order), f"the log of seat {self._seat} in {self._home}")
            case OrderKind.NOTHING:
                log.debug("order %d was canceled", order.number)
        self.done = order.number

    def truncate_log(self, base: int) -> None:
        """A dump of this order is complete."""
        self._log.truncate(base)

    def close(self) -> None:
        for writer in self._writers:
            writer.join(timeout=60)
        self._log.close()

    # --- kinds of orders

    def _define(self, order: Order) -> None:
        for spec in (*order.tables, *order.variables):
            self._store.define(spec_from_json(dict(spec)))
        blocks = {**self._map.blocks, **order.placement}
        self._map = PartitionMap(order.map_version, self._map.partitions, blocks)
        self._store.own(ownership(self._map, self._seat))

    def _apply(self, order: Order) -> None:
        own = [contribution for contribution in order.contributions if self._seat in contribution.seats]
        for contribution in own:
            self._stage_logged((contribution.session, contribution.sequence))
        if order.kind is OrderKind.ASSIGN:
            applied = self._store.assign(own)
        else:
            applied = self._store.apply(own, order.scale, order.iteration, order.factors)
        for missing in applied.missing:
            self._report(
                f"seat {self._seat} no longer has contribution {missing.sequence} of {missing.session}: its "
                f"share of iteration {order.iteration:,} is lost"
            )

    def _stage_logged(self, identity: tuple[str, int]) -> None:
        for location in self._logged.pop(identity, ()):
            with self._at_disk():
                meta, payload = push_log.read(location)
            try:
                self._store.stage(decode_push(meta, memoryview(payload), self._store.names))
            except PliantError as error:  # never answered with "staged" by the map of its time, so in no order
                log.warning("discarding what %s staged as %d: %s", *identity, error)

    def _move(self, order: Order) -> None:
        move = Move(order.source, order.target, order.partitions, order.blocks)
        after = self._map.moved(move)
        stem = move_folder(self._folder, order.number) / f"from-{move.source}-to-{move.target}"
        if self._seat == move.source:
            self._store.own(ownership(after, self._seat))  # from here on nobody changes it
            if not is_whole(stem):
                chunks = list(self._store.export(move.partitions, move.blocks))
                facts = {"order": order.number}
                what = f"the state that seat {self._seat} moves away, to {stem.parent},"
                self._write_with_retry(lambda: write_chunks(stem, chunks, facts=facts), what)
            self._store.drop(move.partitions, move.blocks)
        elif self._seat == move.target:
            while not is_whole(stem):
                if self._stopping.wait(PAUSE):
                    raise Stopped
            self._store.import_(read_chunks(stem))
            self._store.own(ownership(after, self._seat))
        else:
            self._store.own(ownership(after, self._seat))
        self._map = after

    def _write_with_retry(self, write: Callable[[], object], what: str) -> None:
        """For what has to be written before anything else is done: if the disk is full, wait until there is room."""
        reported = False
        while True:
            try:
                with self._at_disk():
                    write()
                return
            except OSError as error:
                if not reported:
                    self._report(f"{what} cannot be written: {error}; free up disk space there")
                reported = True
            if self._stopping.wait(RETRY):
                raise Stopped

    def _rotate(self, order: Order) -> None:
        """Begin the log's segment of a dump with all that waits for orders: what is staged, and what is not staged again yet
        because the orders that come before it are still being executed after a restart."""
        with self._at_disk(), self._staging:
            staged = (_encoded(push) for push in self._store.waiting())
            logged = (push_log.read(location) for places in self._logged.values() for location in places)
            self._log.rotate(order.number, chain(staged, logged))
            if self._logged:  # the segments before will be truncate
                there = push_log.index(self._home, order.number)
                self._logged = {identity: there[identity] for identity in self._logged}

    def _dump(self, order: Order) -> None:
        stem = dump_folder(self._folder, order.number) / f"seat-{self._seat}"
        since = None if order.since < 0 else order.since
        try:
            self._rotate(order)
            begun = time.perf_counter()
            snapshot = None if is_whole(stem) else self._store.live_snapshot(since)
            log.info("dump %d: begun in %.3f s", order.number, time.perf_counter() - begun)
        except OSError as error:
            self._on_dump(order.number, f"{self._home} cannot be written: {error.strerror}")
            return

        def write() -> None:
            try:
                with snapshot or nullcontext():
                    if snapshot is not None and not is_whole(stem):
                        write_chunks(stem, snapshot, facts={"order": order.number, "iteration": order.iteration})
                log.info("dump %d: written in %.3f s", order.number, time.perf_counter() - begun)
                failure = ""
            except OSError as error:
                failure = f"{stem.parent} cannot be written: {error}"
            self._on_dump(order.number, failure)

        self._writers = [*(w for w in self._writers if w.is_alive()), threading.Thread(target=write, name="ps-dump")]
        self._writers[-1].start()


def _encoded(push: Push) -> tuple[bytes, bytes]:
    meta, payload = encode_push(push)
    return meta, b"".join(payload)
