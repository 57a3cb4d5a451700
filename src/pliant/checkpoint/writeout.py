"""From the slots in memory to storage: a part, its note, the manifest when it was the last one, then tidying up.

Done by the agent, or by a thread of the training process where there is no agent; in both cases this code. A failure (disk
full, store unavailable) concerns one checkpoint: it is logged and recorded at the slot, whoever calls reports it to the master,
the next one is tried as usual, and existing checkpoints stay.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pliant.checkpoint import manifest
from pliant.checkpoint.catalog import inspect_step, list_steps
from pliant.checkpoint.checksums import CHUNK, ChecksumStream
from pliant.checkpoint.manifest import PartNote
from pliant.checkpoint.problems import explain
from pliant.checkpoint.retention import RetentionPolicy
from pliant.checkpoint.slots import SlotFolder, SlotSnapshot, WriteResult
from pliant.checkpoint.storage import Storage, map_file, open_storage
from pliant.core.errors import CorruptData
from pliant.files.atomic import HIDDEN

log = logging.getLogger(__name__)

_MAX_ATTEMPTS = 2  # a store may be unavailable for a moment


class Drain:
    """Writes out what is pending in one node's slots. Safe to call from several threads; one works, the others wait."""

    def __init__(self, folder: SlotFolder, on_result: Callable[[WriteResult], None] | None = None) -> None:
        """``on_result`` is called in the thread that works, before the snapshot counts as written: who finds nothing pending has
        the results of everything."""
        self._folder = folder
        self._on_result = on_result
        self._one = threading.Lock()

    def once(self) -> list[WriteResult]:
        """What was pending, oldest first."""
        with self._one:
            return [self._write(snapshot) for snapshot in self._folder.pending()]

    def _write(self, snapshot: SlotSnapshot) -> WriteResult:
        began = time.monotonic()
        problem, is_complete = None, False
        for _ in range(_MAX_ATTEMPTS):
            try:
                with self._folder.reading(snapshot.slot):
                    if self._folder.snapshot(snapshot.slot) == snapshot:
                        is_complete = write_out(snapshot)
                problem = None
                break
            except Exception as error:  # noqa: BLE001 - stores raise errors of any type, and training must continue
                problem = explain(error, snapshot.directory)
        if problem is not None:
            log.error(
                "the checkpoint of step %d (part %d of %d) could not be written to %s: %s; training continues, "
                "older checkpoints are untouched",
                snapshot.step,
                snapshot.part,
                snapshot.of,
                snapshot.directory,
                problem.text,
            )
        written = WriteResult(
            snapshot.sequence,
            problem.text if problem is not None else "",
            time.monotonic() - began,
            snapshot.step,
            snapshot.directory,
            problem.hint if problem is not None else "",
            is_complete,
        )
        if self._on_result is not None:
            self._on_result(written)
        self._folder.mark_written(snapshot.slot, written)
        return written


def write_out(snapshot: SlotSnapshot) -> bool:
    """Returns whether the checkpoint is complete now; other parts of it may be missing."""
    storage = open_storage(snapshot.directory)
    data = memoryview(map_file(Path(snapshot.file)))
    write_part(storage, data, snapshot)
    if not complete(storage, snapshot.step):
        return False
    try:
        apply_retention(storage, RetentionPolicy(snapshot.keep_last, snapshot.keep_every))
    except OSError as error:
        log.warning("old checkpoints in %s could not be deleted: %s", storage.url, error)
    return True


def write_part(storage: Storage, data: memoryview, snapshot: SlotSnapshot) -> None:
    if data.nbytes != snapshot.bytes:
        raise CorruptData(f"the slot {snapshot.file} has {data.nbytes} bytes instead of {snapshot.bytes}")
    chunks = ChecksumStream(data)
    path = f"{manifest.step_folder(snapshot.step)}/{manifest.part_file(snapshot.part, snapshot.of, snapshot.round)}"
    if _saved_already(storage, snapshot.step):
        return
    storage.delete_file(f"{path}.json")
    storage.put(path, chunks, data.nbytes)
    note = PartNote(
        step=snapshot.step,
        of=snapshot.of,
        round=snapshot.round,
        run=snapshot.run,
        tensors=snapshot.tensors,
        part=snapshot.part,
        world=snapshot.world,
        bytes=data.nbytes,
        time=snapshot.time,
        chunk=CHUNK,
        checksums=tuple(chunks.sums),
    )
    manifest.write_note(storage, note)


def _saved_already(storage: Storage, step: int) -> bool:
    """Whether a sound checkpoint of that step is there, of an earlier world; one that is not sound is replaced."""
    stored = inspect_step(storage, step)
    for notes in stored.cuts:
        try:
            for note in notes:
                manifest.check(memoryview(storage.open(note.path)), note, f"{storage.url}/{note.path}")
        except (CorruptData, FileNotFoundError) as error:
            log.warning("replacing the checkpoint of step %d: %s", step, error)
        else:
            return True
    if stored.has_manifest:
        storage.delete_file(f"{manifest.step_folder(step)}/{manifest.MANIFEST}")
    return False


def complete(storage: Storage, step: int) -> bool:
    """Write the manifest if all parts are there. True if the checkpoint is complete now; several may do this at once."""
    stored = inspect_step(storage, step)
    if not stored.cuts:
        return False
    if not stored.has_manifest:
        manifest.write_manifest(storage, stored.cuts[0])
        log.info("checkpoint of step %d is complete: %s/%s", step, storage.url, manifest.step_folder(step))
    return True


def apply_retention(storage: Storage, keep: RetentionPolicy) -> list[int]:
    """Delete what the policy does not keep, and unfinished writes; returns the deleted steps."""
    stored = list_steps(storage)
    good = [step.step for step in stored if step.cuts]
    doomed = keep.to_delete(good, [step.step for step in stored if not step.cuts])
    for step in stored:
        if step.step not in doomed:
            continue
        if not step.cuts:
            log.warning(
                "deleted the %s checkpoint of step %d%s",
                step.status,
                step.step,
                f": {step.problems[0]}" if step.problems else "",
            )
        storage.delete_folder(manifest.step_folder(step.step))
    for item in storage.list():
        if item.is_folder and item.name.startswith(f"{HIDDEN}deleting-step-"):
            storage.delete_folder(item.name)
    _sweep_files(storage, [step for step in good if step not in doomed and step != max(good)])
    return doomed


def _sweep_files(storage: Storage, steps: list[int]) -> None:
    """Unfinished files of crashed writers, in checkpoints that are no longer written."""
    for step in steps:
        folder = manifest.step_folder(step)
        for item in storage.list(folder):
            if item.name.startswith(HIDDEN):
                storage.delete_file(f"{folder}/{item.name}")
