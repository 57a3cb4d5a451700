"""Model push: the servers send each new iteration as soon as they have it, while the worker still computes on an older one.

A thread of its own has a request waiting at every server that holds dense variables. A server answers when it has applied the
next iteration, with the blocks that changed, and the next request is there before the one after that. So the worker knows at
once that its model is old (``newest``), and finds the new one already here.

1. The copy is written only while nobody reads it, and read only while it is whole: all blocks of one iteration if training is
   synchronous.
2. ``newest`` never falls, and is told only when the copy is whole.
3. Whatever happens to servers and their places, the thread goes on; if nobody answers for too long, who waits for a model gets
   that error.

Neighbours: ``client`` (makes one), ``dense_copy``; rows of tables are pulled, since only the worker knows which it needs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pliant.core.errors import PermanentError, PliantError, RetryableError
from pliant.ps.connection import PsConnection
from pliant.ps.dense_copy import DenseCopy
from pliant.ps.pieces import Floats
from pliant.ps.routing import Conversation, Route, Router

log = logging.getLogger(__name__)

WAIT = 10.0  # seconds that a request waits at a server, before it is answered with what there is


@dataclass(frozen=True)
class Followed:
    """Dense variables of one iteration (the oldest of all, if they differ: ps-async)."""

    iteration: int
    dense: dict[str, Floats]


class _Closed(PermanentError):
    """Nobody follows any more."""


class ModelStream:
    """``with stream.model() as model:`` is the newest there is; its arrays are good inside the ``with``."""

    def __init__(self, conversation: Conversation, names: Sequence[str], *, patience: float) -> None:
        self._router = Router(conversation, patience=patience)
        self._names = list(names)
        self._copy = DenseCopy()
        for name in names:
            self._copy.make_room(self._router.route.variables[name])
        self._changed = threading.Condition()
        self._newest = -1
        self._oldest = -1  # of all places
        self._whole = False
        self._readers = 0
        self._closed = False
        self._failed: PliantError | None = None
        self._thread = threading.Thread(target=self._run, name="pliant-model-stream", daemon=True)
        self._thread.start()

    @property
    def newest(self) -> int:
        """The newest iteration that is wholly here."""
        return self._newest

    @contextmanager
    def model(self, at_least: int = 0) -> Iterator[Followed]:
        """Not older than ``at_least``; waits for it."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failed is not None or (self._whole and self._newest >= at_least),
            )
            if self._failed is not None:
                raise self._failed
            self._readers += 1
            iteration = self._oldest
        try:
            route = self._router.route
            yield Followed(iteration, {name: self._copy.shaped(route.variables[name]) for name in self._names})
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
        self._router.interrupt()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._router.close()

    # --- the thread

    def _run(self) -> None:
        """Ends by ``close``, or with the error that the next reader gets."""
        try:
            while not self._closed:
                self._router.insist(self._next, "following the model")
            raise _Closed("the stream of the model was closed")
        except Exception as error:  # noqa: BLE001  # a thread's border: whatever it is, nobody may wait for it in vain
            with self._changed:
                self._failed = (
                    error if isinstance(error, PliantError) else PermanentError(f"following the model: {error!r}")
                )
                self._changed.notify_all()

    def _next(self, route: Route) -> None:
        if self._closed:
            raise _Closed("the stream of the model was closed")
        try:
            versions = self._receive(route, self._newest + 1, WAIT)
            while route.sync and min(versions) != max(versions):
                versions = self._receive(route, max(versions), 0.0)  # some were ahead
        except RetryableError:
            if self._closed:
                raise _Closed("the stream of the model was closed") from None
            raise
        with self._changed:
            self._whole = True
            self._oldest, self._newest = min(versions), max(self._newest, *versions)
            self._changed.notify_all()

    def _receive(self, route: Route, wanted: int, wait: float) -> list[int]:
        """One answer of each place; the copy is not whole from the first on."""
        places = self._copy.places(route, self._names)
        send = {place: self._copy.request(route, place, blocks, wanted, wait) for place, blocks in places.items()}

        def receive(place: int, connection: PsConnection) -> int:
            connection.wait_for_answer()
            with self._changed:
                self._changed.wait_for(lambda: not self._readers)
                self._whole = False
            return self._copy.receive(route, place, places[place], connection)

        return self._router.ask(send, receive)
