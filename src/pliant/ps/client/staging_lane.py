"""Staging that a worker does not wait for: it sends a gradient to the servers and goes on; another thread reads their answers.

The lane has connections of its own, so the worker's next pull does not queue behind the gradient. No array of the worker is used
after ``begin``: rows are added up by id into memory that they leave from (shared with the server, or the lane's own), and dense
gradients are copied.

1. One push is on its way at a time. The next one waits until all servers have answered: that is what bounds the memory and
   keeps the order.
2. What a server would refuse for good (NaN) is found here before anything is sent, in the thread whose gradient it is.
3. If a server dies, was replaced or has moved what the push is for, it is sent again from what is kept, as often as it takes, by
   whoever waits for it first: the thread that waits for answers, or the worker with its next push.

Neighbours: ``push_window`` (whose thread waits), ``push_staging`` (one attempt), ``client`` (makes one).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections.abc import Mapping

import numpy as np

from pliant.core.errors import InvalidRequest, PliantError, RetryableError
from pliant.core.parameters.contributions import PushDecision, PushOutcome
from pliant.ps.client.push_buffers import RowBuffers
from pliant.ps.client.push_staging import PushGradients, PushStager, SentPush, StagedPush
from pliant.ps.client.routing import Conversation, Route, Router
from pliant.ps.compiled.merging import first_not_finite
from pliant.ps.payloads import Floats, Ids, Push
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.parameters import push_decision

log = logging.getLogger(__name__)

MAX_WAIT_S = 60.0  # for one answer, before the connection is taken to be lost


class Staging:
    """One push on its way. ``staged``: all servers have it."""

    def __init__(self, lane: StagingLane, gradients: PushGradients) -> None:
        self.lane = lane
        self.gradients: PushGradients | None = gradients  # until it is staged
        self.sent: SentPush | None = None  # the same
        self.staged: StagedPush | None = None
        self.error: PliantError | None = None

    @property
    def is_done(self) -> bool:
        return self.staged is not None or self.error is not None

    def poll(self) -> StagedPush | None:
        """Whether it is staged; does not wait."""
        self.lane.poll(self)
        return self.staged

    def wait(self) -> StagedPush:
        """From another thread than the worker's, or from it."""
        self.lane.wait(self)
        if self.error is not None:
            raise self.error
        assert self.staged is not None
        return self.staged


