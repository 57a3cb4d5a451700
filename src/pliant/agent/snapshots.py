"""The agent's part in checkpoints: what the program copied into memory is written out here, while the program keeps running.

The folder of slots outlives the program, so that its next run restores from it; the agent removes the folder at its own end,
when all is on storage. It does not import torch. What became of each checkpoint goes to ``checkpoint_reports``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from pliant.checkpoint.slots import SlotFolder, WriteResult, node_folder, sweep
from pliant.checkpoint.writeout import Drain
from pliant.files.folder_watch import FolderWatch

log = logging.getLogger(__name__)

_POLL_INTERVAL_S = 0.1  # for a new snapshot: two small files
_WATCHED_INTERVAL_S = 10.0  # the same where the kernel reports what is new


class SnapshotWriter:
    """Of one node. ``run()`` for as long as the agent lives, ``flush()`` after each run of the program, ``close()`` last."""

    def __init__(self, folder: Path, on_result: Callable[[WriteResult], None] | None = None) -> None:
        """``on_result`` is called in another thread, also when the one who waits for it was cancelled."""
        self._folder = SlotFolder(folder)
        self._drain = Drain(self._folder, on_result)
        self._folder.create()
        if not self._folder.watch():
            log.warning("another process already writes out the snapshots in %s", folder)

    @classmethod
    def of_node(
        cls, job: str, node: str, identity: str, on_result: Callable[[WriteResult], None] | None = None
    ) -> SnapshotWriter:
        """``identity``: something that only this run of the job has, such as its token."""
        for root in sweep():
            log.info("removed %s, left behind by a job that no longer exists", root)
        return cls(node_folder(job, node, identity).path, on_result)

    @property
    def folder(self) -> Path:
        return self._folder.path

    async def run(self) -> None:
        """For ever; cancel it."""
        with FolderWatch(self._folder.path) as watch:
            pause = _WATCHED_INTERVAL_S if watch.is_working else _POLL_INTERVAL_S
            while True:
                watch.clear()
                await self.flush()
                await watch.changed(pause)

    async def flush(self) -> bool:
        """Write out what is pending; False if something could not be written."""
        if not self._folder.pending():
            return True
        results = await asyncio.to_thread(self._drain.once)
        return not any(written.problem for written in results)

    async def close(self, *, keep_unwritten: bool = False) -> None:
        """Write out the rest and remove the memory; ``keep_unwritten``: unless it could not be written out."""
        whole = await self.flush()
        if keep_unwritten and not whole:
            log.warning("the last snapshot stays in memory, in %s", self._folder.path)
            self._folder.unwatch()
        else:
            await asyncio.to_thread(self._folder.remove)
