"""Ctrl-C while a job is followed: counted, not raised, so that it asks the job to stop instead of leaving it behind.

SIGHUP is left as it is: a terminal that is closed ends the one who follows (or, below nohup, nobody), and the job goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    def __init__(self) -> None:
        self.count = 0
        self._previous: dict[int, Any] = {}
        self._pipe: tuple[int, int] | None = None

    def fileno(self) -> int:
        """Readable from the next interrupt on until ``clear``; -1 where none is expected."""
        return self._pipe[0] if self._pipe is not None else -1

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._pipe is not None and os.read(self._pipe[0], 64):
                continue

    def __enter__(self) -> Interrupts:
        self._pipe = os.pipe()
        for descriptor in self._pipe:
            os.set_blocking(descriptor, False)
        self._previous = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        pipe, self._pipe = self._pipe, None
        for descriptor in pipe or ():
            os.close(descriptor)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):  # it is readable already
                os.write(self._pipe[1], b"!")
