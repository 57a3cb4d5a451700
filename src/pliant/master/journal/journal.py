"""Every decision that must survive is on disk before it is answered.

The state machines of ``core`` change in memory, on the event loop; ``Journal.do`` notes each call. What is noted without
an ``await`` in between (a call, what follows from it, its events and its audit) reaches the disk together or not at all.
A writer thread takes whatever has gathered and commits it as one batch (group commit: one fsync serves all calls of the
last millisecond). A handler answers only after ``durable()``, which waits for everything noted *so far*, not just its
own call: an answer may rest on what another call has just changed.

From time to time a snapshot of the state is stored and the calls before it are dropped, so the journal's size is bounded
by what is in flight, and a restart is quick.

If the disk fails, nothing more is answered and the master ends; its successor resumes from what was committed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from pliant.core.clock import Clock
from pliant.core.errors import MasterUnavailable
from pliant.core.events import Event, EventRecord
from pliant.core.job_state import JobState, Operation
from pliant.core.shards.audit import AuditRow
from pliant.master.journal.store import Batch, JournalStore

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

SNAPSHOT_EVERY = 2000  # operations


class Journal:
    def __init__(self, store: JournalStore, clock: Clock, state: JobState, *, last_event: int = 0) -> None:
        """``state``: the machines whose operations are noted, as the store has them."""
        self._store = store
        self._clock = clock
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._names = {id(machine): name for name, machine in state.machines().items()}
        self._pending = Batch()  # what the loop notes; handed over once the loop's current callback is done
        self._handed = Batch()  # what the writer takes, under the condition
        self._handing = False
        self._noted = 0  # rises with each note
        self._upto = 0  # of what was handed over
        self._committed = 0
        self._waiting_since: float | None = None  # monotonic; None: nothing is to be committed
        self._since_snapshot = 0
        self._event_number = last_event
        self._waiters: asyncio.Future[None] = self._loop.create_future()
        self._wake = threading.Condition()
        self._closing = False
        self.failure: Exception | None = None
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self._thread = threading.Thread(target=self._write_loop, name="journal", daemon=True)
        self._thread.start()

    def do(self, method: Callable[Concatenate[float, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a state machine's method now, and note the call. A call that raises changed nothing and is not noted."""
        assert not args, "a journaled call has keyword arguments only"
        now = self._clock.now()
        result = method(now, **kwargs)  # type: ignore[call-arg]
        self._note_operation(method, now, kwargs)
        return result

    def record(self, method: Callable[Concatenate[float, P], T], *args: P.args, **kwargs: P.kwargs) -> None:
        """Note a call that would have done what was done to its state machine since the last ``await``, step by step."""
        assert not args, "a journaled call has keyword arguments only"
        self._note_operation(method, self._clock.now(), kwargs)

    def event(self, event: Event) -> EventRecord:
        """Note what happened; it is committed together with the decisions around it."""
        self._event_number += 1
        record = EventRecord(self._event_number, self._clock.now(), event.cleaned())
        self._note(lambda batch: batch.events.append(record))
        return record

    def audit(self, rows: list[AuditRow]) -> None:
        self._note(lambda batch: batch.audit.extend(rows))

    def take_snapshot(self) -> None:
        """Store the state as it is now; it holds all operations noted so far, so those are dropped."""
        self._since_snapshot = 0
        snapshot = self._state.snapshot()

        def put(batch: Batch) -> None:
            batch.snapshot = snapshot
            batch.operations.clear()

        self._note(put)

    @property
    def noted(self) -> int:
        """How much was noted so far: it grows with every decision and event."""
        return self._noted

    async def durable(self) -> None:
        """Wait until everything noted so far is on disk. Raises ``MasterUnavailable`` from the first failure on."""
        target = self._noted
        while self.failure is None and self._committed < target:
            await asyncio.shield(self._waiters)
        if self.failure is not None:
            raise MasterUnavailable(f"the master cannot write its journal: {self.failure}")

    def waited_s(self) -> float:
        """For how long nothing was committed although there is something to commit."""
        return 0.0 if self._waiting_since is None else time.monotonic() - self._waiting_since

    def limit_outage(self, seconds: float) -> None:
        """This master is to end: do not wait longer for a storage that is away."""
        self._store.limit_outage(seconds)

    async def close(self) -> None:
        self.limit_outage(0.0)
        self._hand_over()
        with self._wake:
            self._closing = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)
        self._store.close()

    def _note_operation(self, method: Callable[..., Any], now: float, arguments: Mapping[str, Any]) -> None:
        name = self._names[id(method.__self__)]  # type: ignore[attr-defined]
        operation = Operation(name, method.__name__, now, arguments)
        self._note(lambda batch: batch.operations.append(operation))
        self._since_snapshot += 1
        if self._since_snapshot >= SNAPSHOT_EVERY:
            self.take_snapshot()

    def _note(self, put: Callable[[Batch], None]) -> None:
        put(self._pending)
        self._noted += 1
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        if not self._handing:
            self._handing = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._handing = False
        batch, self._pending = self._pending, Batch()
        with self._wake:
            self._handed.append(batch)
            self._upto = self._noted
            self._wake.notify()

    def _write_loop(self) -> None:
        while True:
            with self._wake:
                is_idle = not self._wake.wait_for(lambda: self._handed or self._closing, self._store.check_every_s)
                batch, upto = self._handed, self._upto
                self._handed = Batch()
                if not batch and self._closing:
                    return
            try:
                if is_idle:
                    self._store.check()
                else:
                    self._store.commit(batch)
            except Exception as error:  # noqa: BLE001  # whatever it is, no waiter may hang on this thread
                self._loop.call_soon_threadsafe(self._failed, error)
                return
            self._loop.call_soon_threadsafe(self._done, upto)

    def _done(self, upto: int) -> None:
        self._committed = max(self._committed, upto)
        self._waiting_since = time.monotonic() if self._committed < self._noted else None
        waiters, self._waiters = self._waiters, self._loop.create_future()
        waiters.set_result(None)

    def _failed(self, error: Exception) -> None:
        log.error("cannot write the journal: %s", error)
        self.failure = error
        waiters, self._waiters = self._waiters, self._loop.create_future()
        waiters.set_result(None)
        self.on_failure(error)
