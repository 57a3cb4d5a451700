"""SIGTERM as a notice: training ends at the next step boundary, in order, instead of in the middle of a step.

Only while a training loop holds it; before and after, the signal ends the program at once, as it does without Pliant.

A program that leaves unwinds as by ``sys.exit``: its ``finally`` blocks and exit handlers run, nothing after its loop does.
Then the process ends *without* tearing its libraries down: groups of gloo that a leaving member closes on its own may block for
ever or abort the process (``worlds/group_reaper.py``), and whatever they would release the kernel releases. What blocks before
that (a thread that is not a daemon, an exit handler) is given ``EXIT_TIMEOUT_S``.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

EXIT_CODE = 128 + signal.SIGTERM
EXIT_TIMEOUT_S = 4.0  # for what the program itself does at its end; well within the usual grace


class TerminationNotice:
    def __init__(self, on_exit: Callable[[], None] = lambda: None) -> None:
        """``on_exit`` is called last, before the process ends."""
        self.given = False
        self._received = False  # as a signal
        self._installed = False
        self._held = False
        self._on_exit = on_exit

    @property
    def ends_process(self) -> bool:
        """Whether the process exits as soon as the program is unwound."""
        return self._received

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False

    def exit_if_given(self) -> None:
        if self.given:
            self.exit()

    def exit(self) -> NoReturn:
        """Unwind the program, and end the process whatever hinders it."""
        if self._received:
            _end_process_at_exit(self._on_exit)
        raise SystemExit(EXIT_CODE)

    def install(self) -> None:
        """Only in the main thread, and only if the program does not handle the signal itself."""
        main = threading.current_thread() is threading.main_thread()
        if not self._installed and main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)
            self._installed = True

    def remove(self) -> None:
        if self._installed:
            signal.signal(signal.SIGTERM, signal.SIG_IGN if self._received else signal.SIG_DFL)
            self._installed = False

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.given = self._received = True
        if not self._held:
            self.exit_if_given()


_last_call: Callable[[], None] | None = None  # of a process that exits upon notice; None: it does not


def _end_process_at_exit(last_call: Callable[[], None]) -> None:
    global _last_call
    if _last_call is None:
        watchdog = threading.Timer(EXIT_TIMEOUT_S, _end_process)
        watchdog.daemon = True
        watchdog.start()
    _last_call = last_call


@atexit.register  # when this module is imported, since handlers run in reverse order: those of the program come first
def _end_at_exit() -> None:
    if _last_call is not None:
        with contextlib.suppress(Exception):  # the border of the process: nothing may hinder its end
            _last_call()
        _end_process()


def _end_process() -> NoReturn:
    with contextlib.suppress(Exception):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(EXIT_CODE)
