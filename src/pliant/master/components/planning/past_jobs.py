"""Past jobs of this user on this machine: ``history/`` beside the jobs of ``PLIANT_HOME``, one small file each.

Jobs are removed and overwritten; what they taught about resources stays here, the last ``MAX_KEPT`` of them. A file that cannot be
read is passed over, and a folder that cannot be written ends no job: history is a help, not a need.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from pliant.core.errors import CorruptData, PliantError
from pliant.core.planning.history import FinishedJob
from pliant.core.planning.past_jobs import Fingerprint, PastJob
from pliant.files.atomic import HIDDEN, read_json, write_json
from pliant.files.private import make_private_folder

log = logging.getLogger(__name__)

MAX_KEPT = 200
MIN_SIMILARITY = 0.3


def history_dir() -> Path:
    return Path(os.environ.get("PLIANT_HOME", Path.home() / ".pliant")) / "history"


class PastJobs:
    def __init__(self, folder: Path, mark: Fingerprint, *, keeps_memory: bool = True) -> None:
        """``mark``: of the job at hand. ``keeps_memory``: a job like an earlier one is given the memory that that one used; else
        its nodes stay without a limit."""
        self.fingerprint = mark
        self._folder = folder
        self._keeps_memory = keeps_memory

    def similar(self) -> tuple[FinishedJob, ...]:
        """Newest first."""
        seen = [job.seen_from(self.fingerprint) for job in self._read()]
        found = [job for job in seen if job.similarity >= MIN_SIMILARITY]
        if not self._keeps_memory:
            found = [replace(job, worker_memory_p95_mb=0.0, server_memory_p95_mb=0.0) for job in found]
        return tuple(found)

    def remember(self, job: PastJob) -> None:
        try:
            make_private_folder(self._folder)
            write_json(self._folder / f"{job.ended:017.3f}-{token_hex(4)}.json", job.to_json())
            for outdated in self._files()[:-MAX_KEPT]:
                with contextlib.suppress(OSError):  # a folder of that name is not ours
                    outdated.unlink()
        except (OSError, PliantError) as error:
            log.warning("cannot keep what this job taught in %s: %s", self._folder, error)

    def _read(self) -> Iterator[PastJob]:
        for path in reversed(self._files()[-MAX_KEPT:]):
            try:
                value = read_json(path)
                if value is not None:
                    yield PastJob.from_json(value)
            except (OSError, CorruptData) as error:
                log.warning("passing over %s: %s", path, error)

    def _files(self) -> list[Path]:
        """Oldest first: names begin with the time."""
        try:
            found = [path for path in self._folder.iterdir() if path.suffix == ".json" and path.name[0] != HIDDEN]
        except OSError:
            return []
        return sorted(found)
