"""Shards leased from a master: prefetched, acknowledged in batches, by a thread beside the user's loop.

The exchange thread sends everything: acknowledgements and requests for new leases travel in the same call, and what
gathers while a call is in flight goes with the next. How many shards are prefetched follows the loop's speed (about
``PREFETCH_S`` of work), so that tiny shards travel by the hundred and long ones one by one, and no worker holds work
that others wait for. Nothing is leased before the loop asks for its first shard: until then the position of the dataset may be
restored.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from pliant.client.combining import TrainingObserver
from pliant.client.session import Session
from pliant.client.shards import Shard
from pliant.client.standalone import record_key
from pliant.core.errors import PliantError
from pliant.core.shards.datasets import DatasetSpec, ShardType
from pliant.core.shards.leases import Availability
from pliant.files.time_meter import time_meter
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.enums import AVAILABILITY

log = logging.getLogger(__name__)

PREFETCH_S = 0.25
MAX_PREFETCH = 1024
POLL_TIMEOUT_S = 20.0  # a call that waits for shards is renewed after this
LINGER_S = 0.5  # an abandoned shard is released after this, unless the program fails before
PROGRESS_INTERVAL_S = 0.2  # progress inside a shard is not reported more often


class LeaseClient:
    def __init__(
        self,
        session: Session,
        spec: DatasetSpec,
        *,
        prefetch: int | None = None,
        observer: TrainingObserver | None = None,
    ) -> None:
        """``observer``: whether the program trains what it leases, for datasets that are for training."""
        self._session = session
        self._observer = observer if spec.type is ShardType.TRAIN else None
        self._spec = spec
        self._fixed_prefetch = prefetch
        self._changed = threading.Condition()
        self._generation = session.generation
        self._ready: deque[Shard] = deque()
        self._held: dict[int, Shard] = {}  # by lease, until the master has answered the last report on it
        self.lost_shards = 0
        self._reports = _Reports()
        self._batch = 1  # number of the batch of reports that gathers now
        self._reported = 0  # number of the last batch that has any
        self._answered = 0  # number of the last batch that was answered
        self._is_flushing = False  # progress does not wait for its interval
        self._availability = Availability.MORE
        self._poll: Any = None  # a call that waits for shards
        self._progress_at = 0.0
        self._pace = 0.0  # seconds per shard, smoothed
        self._taken_at: float | None = None
        self._is_loop_waiting = False
        self._told_waiting = False  # the master knows that it is
        self._error: PliantError | None = None
        self._closing = False
        self._abandoned: Shard | None = None
        self._abandoned_until = 0.0
        self._thread = threading.Thread(target=self._exchange_loop, name=f"pliant-shards-{spec.name}", daemon=True)
        self._is_started = self._is_ended = False

    # --- called by the user's loop

    def take(self) -> Shard | None:
        if self._observer is not None:
            self._observer.watch()
        with self._changed:
            self._note_pace()
            self._start()
            try:
                while not self._ready:
                    if self._error is not None:
                        raise self._error
                    if self._closing or self._availability is Availability.END:
                        return None
                    self._wait_for_shard()
            finally:
                self._is_loop_waiting = self._told_waiting = False
            shard = self._ready.popleft()
            self._taken_at = time.monotonic()
            self._changed.notify_all()
            return shard

    def poll(self) -> Shard | None:
        with self._changed:
            self._start()
            if self._error is not None:
                raise self._error
            return self.take() if self._ready else None

    def _start(self) -> None:
        if not self._is_started and not self._closing:
            self._is_started = True
            self._thread.start()

    def _wait_for_shard(self) -> None:
        if not self._is_loop_waiting:
            self._is_loop_waiting = True
            self._changed.notify_all()
        with time_meter().data:
            self._changed.wait()

    def done(self, shard: Shard, note: bytes | None = None) -> None:
        self._report(shard, lambda reports: reports.finish(shard.lease, note))

    def failed(self, shard: Shard, message: str) -> None:
        self._report(shard, lambda reports: reports.failed.append((shard.lease, message)))

    def released(self, shard: Shard) -> None:
        self._report(shard, lambda reports: reports.released.append(shard.lease))

    def progress(self, shard: Shard, records: int) -> None:
        with self._changed:
            if self._held.get(shard.lease) is shard:
                self._reports.progress[shard.lease] = max(records, self._reports.progress.get(shard.lease, 0))
                self._reported = self._batch
                self._changed.notify_all()

    def flush(self, shard: Shard | None = None) -> bool:
        with self._changed:
            target = self._reported
            self._is_flushing = self._is_flushing or target == self._batch
            self._changed.notify_all()
            while self._answered < target:
                if self._error is not None:
                    raise self._error
                if self._is_ended:
                    break  # nothing is left to be sent
                self._changed.wait()
            return shard is None or not shard.lost

    def settled(self, shard: Shard) -> None:
        with self._changed:
            if self._held.get(shard.lease) is shard:
                del self._held[shard.lease]
                self._reports.progress.pop(shard.lease, None)
                self._changed.notify_all()

    def abandon(self, shard: Shard | None) -> None:
        with self._changed:
            self._abandoned = shard
            self._abandoned_until = time.monotonic() + LINGER_S
            self._leave()

    @property
    def busy(self) -> bool:
        return not self._closing or self._thread.is_alive()

    def close(self, *, died: bool = False) -> None:
        """Send the remaining reports. ``died``: by an error; the shard it died on stays leased, for its agent to report."""
        with self._changed:
            if died:
                self._abandoned = None
            self._abandoned_until = 0.0
            self._leave()
        if self._is_started and threading.current_thread() is not self._thread:
            self._thread.join(timeout=10)

    def _leave(self) -> None:
        self._closing = True
        while self._ready:
            self._ready.popleft().release()
        self._changed.notify_all()
        if self._poll is not None:
            self._poll.cancel()

    def _report(self, shard: Shard, note: Callable[[_Reports], None]) -> None:
        with self._changed:
            if self._held.get(shard.lease) is not shard:  # of an expired session
                self._lose(shard)
                return
            note(self._reports)
            self._reported = self._batch
            self._changed.notify_all()

    def _note_pace(self) -> None:
        if self._taken_at is not None:
            took = time.monotonic() - self._taken_at
            self._pace = took if not self._pace else 0.8 * self._pace + 0.2 * took
            self._taken_at = None

    # --- the exchange thread

    def _exchange_loop(self) -> None:
        try:
            while self._wait_for_work():
                self._one_exchange()
        except PliantError as error:
            self._error = error
        finally:
            with self._changed:
                self._is_ended = True
                self._changed.notify_all()

    def _wait_for_work(self) -> bool:
        """Until there is something to send or to request; False at the end."""
        with self._changed:
            while True:
                if self._reports.is_urgent() or self._is_flushing or self._missing() > 0:
                    return True
                wait = None
                if self._abandoned is not None:
                    wait = self._abandoned_until - time.monotonic()
                    if wait <= 0:
                        self._abandoned.release()
                        self._abandoned = None
                        continue
                elif self._closing:
                    return bool(self._reports.progress)
                if self._reports.progress:
                    wait = self._progress_at + PROGRESS_INTERVAL_S - time.monotonic()
                    if wait <= 0:
                        return True
                self._changed.wait(wait)

    def _missing(self) -> int:
        """How many more shards to request now."""
        if self._closing or self._availability is Availability.END:
            return 0
        if self._availability is Availability.WAIT:
            self._start_poll()
        target = self._prefetch_target()
        if self._availability is Availability.WAIT:  # an answer that came at once has changed it
            return target if self._is_loop_waiting and not self._told_waiting else 0
        missing = target - len(self._ready)
        # Request when half is used, so that a call leases many; but never let the loop run dry.
        return missing if missing * 2 >= target or not self._ready else 0

    def _prefetch_target(self) -> int:
        if self._fixed_prefetch is not None:
            return max(1, min(MAX_PREFETCH, self._fixed_prefetch))
        if not self._pace:
            return 2
        return max(1, min(MAX_PREFETCH, ceil(PREFETCH_S / self._pace)))

    def _one_exchange(self) -> None:
        with self._changed:
            reports, self._reports = self._reports, _Reports()
            batch, self._batch = self._batch, self._batch + 1
            self._is_flushing = False
            self._progress_at = time.monotonic()
            request = reports.message(self._spec.name, self._missing())
            request.waiting = self._told_waiting = self._is_loop_waiting
            request.trains_alone = bool(reports.done) and self._observer is not None and self._observer.trains_alone()
            generation = self._generation
        reply = self._session.exchange(request, generation)
        with self._changed:
            if reply is None:
                self._start_over()
            else:
                self._take_reply(reply, reports, request.session)
            self._answered = max(self._answered, batch)
            self._changed.notify_all()

    def _take_reply(self, reply: pb.ExchangeReply, reports: _Reports, session: str) -> None:
        for lease in reply.refused:
            if (shard := self._held.pop(lease, None)) is not None:
                self._lose(shard)
        for lease in reports.finished():
            self._held.pop(lease, None)
        for message in reply.shards:
            shard = self._shard(message, session)
            self._held[shard.lease] = shard
            self._ready.append(shard)
        self._availability = AVAILABILITY.from_wire(reply.availability)
        if self._closing:  # the loop was left while these were in flight
            while self._ready:
                self._ready.popleft().release()

    def _start_over(self) -> None:
        """A new session: the leases of the old one are lost."""
        for shard in self._held.values():
            if shard not in self._ready:
                self._lose(shard)
        self._held.clear()
        self._ready.clear()
        self._reports = _Reports()
        self._answered, self._batch = self._batch, self._batch + 1
        self._is_flushing = False
        self._generation = self._session.generation
        self._availability = Availability.MORE

    def _lose(self, shard: Shard) -> None:
        if shard.lost:
            return
        shard.lost = True
        self.lost_shards += 1
        log.warning("%r was leased to another worker; work done on it here does not count", shard)

    def _shard(self, m: pb.Shard, session: str) -> Shard:
        return Shard(
            self,
            m.lease,
            self._spec.name,
            m.name,
            m.start,
            m.end,
            epoch=m.epoch,
            offset=m.offset,
            indices=m.indices,
            shuffle_key=record_key(self._spec, m.epoch, m.ordinal),
            session=session,
            partition=m.name if self._spec.partitions else None,
        )

    def _start_poll(self) -> None:
        """Wait at the master, in the background, until the dataset has shards again or is at its end."""
        if self._poll is not None:
            return
        request = pb.WaitForShardsRequest(dataset=self._spec.name, session=self._session.name)
        self._poll = self._session.start(self._session.master.stubs.shards.WaitForShards, request, POLL_TIMEOUT_S)
        self._poll.add_done_callback(self._polled)

    def _polled(self, call: Any) -> None:
        with self._changed:
            self._poll = None
            if self._availability is Availability.WAIT:
                self._availability = Availability.MORE  # perhaps; the next request shows
            self._changed.notify_all()


@dataclass(slots=True)
class _Reports:
    """What the loop reported since the last call."""

    done: list[int] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    progress: dict[int, int] = field(default_factory=dict)
    notes: dict[int, bytes] = field(default_factory=dict)

    def finish(self, lease: int, note: bytes | None) -> None:
        self.progress.pop(lease, None)
        self.done.append(lease)
        if note is not None:
            self.notes[lease] = note

    def is_urgent(self) -> bool:
        return bool(self.done or self.failed or self.released)

    def finished(self) -> list[int]:
        return [*self.done, *(lease for lease, _ in self.failed), *self.released]

    def message(self, dataset: str, want: int) -> pb.ExchangeRequest:
        return pb.ExchangeRequest(
            dataset=dataset,
            want=want,
            done=self.done,
            failed=[pb.LeaseFailure(lease=n, message=text) for n, text in self.failed],
            released=self.released,
            progress=[pb.LeaseProgress(lease=n, records=records) for n, records in self.progress.items()],
            notes=[pb.LeaseNote(lease=n, data=data) for n, data in self.notes.items()],
        )
