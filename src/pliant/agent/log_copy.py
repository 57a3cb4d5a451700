"""The program's output a second time, on the agent's own standard output: where ``kubectl logs`` looks for it.

The program writes to its log file by a descriptor of its own (see ``process``), so nothing is lost if the agent dies; this
reads along behind it, and catches up before the agent ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import BinaryIO

from pliant.files.folder_watch import FolderWatch

POLL_INTERVAL_S = 0.2
WATCHED_INTERVAL_S = 2.0  # where the kernel reports what is written
MAX_CHUNK_BYTES = 1 << 20


class LogCopy:
    def __init__(self, log: Path, output: BinaryIO | None = None) -> None:
        self._log = log
        self._output = output if output is not None else sys.stdout.buffer
        self._at = log.stat().st_size if log.exists() else 0  # what is older was copied by another run

    async def run(self) -> None:
        """For ever."""
        with FolderWatch(self._log.parent, writes=True) as watch:
            pause = WATCHED_INTERVAL_S if watch.is_working else POLL_INTERVAL_S
            while True:
                watch.clear()
                if self.catch_up():
                    await asyncio.sleep(0)
                else:
                    await watch.changed(pause)

    def catch_up(self) -> int:
        """Copy the next chunk; returns its size."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._at)
                piece = file.read(MAX_CHUNK_BYTES)
        except FileNotFoundError:
            return 0
        if piece:
            self._at += len(piece)
            self._output.write(piece)
            self._output.flush()
        return len(piece)
