"""A channel to a master that may be started again on another machine: it leads to where the master listens now.

A cluster's nodes share the job's folder, and the master writes there where it listens. Stubs are made once; each call goes
through the channel to the present address. Whoever owns this channel calls ``follow`` when a call found no master.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pliant.files.atomic import read_json


def published_address(record: Path) -> str:
    """host:port by the file ``master.json`` of a job's folder; empty: no master has written it, or it cannot be read."""
    try:
        return str((read_json(record) or {}).get("tcp") or "")
    except OSError:
        return ""


class MovingChannel:
    """Looks like a channel to generated stubs. ``connect`` makes the channel to an address."""

    def __init__(self, target: str, record: Path, connect: Callable[[str], Any]) -> None:
        self.target = target
        self._record = record
        self._connect = connect
        self._lock = threading.Lock()
        self.present = connect(target)
        self.left: list[Any] = []  # other threads may still have calls in them

    def follow(self) -> bool:
        """To where the master is published now; whether that is another address than before."""
        target = published_address(self._record)
        with self._lock:
            if not target or target == self.target:
                return False
            self.left.append(self.present)
            self.present, self.target = self._connect(target), target
            return True

    def unary_unary(self, *method: Any, **options: Any) -> _MovingMethod:
        return _MovingMethod(self, method, options)


class _MovingMethod:
    """One method of a service, called at the present address."""

    def __init__(self, channel: MovingChannel, method: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._channel = channel
        self._method, self._options = method, options
        self._made: tuple[Any, Any] = (None, None)  # a channel, and the method on it

    def __call__(self, *given: Any, **options: Any) -> Any:
        return self._present()(*given, **options)

    def future(self, *given: Any, **options: Any) -> Any:
        return self._present().future(*given, **options)

    def _present(self) -> Any:
        channel, made = self._made
        present = self._channel.present
        if channel is not present:
            made = present.unary_unary(*self._method, **self._options)
            self._made = (present, made)
        return made
