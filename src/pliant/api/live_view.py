"""Live progress in a notebook: one output that is replaced while somebody waits, where the front end can; nothing elsewhere.

It needs no widgets: IPython's own display protocol updates an output by its id. A front end that cannot shows the text.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

REFRESH_INTERVAL_S = 1.0


class LiveView:
    """Shows ``what`` (by its ``_repr_html_`` and its ``repr``), at most once in ``REFRESH_INTERVAL_S``."""

    def __init__(self, what: object, *, is_shown: bool) -> None:
        self._what = what
        self._is_shown = is_shown
        self._display: Any = None
        self._shown_at = float("-inf")

    def refresh(self, *, last: bool = False) -> None:
        if not self._is_shown or (not last and time.monotonic() < self._shown_at + REFRESH_INTERVAL_S):
            return
        self._shown_at = time.monotonic()
        if self._display is None:
            self._display = import_module("IPython.display").display(self._what, display_id=True)
        else:
            self._display.update(self._what)


def is_notebook() -> bool:
    """Whether this process is the kernel of one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
