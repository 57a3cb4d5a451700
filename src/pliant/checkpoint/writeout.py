"""From the slots in memory to storage: a part, its note, the manifest when it was the last one, then tidying up.

Done by the agent, or by a thread of the training process where there is no agent; in both cases this code. A failure (disk
full, store away) concerns one checkpoint: it is logged and noted at the slot, the next one is tried anew, what is there stays.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from pliant.checkpoint import files
from pliant.checkpoint.checksums import CHUNK, Summing
from pliant.checkpoint.files import PartNote
from pliant.checkpoint.find import look_at, survey
from pliant.checkpoint.keep import KeepRules
from pliant.checkpoint.places import HIDDEN, Place, map_file, open_place
from pliant.checkpoint.slots import Filling, SlotFolder, Written
from pliant.core.errors import CorruptData

log = logging.getLogger(__name__)

_TRIES = 2  # a store that is away for a moment


class Drain:
    """Writes out what is pending in one node's slots. Safe to call from several threads; one works, the others wait."""

    def __init__(self, folder: SlotFolder) -> None:
        self._folder = folder
        self._one = threading.Lock()

    def once(self) -> list[Written]:
        """What was pending, oldest first."""
        with self._one:
            return [self._write(filling) for filling in self._folder.pending()]

    def _write(self, filling: Filling) -> Written:
        began = time.monotonic()
        problem = ""
        for _ in range(_TRIES):
            try:
                with self._folder.reading(filling.slot):
                    if self._folder.filling(filling.slot) == filling:
                        write_out(filling)
                problem = ""
                break
            except Exception as error:  # noqa: BLE001 - stores raise what they like, and training must go on
                problem = f"{type(error).__name__}: {error}"
        if problem:
            log.error(
                "the checkpoint of step %d (part %d of %d) could not be written to %s: %s; training goes on, "
                "older checkpoints are untouched",
                filling.step,
                filling.part,
                filling.of,
                filling.directory,
                problem,
            )
        written = Written(filling.sequence, problem, time.monotonic() - began)
        self._folder.mark_written(filling.slot, written)
        return written


def write_out(filling: Filling) -> None:
    place = open_place(filling.directory)
    data = memoryview(map_file(Path(filling.file)))
    write_part(place, data, filling)
    if complete(place, filling.step):
        try:
            tidy(place, KeepRules(filling.keep_last, filling.keep_every))
        except OSError as error:
            log.warning("old checkpoints in %s could not be deleted: %s", place.url, error)


def write_part(place: Place, data: memoryview, filling: Filling) -> None:
    if data.nbytes != filling.bytes:
        raise CorruptData(f"the slot {filling.file} has {data.nbytes} bytes instead of {filling.bytes}")
    chunks = Summing(data)
    path = f"{files.step_folder(filling.step)}/{files.part_file(filling.part, filling.of, filling.round)}"
    if _saved_already(place, filling.step):
        return
    place.delete_file(f"{path}.json")
    place.put(path, chunks, data.nbytes)
    note = PartNote(
        step=filling.step,
        of=filling.of,
        round=filling.round,
        run=filling.run,
        tensors=filling.tensors,
        part=filling.part,
        world=filling.world,
        bytes=data.nbytes,
        time=filling.time,
        chunk=CHUNK,
        checksums=tuple(chunks.sums),
    )
    files.write_note(place, note)


def _saved_already(place: Place, step: int) -> bool:
    """Whether a sound checkpoint of that step is there, of an earlier world; one that is not sound is made to give way."""
    stored = look_at(place, step)
    for notes in stored.cuts:
        try:
            for note in notes:
                files.check(memoryview(place.open(note.path)), note, f"{place.url}/{note.path}")
        except (CorruptData, FileNotFoundError) as error:
            log.warning("the checkpoint of step %d is replaced: %s", step, error)
        else:
            return True
    if stored.has_manifest:
        place.delete_file(f"{files.step_folder(step)}/{files.MANIFEST}")
    return False


def complete(place: Place, step: int) -> bool:
    """Write the manifest if all parts are there. True if the checkpoint is complete now; several may do this at once."""
    stored = look_at(place, step)
    if not stored.cuts:
        return False
    if not stored.has_manifest:
        files.write_manifest(place, stored.cuts[0])
        log.info("checkpoint of step %d is complete: %s/%s", step, place.url, files.step_folder(step))
    return True


def tidy(place: Place, keep: KeepRules) -> list[int]:
    """Delete what the rules do not keep, and what was left unfinished; gives the deleted steps."""
    stored = survey(place)
    good = [step.step for step in stored if step.cuts]
    doomed = keep.to_delete(good, [step.step for step in stored if not step.cuts])
    for step in stored:
        if step.step not in doomed:
            continue
        if not step.cuts:
            log.warning(
                "the %s checkpoint of step %d is deleted%s",
                step.status,
                step.step,
                f": {step.problems[0]}" if step.problems else "",
            )
        place.delete_folder(files.step_folder(step.step))
    for item in place.list():
        if item.is_folder and item.name.startswith(f"{HIDDEN}deleting-step-"):
            place.delete_folder(item.name)
    _sweep_files(place, [step for step in good if step not in doomed and step != max(good)])
    return doomed


def _sweep_files(place: Place, steps: list[int]) -> None:
    """Unfinished files of crashed writers, in checkpoints that nobody writes to any more."""
    for step in steps:
        folder = files.step_folder(step)
        for item in place.list(folder):
            if item.name.startswith(HIDDEN):
                place.delete_file(f"{folder}/{item.name}")
