"""Prefetching of rows: they are fetched while something else is computed.

    ahead = parameters.ahead()
    coming = ahead.ask({"users": ids_of_the_next_batch})
    ...                                             # compute, push
    rows = coming.result().rows["users"]            # of the iteration ``coming.result().iteration``

Rows that were requested before an update do not include it: a gradient computed on them is one iteration older, or more. So
prefetching is for asynchronous training; with ps-sync such a gradient would be refused.

Neighbour: ``client``; the thread here has a client of its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Protocol

from pliant.ps.client.model import Model


class Puller(Protocol):
    """What is needed of a client; ``client.PsClient`` is one."""

    def pull(self, rows: Mapping[str, Any], *, dense: Sequence[str], at_least: int) -> Model: ...

    def end(self) -> None: ...

    def close(self) -> None: ...


class RowPrefetcher:
    def __init__(self, client: Puller) -> None:
        """``client`` is used by nobody else, and closed with this."""
        self._client = client
        self._closed = False
        self._asked: queue.SimpleQueue[tuple[Future[Model], Mapping[str, Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="pliant-row-prefetch", daemon=True)
        self._thread.start()

    def ask(self, rows: Mapping[str, Any]) -> Future[Model]:
        """Rows of tables by id, as ``pull`` takes them."""
        future: Future[Model] = Future()
        self._asked.put((future, rows))
        if self._closed:  # checked after the put: either this or ``close`` finds the request
            future.cancel()
        return future

    def close(self) -> None:
        """Requests that are not answered yet are cancelled."""
        self._closed = True
        while True:
            try:
                if (asked := self._asked.get_nowait()) is not None:
                    asked[0].cancel()
            except queue.Empty:
                break
        self._asked.put(None)
        self._client.end()
        self._thread.join(timeout=5)
        self._client.close()

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            future, rows = asked
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._client.pull(rows, dense=[], at_least=0))
            except Exception as error:  # noqa: BLE001  # a thread's border: whoever asked gets it
                future.set_exception(CancelledError() if self._closed else error)
