"""SIGTERM as a notice: training ends at the next step boundary, in order, instead of in the middle of a step.

Only while a training loop holds it; before and after, the signal ends the program at once, as it does without Pliant.
"""

from __future__ import annotations

import signal
import threading

EXIT_CODE = 128 + signal.SIGTERM


class TerminationNotice:
    def __init__(self) -> None:
        self.given = False
        self._installed = False
        self._held = False

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False

    def exit_if_given(self) -> None:
        if self.given:
            raise SystemExit(EXIT_CODE)

    def install(self) -> None:
        """Only in the main thread, and only if the program does not handle the signal itself."""
        main = threading.current_thread() is threading.main_thread()
        if not self._installed and main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)
            self._installed = True

    def remove(self) -> None:
        if self._installed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._installed = False

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.given = True
        if not self._held:
            self.exit_if_given()
