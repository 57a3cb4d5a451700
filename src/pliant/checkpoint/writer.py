"""Checkpoints as the training process sees them: is one due, take it, continue.

Taking one copies this worker's part into memory; that copy is the only stall. The node's agent writes it out; where there is
no agent (a script on its own) a thread does, by the same code. If the last two snapshots are still being written out, a new
one is skipped and counted rather than waited for. A checkpoint needs all parts: in a world of several workers take one only
if ``ready()`` is true for all of them.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from pliant.checkpoint.slots import SLOTS, SlotFolder, SlotSnapshot, WriteResult, node_folder, sweep
from pliant.checkpoint.snapshot import PartPlan, SlotBuffer, plan_part
from pliant.checkpoint.storage import open_storage
from pliant.checkpoint.writeout import Drain
from pliant.core.errors import InvalidRequest
from pliant.core.nodes.environment import NodeEnvironment

log = logging.getLogger(__name__)

_POLL_INTERVAL_S = 0.02  # of the agent's progress
NO_MEMORY_HINT = "give the node more memory, or more space in /dev/shm and the temporary directory"


@dataclass(frozen=True)
class SnapshotReport:
    step: int
    stalled_seconds: float
    bytes: int
    skipped: bool = False
    written: bool = False  # on storage already; only known with wait
    reason: str = ""  # of skipping, or of not being written


class CheckpointWriter:
    def __init__(
        self,
        job: str,
        node: str,
        directory: str | os.PathLike[str],
        *,
        every_steps: int = 0,
        every_seconds: float = 0.0,
        keep_last: int = 3,
        keep_every: int = 0,
        folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_result: Callable[[WriteResult], None] | None = None,
    ) -> None:
        """``folder``: of the slots; by default what the agent set, else one of this process's own.

        ``on_result`` learns what became of each checkpoint that this process writes out, in the thread that does it, and of
        each that could not be taken. What an agent writes out the agent reports.
        """
        self._directory = open_storage(directory).url
        self._every_steps, self._every_seconds = every_steps, every_seconds
        self._keep_last, self._keep_every = max(keep_last, 0), max(keep_every, 0)
        self._clock = clock
        self._on_result = on_result or (lambda result: None)
        self._last_taken = clock()
        given = folder or NodeEnvironment.from_env(os.environ).snapshot_dir
        if given is None:
            sweep()
        self._folder = SlotFolder(given) if given else node_folder(job, node, token_hex(8))
        self._run = self._folder.path.parent.name if given else ""
        self._own_folder = given is None
        self._folder.create()
        self._buffers = {slot: SlotBuffer() for slot in SLOTS}
        self._sequence = max((f.sequence for f in self._folder.snapshots()), default=0)
        for slot in SLOTS:
            if (written := self._folder.written(slot)) is not None:
                self._sequence = max(self._sequence, written.sequence)
        self._drain = Drain(self._folder)
        self._thread: _DrainThread | None = None
        self._preparing: threading.Thread | None = None
        self.skipped = 0
        atexit.register(self.close)

    def due(self, step: int) -> bool:
        """By steps the same on every worker; by seconds it depends on this worker's clock, so let rank 0 decide for all."""
        by_steps = self._every_steps > 0 and step > 0 and step % self._every_steps == 0
        return by_steps or (self._every_seconds > 0 and self._clock() - self._last_taken >= self._every_seconds)

    def ready(self) -> bool:
        """Whether there is a free slot; if not, a snapshot taken now would be skipped."""
        return self._free_slot() is not None

    def prepare(self, state: Any, rank: int, world: int) -> None:
        """Get the memory in the background, so that the first snapshot does not wait for it."""
        plan = plan_part(state, rank, world)
        if self._preparing is None and self._folder.snapshot(0) is None and self._folder.snapshot(1) is None:
            self._preparing = threading.Thread(
                target=self._get_memory, args=(plan,), name="pliant-prepare", daemon=True
            )
            self._preparing.start()

    def snapshot(
        self,
        step: int,
        state: Any,
        rank: int,
        world: int,
        *,
        round: int | None = None,
        wait: bool = False,
        timeout: float = 600.0,
    ) -> SnapshotReport:
        """Copy this worker's part; with ``wait`` (a preemption, the end) also until it is on storage, or ``timeout``.

        ``round``: of the world, needed where it has several workers: only parts of one round make a checkpoint.
        """
        if round is None and world > 1:
            raise InvalidRequest("a snapshot by several workers needs the round number", hint="pass round=")
        began = time.perf_counter()
        deadline = time.monotonic() + timeout
        if self._preparing is not None:
            self._preparing.join()
        self._last_taken = self._clock()
        self._ensure_drained()
        slot = self._free_slot()
        while slot is None and wait and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL_S)
            slot = self._free_slot()
        if slot is None:
            return self._skip(step, began, "both earlier snapshots are still being written out")
        plan = plan_part(state, rank, world)
        with self._folder.writing(slot) as free:
            if not free:
                return self._skip(step, began, "the slot is being read")
            try:
                snapshot = self._fill(slot, plan, step, rank, world, round or 0)
            except OSError as error:
                reason = f"no memory for the snapshot: {error}"
                self._on_result(WriteResult(0, reason, 0.0, step, self._directory, NO_MEMORY_HINT))
                return self._skip(step, began, reason)
        if self._thread is not None:
            self._thread.wake()
        stalled = time.perf_counter() - began
        if not wait:
            return SnapshotReport(step, stalled, snapshot.bytes)
        written = self._wait_for(snapshot, deadline)
        problem = written.problem if written else f"it was not written out within {timeout:.0f} s"
        return SnapshotReport(step, time.perf_counter() - began, snapshot.bytes, False, not problem, problem)

    def wait_until_written(self, timeout: float = 600.0) -> str:
        """Until the newest snapshot was written out; why it is not on storage, empty if it is."""
        newest = max(self._folder.snapshots(), key=lambda snapshot: snapshot.sequence, default=None)
        if newest is None:
            return ""
        written = self._wait_for(newest, time.monotonic() + timeout)
        return written.problem if written else f"it was not written out within {timeout:.0f} s"

    def last_problem(self) -> str:
        """Of writing out the latest snapshots; empty if all went well."""
        found = [written for slot in SLOTS if (written := self._folder.written(slot)) is not None]
        return max(found, key=lambda written: written.sequence).problem if found else ""

    def close(self) -> None:
        """Without an agent: write out the rest and remove the memory. An agent does both at its own end."""
        atexit.unregister(self.close)
        if self._preparing is not None:
            self._preparing.join()
        self._buffers = {slot: SlotBuffer() for slot in SLOTS}
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
            self._folder.unwatch()
        if self._own_folder:
            self._folder.remove()

    # --- inside

    def _free_slot(self) -> int | None:
        """The one that does not hold the newest snapshot, if that has been written out."""
        waiting = {snapshot.slot for snapshot in self._folder.pending()}
        held = {snapshot.slot: snapshot.sequence for snapshot in self._folder.snapshots()}
        slot = min(SLOTS, key=lambda slot: held.get(slot, 0))
        return None if slot in waiting else slot

    def _fill(self, slot: int, plan: PartPlan, step: int, rank: int, world: int, round: int) -> SlotSnapshot:
        about = {"step": step, "part": rank, "of": world, "round": round, "run": self._run, "world": world}
        self._folder.retract(slot)
        buffer = self._buffers[slot]
        header = buffer.header(plan, **about)
        size = len(header) + plan.nbytes
        self._make_room(slot, size)
        buffer.fill(header, plan)
        self._sequence += 1
        snapshot = SlotSnapshot(
            slot=slot,
            sequence=self._sequence,
            step=step,
            part=rank,
            of=world,
            round=round,
            run=self._run,
            tensors=plan.digest,
            world=world,
            bytes=size,
            time=time.time(),
            directory=self._directory,
            file=str(buffer.file),
            keep_last=self._keep_last,
            keep_every=self._keep_every,
        )
        self._folder.publish(snapshot)
        return snapshot

    def _make_room(self, slot: int, size: int) -> None:
        buffer = self._buffers[slot]
        limit = NodeEnvironment.from_env(os.environ).memory_mb << 20
        file, reason = self._folder.data_file(slot, size, limit)
        if reason and file != buffer.file:
            log.warning("snapshots go to %s instead of memory: %s", file.parent, reason)
        buffer.ensure(file, size)

    def _get_memory(self, plan: PartPlan) -> None:
        try:
            for slot in SLOTS:
                self._make_room(slot, len(self._buffers[slot].header(plan)) + plan.nbytes)
        except OSError as error:
            log.warning("no memory for snapshots yet: %s", error)

    def _skip(self, step: int, began: float, reason: str) -> SnapshotReport:
        self.skipped += 1
        log.warning("skipping the snapshot of step %d (%d skipped so far): %s", step, self.skipped, reason)
        return SnapshotReport(step, time.perf_counter() - began, 0, skipped=True, reason=reason)

    def _ensure_drained(self) -> None:
        if not self._folder.is_watched() and self._folder.watch():
            if not self._own_folder:
                log.warning("no agent writes out snapshots; this process does")
            self._thread = _DrainThread(self._drain, self._on_result)

    def _wait_for(self, snapshot: SlotSnapshot, deadline: float) -> WriteResult | None:
        while time.monotonic() < deadline:
            written = self._folder.written(snapshot.slot)
            if written is not None and written.sequence >= snapshot.sequence:
                return written
            time.sleep(_POLL_INTERVAL_S)
        return None


class _DrainThread:
    """Writes out where there is no agent."""

    def __init__(self, drain: Drain, on_result: Callable[[WriteResult], None]) -> None:
        self._drain = drain
        self._on_result = on_result
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="pliant-checkpoint", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """When the rest is written."""
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait()
            self._wake.clear()
            self._once()
        self._once()

    def _once(self) -> None:
        for result in self._drain.once():
            self._on_result(result)
