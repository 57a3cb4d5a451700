"""The real clock."""

from __future__ import annotations

import time


class SystemClock:
    """Wall time when it was made, and from then on evenly: nobody is late because the machine's clock was set."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()
