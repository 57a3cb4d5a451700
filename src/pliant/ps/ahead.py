"""Rows that are fetched while something else is computed.

    ahead = parameters.ahead()
    coming = ahead.ask({"users": ids_of_the_next_batch})
    ...                                             # compute, push
    rows = coming.result().rows["users"]            # of the iteration ``coming.result().iteration``

What was asked for before an update does not have it: a gradient on such rows is one iteration older, or more. So it is for
asynchronous training; with ps-sync it would be dropped.

Neighbour: ``client``, of which the thread here has one of its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.ps.client import Model, PsClient


class RowsAhead:
    def __init__(self, client: PsClient) -> None:
        """``client`` is for this alone, and closed with it."""
        self._client = client
        self._closed = False
        self._asked: queue.SimpleQueue[tuple[Future[Model], Mapping[str, Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="pliant-rows-ahead", daemon=True)
        self._thread.start()

    def ask(self, rows: Mapping[str, Any]) -> Future[Model]:
        """Rows of tables by id, as ``pull`` takes them."""
        future: Future[Model] = Future()
        self._asked.put((future, rows))
        if self._closed:  # looked at after it is there: either this or ``close`` finds it
            future.cancel()
        return future

    def close(self) -> None:
        """What was asked for and has not come is cancelled."""
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
