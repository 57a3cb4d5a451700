"""Dumps, as the master sees them: when one is ordered, when it is complete, and which files are removed.

The servers write the files; the manifest that the master writes last makes them a complete dump. What nothing needs any more
(older dumps, moves that a dump covers) is removed in a thread.

Neighbours: ``core/parameters/dumps.py`` (the dump chain), ``ps/files.py`` (where the files are).
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from pliant.core.clock import Clock
from pliant.core.errors import InvalidRequest
from pliant.core.events import DumpCompleted, DumpFailed, LastDumpTimedOut, ParametersRestored
from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.dumps import Dump
from pliant.core.parameters.orders import Order
from pliant.master.components.parameters.changes import ChangeSignal
from pliant.master.components.parameters.observations import ServerObservations
from pliant.master.components.signals import CheckpointReported, SignalBus
from pliant.master.journal.journal import Journal
from pliant.ps.files import dump_folder, find_dump, write_manifest

log = logging.getLogger(__name__)

MAX_LOG_BYTES = 1 << 30  # of staged pushes on a server; then a dump is due, which truncates the log
LAST_DUMP_TIMEOUT_S = 60.0  # a job that is done waits this long for its last dump
RETRY_PAUSE_S = 10.0  # before a dump that failed is tried again
HINT = "check the space and the permissions of this directory on the machines of the parameter servers"


@dataclass(frozen=True, slots=True)
class RequestedDump:
    order: int
    iteration: int
    path: Path
    complete: bool  # else it failed


class DumpCoordinator:
    def __init__(
        self,
        book: ParameterBook,
        journal: Journal,
        clock: Clock,
        observations: ServerObservations,
        changes: ChangeSignal,
        signals: SignalBus,
        folder: Path,
    ) -> None:
        self._book = book
        self._journal = journal
        self._clock = clock
        self._observations = observations
        self._changes = changes
        self._signals = signals
        self._folder = folder
        self._begun_at = clock.now()  # of the last one, or of training
        self._retry_at = 0.0  # after one that failed
        self._last_requested_at = 0.0  # of the job's last dump
        self._is_failing = False  # the servers could not write the last one
        self._removing: asyncio.Task[None] | None = None

    def restore(self, folder: Path) -> None:
        """Begin from the newest complete dump of another job."""
        path, manifest = find_dump(folder)
        self._journal.do(
            self._book.restore_dump,
            path=str(path),
            iteration=manifest.iteration,
            tables=[dict(table) for table in manifest.tables],
            variables=[dict(variable) for variable in manifest.variables],
            initialized=list(manifest.initialized),
        )
        self._journal.event(ParametersRestored(path=str(path), iteration=manifest.iteration))

    def tick(self) -> None:
        now = self._clock.now()
        reason = self._book.dump_due(now, begun=self._begun_at) or self._long_log()
        if reason and now >= self._retry_at:
            self._begin(reason)
        if self._removing is not None and self._removing.done():
            self._removing = None

    async def request(self, *, full: bool) -> RequestedDump:
        """Order one now (after the one that is being written) and wait for its end."""
        while self._book.open_dump is not None:
            await self._changes.wait()
        if not self._book.last:
            raise InvalidRequest("no parameters are defined yet")
        order = self._begin("requested", full=True if full else None)
        while (dump := self._book.open_dump) is not None and dump.order == order.number:
            await self._changes.wait()
        complete = self._book.base.order >= order.number
        return RequestedDump(order.number, order.iteration, dump_folder(self._folder, order.number), complete)

    def written(self, seat: int, fencing_token: int, order: int) -> None:
        """A seat has written its part."""
        dump = self._open(seat, fencing_token, order)
        if dump is None:
            return
        if dump.with_written(seat).complete:
            write_manifest(self._folder, dump.with_written(seat), self._book.restore_chain())
        done = self._journal.do(self._book.dump_written, seat=seat, fencing_token=fencing_token, order=order)
        if done is not None:
            self._completed(done)

    def failed(self, seat: int, fencing_token: int, order: int, reason: str) -> None:
        """A seat cannot write its part."""
        if (dump := self._open(seat, fencing_token, order)) is not None:
            node, iteration = self._book.seat(seat).node, dump.iteration
            self._journal.do(self._book.dump_failed, order=order)
            self._signals.publish(CheckpointReported(node, self._directory, iteration, reason, HINT))
            if not self._is_failing:  # then every retry; the checkpoint monitor counts them
                self._journal.event(DumpFailed(node=node, order=order, reason=reason))
            self._is_failing = True
            self._retry()

    def cancelled(self, order: int, reason: str, node: str) -> None:
        """Not for the fault of those who write it."""
        self._journal.event(DumpFailed(node=node, order=order, reason=reason))
        self._retry()

    def _retry(self) -> None:
        self._begun_at = self._clock.now() - self._book.options.dump_seconds + RETRY_PAUSE_S
        self._retry_at = self._clock.now() + RETRY_PAUSE_S
        self._changes.notify()

    @property
    def _directory(self) -> str:
        return str(self._folder / "dumps")

    def is_settled(self) -> bool:
        """Whether a dump has the newest model; if not, one is begun. A job that is done waits for this, for a while."""
        book = self._book
        options = book.options
        if not (options.dump_iterations or options.dump_seconds) or book.iteration <= book.base.iteration:
            return True
        self._last_requested_at = self._last_requested_at or self._clock.now()
        if self._clock.now() - self._last_requested_at > LAST_DUMP_TIMEOUT_S:
            self._journal.event(LastDumpTimedOut(seconds=LAST_DUMP_TIMEOUT_S))
            problem = f"the final dump did not complete within {LAST_DUMP_TIMEOUT_S:.0f} s"
            self._signals.publish(CheckpointReported("", self._directory, book.iteration, problem, HINT))
            return True
        if book.open_dump is None:
            self._begin("all records are done")
        return False

    def _open(self, seat: int, fencing_token: int, order: int) -> Dump | None:
        """The dump that is being written, if it is this one."""
        self._book.check_holder(seat, fencing_token)
        dump = self._book.open_dump
        return dump if dump is not None and dump.order == order else None

    def _long_log(self) -> str:
        """Why a dump is due by what the servers keep on disk until there is one; empty: none is."""
        longest = self._observations.max_log_bytes()
        fresh = self._book.iteration > self._book.base.iteration and self._book.open_dump is None
        paused = self._clock.now() - self._begun_at >= RETRY_PAUSE_S
        return f"a server holds {longest >> 20:,} MiB of pushes" if fresh and paused and longest > MAX_LOG_BYTES else ""

    def _begin(self, reason: str, full: bool | None = None) -> Order:
        order = self._journal.do(self._book.dump, full=full)
        self._begun_at = self._clock.now()
        log.info("%s dump %d begins: %s", "full" if order.full else "incremental", order.number, reason)
        self._changes.notify()
        return order

    def _completed(self, dump: Dump) -> None:
        seconds = self._clock.now() - dump.begun
        self._is_failing = False
        self._signals.publish(CheckpointReported("", self._directory, dump.iteration))
        self._journal.event(DumpCompleted(order=dump.order, full=dump.full, iteration=dump.iteration, seconds=seconds))
        self._changes.notify()
        kept, base = set(self._book.kept_dumps()), self._book.base.order
        self._removing = asyncio.create_task(asyncio.to_thread(_remove_unneeded, self._folder, kept, base))


def _remove_unneeded(folder: Path, kept: set[int], base: int) -> None:
    """The files of dumps that are not kept, and of moves that a dump covers. If it fails, the next dump's turn does it."""
    dumps = [path for path in (folder / "dumps").glob("*") if path.name.isdigit() and int(path.name) <= base]
    moves = [path for path in (folder / "moves").glob("*") if path.name.isdigit() and int(path.name) <= base]
    for path in [*(dump for dump in dumps if int(dump.name) not in kept), *moves]:
        shutil.rmtree(path, ignore_errors=True)