class StagingLane:
    """``begin`` is called by one thread, ``wait`` of a ``Staging`` by any."""

    def __init__(self, conversation: Conversation, *, retry_timeout: float) -> None:
        self._router = Router(conversation, retry_timeout=retry_timeout)
        self._stager = PushStager(conversation, self._router, RowBuffers())
        self._lock = threading.Lock()  # who has it uses the router and its connections
        self._open: Staging | None = None
        self._wake = os.eventfd(
            0, os.EFD_CLOEXEC | os.EFD_NONBLOCK
        )  # for who waits at sockets that another thread reads
        self._dense: dict[str, Floats] = {}
        self._outdated: Route | None = None

    def begin(
        self, dense: Mapping[str, Floats], rows: Mapping[str, tuple[Ids, Floats]], examples: int, based_on: int
    ) -> Staging:
        """Send it. Waits until the push before it is staged."""
        with self._lock:
            if self._open is not None:
                self._finish(self._open)
            if self._outdated is not None:
                outdated, self._outdated = self._outdated, None
                self._stager.replace_route(outdated)
            kept = {name: self._copied(name, gradient) for name, gradient in dense.items()}
            gradients = PushGradients(kept, rows, examples, based_on)
            staging = Staging(self, gradients)
            try:
                staged, pushes = self._stager.prepare(self._router.route, gradients)
                _check_finite(pushes)
                staging.sent = self._stager.send(staged, pushes)
            except RetryableError as error:
                log.debug("sending a push again: %s", error)
                self._send_again(staging, gradients)
                staging.gradients = None
            else:
                self._open = staging
            return staging

    def wait(self, staging: Staging) -> None:
        """Until it is staged, or cannot be."""
        while not staging.is_done:
            self._await_answer(staging)
            with self._lock:
                if not staging.is_done:
                    self._finish(staging)

    def poll(self, staging: Staging) -> None:
        """Finish it if the servers have answered."""
        sent = staging.sent
        if sent is None or not all(connection.has_answer() for connection in sent.connections.values()):
            return
        if self._lock.acquire(blocking=False):  # else another thread is at it
            try:
                if not staging.is_done:
                    self._finish(staging)
            finally:
                self._lock.release()

    def settle(self, staged: StagedPush, reply: pb.ContributeReply) -> PushDecision:
        """What follows from the master's decision for the pushes to come. The connections may be in use by the other thread: a
        map that is outdated is replaced by the next push."""
        decision = push_decision(reply)
        self._stager.note(staged, decision)
        if decision.outcome is PushOutcome.MOVED:
            self._outdated = staged.route
        return decision

    def withdraw(self, staged: StagedPush) -> None:
        """The master is not asked about it."""
        self._stager.withdraw(staged)

    def end(self) -> None:
        """Whoever waits gets an error, and nothing is sent again."""
        self._router.end()

    # --- inside

    def _copied(self, name: str, gradient: Floats) -> Floats:
        """Kept until the next push."""
        kept = self._dense.get(name)
        if kept is None or kept.size != gradient.size:
            kept = self._dense[name] = np.empty(gradient.size, np.float32)
        np.copyto(kept, gradient)
        return kept

    def _await_answer(self, staging: Staging) -> None:
        """Until one begins to come, or another thread has read it; returns for no reason, too."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        sent = staging.sent
        if staging.is_done or sent is None:  # looked at after the read: either this tells, or the event
            return
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        connections = sent.connections.values()
        if all(connection.register(poll) for connection in connections) and not poll.poll(MAX_WAIT_S * 1000):
            for connection in connections:
                connection.close()

    def _finish(self, staging: Staging) -> None:
        """Read the answers; only who has the lock."""
        sent, gradients = staging.sent, staging.gradients
        assert sent is not None
        assert gradients is not None
        try:
            staging.staged = self._stager.receive(sent)
        except RetryableError as error:
            log.debug("sending push %d again: %s", sent.staged.sequence, error)
            self._send_again(staging, _kept(gradients, sent))
        except PliantError as error:
            staging.error = error
        staging.sent = staging.gradients = self._open = None
        os.eventfd_write(self._wake, 1)

    def _send_again(self, staging: Staging, gradients: PushGradients) -> None:
        """Until it is staged."""
        try:
            staging.staged = self._stager.stage(gradients)
        except PliantError as error:
            staging.error = error

    def __del__(self) -> None:
        os.close(self._wake)


def _check_finite(pushes: Mapping[int, Push]) -> None:
    """As a server does with what it receives."""
    for push in pushes.values():
        for rows in push.rows:
            if (bad := first_not_finite(rows.gradients)) >= 0:
                row, column = divmod(bad, rows.gradients.shape[1])
                value = rows.gradients[row, column]
                raise InvalidRequest(
                    f"the gradient of row {rows.ids[row]} of table {rows.table!r} has {value} at column {column}; "
                    "this push was rejected"
                )
        for block in push.blocks:
            if (bad := first_not_finite(block.gradient)) >= 0:
                raise InvalidRequest(
                    f"block {block.block} of {block.variable!r} has {block.gradient[bad]} at {bad}; this push was rejected"
                )


def _kept(gradients: PushGradients, sent: SentPush) -> PushGradients:
    """The same push with rows of its own: what was sent may lie in memory that is shared with a server."""
    ids: dict[str, list[Ids]] = {}
    values: dict[str, list[Floats]] = {}
    for push in sent.pushes.values():
        for rows in push.rows:
            ids.setdefault(rows.table, []).append(rows.ids)
            values.setdefault(rows.table, []).append(rows.gradients)
    own = {table: (np.concatenate(ids[table]), np.concatenate(values[table])) for table in ids}
    return PushGradients(gradients.dense, own, gradients.examples, gradients.based_on, numbers=gradients.numbers)
