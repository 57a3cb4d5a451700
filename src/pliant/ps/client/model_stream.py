"""Model push: the servers send each new iteration as soon as they have it, while the worker still computes on an older one.

A thread of its own has a request waiting at every server that holds dense variables. A server answers when it has applied the
next iteration, with the blocks that changed, and the next request is there before the one after that. So the worker knows at
once that its model is old (``newest``), and finds the new one already here.

1. The copy is written only while nobody reads it, and read only while it is whole: all blocks of one iteration if training is
   synchronous.
2. ``newest`` never falls, and is published only when the copy is whole.
3. First values that come after the stream began are asked for: servers count them as of the iteration that is here already.
4. Whatever happens to servers and seats, the thread continues; if nobody answers for too long, a caller that waits for a model gets
   that error.

Neighbours: ``client`` (makes one), ``dense_copy``; rows of tables are pulled, since only the worker knows which it needs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from pliant.core.errors import InvalidRequest, PermanentError, PliantError, RetryableError
from pliant.files.time_meter import time_meter
from pliant.ps.client.connection import PsConnection
from pliant.ps.client.dense_copy import DenseCopy
from pliant.ps.client.routing import Conversation, Route, Router
from pliant.ps.payloads import Floats

log = logging.getLogger(__name__)

MAX_WAIT_S = 10.0  # of a request at a server, before it is answered with what there is
FIRST_VALUES_WAIT_S = 1.0  # the same, while variables may still get their first values, which are no new iteration


@dataclass(frozen=True)
class Followed:
    """Dense variables of one iteration (the oldest of all, if they differ: ps-async)."""

    iteration: int
    dense: dict[str, Floats]


class _Closed(PermanentError):
    """Nobody follows any more."""


class ModelStream:
    """``with stream.model() as model:`` is the newest there is; its arrays are good inside the ``with``."""

    def __init__(self, conversation: Conversation, names: Sequence[str], *, retry_timeout: float) -> None:
        self._router = Router(conversation, retry_timeout=retry_timeout)
        self._names = list(names)
        self._copy = DenseCopy()
        for name in names:
            self._copy.make_room(self._router.route.variables[name])
        self._changed = threading.Condition()
        self._newest = -1
        self._oldest = -1  # of all servers
        self._whole = False
        self._readers: list[int] = []  # threads
        self._settled = self._has_first_values(self._router.route)  # what is here has them, of all variables
        self._awaited = False  # nothing else may be read any more
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
        me = threading.get_ident()

        def ready() -> bool:
            return self._failed is not None or (self._whole and self._oldest >= at_least)

        with self._changed:
            if me in self._readers and not ready():
                raise InvalidRequest(
                    f"iteration {at_least} cannot be received while this thread reads iteration {self._oldest}",
                    hint="exit the `with` block of the older model first",
                )
            if not ready():
                with time_meter().peers:
                    self._changed.wait_for(ready)
            if self._failed is not None:
                raise self._failed
            self._readers.append(me)
            iteration = self._oldest
        try:
            route = self._router.route
            yield Followed(iteration, {name: self._copy.shaped(route.variables[name]) for name in self._names})
        finally:
            with self._changed:
                self._readers.remove(me)
                self._changed.notify_all()

    def await_first_values(self) -> None:
        """All servers have them: what was here before is not shown any more."""
        with self._changed:
            self._awaited = True
            self._whole = self._whole and self._settled

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
                self._router.call_with_retry(self._next, "following the model")
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
        settled = self._settled
        try:
            versions = self._receive(route, *self._wanted())
            if not self._settled and (settled := self._has_first_values(self._router.refresh())):
                route = self._router.route
                self._copy.forget()
                versions = self._receive(route, min(versions), 0.0)
            while route.sync and min(versions) != max(versions):
                versions = self._receive(route, max(versions), 0.0)  # some were ahead
        except RetryableError:
            if self._closed:
                raise _Closed("the stream of the model was closed") from None
            raise
        with self._changed:
            self._settled = settled
            self._whole = settled or not self._awaited
            self._oldest, self._newest = min(versions), max(self._newest, *versions)
            self._changed.notify_all()

    def _wanted(self) -> tuple[int, float]:
        """The iteration to ask for, and how long to wait for it."""
        if not self._whole:
            return max(self._oldest, 0), 0.0
        return self._oldest + 1, MAX_WAIT_S if self._settled else FIRST_VALUES_WAIT_S

    def _has_first_values(self, route: Route) -> bool:
        return route.assigned and route.initialized.issuperset(self._names)

    def _receive(self, route: Route, wanted: int, wait: float) -> list[int]:
        """One answer of each server; the copy is not whole from the first on, if all must be of one iteration."""
        servers = self._copy.servers(route, self._names)
        send: dict[int, Callable[[PsConnection], None]] = {}
        for server, blocks in servers.items():
            asked = self._copy.wanted(route, server, blocks)
            send[server] = partial(PsConnection.send_pull_blocks, wanted=asked, iteration=wanted, wait=wait)

        def receive(server: int, connection: PsConnection) -> int:
            connection.wait_for_answer()
            with self._changed:
                self._changed.wait_for(lambda: not self._readers)
                was_whole, self._whole = self._whole, False
            blocks = servers[server]
            iteration = self._copy.receive(route, server, blocks, lambda: connection.receive_blocks(blocks)[0])
            if was_whole and not route.sync:  # whatever the others are at
                with self._changed:
                    self._whole = self._settled or not self._awaited
                    self._changed.notify_all()
            return iteration

        return self._router.ask(send, receive)
