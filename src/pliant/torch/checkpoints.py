"""When a training takes checkpoints, and how all workers agree on it.

A checkpoint is one cut through all workers: each copies its part of the same state after the same step. So whether one is
taken is decided by the step's own collective: it is due (by steps everybody knows, by seconds rank 0 says so), and every
worker has a free slot. A worker that cannot take part makes all of them skip it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pliant.checkpoint import CheckpointWriter, load_latest

log = logging.getLogger(__name__)

VARIABLE = "PLIANT_CHECKPOINT"  # set by the job: the fields of CheckpointOptions as JSON


@dataclass(frozen=True)
class CheckpointOptions:
    directory: str = ""
    every_steps: int = 0
    every_seconds: float = 0.0
    keep_last: int = 3
    keep_every: int = 0

    @classmethod
    def from_env(cls) -> CheckpointOptions:
        return cls(**json.loads(os.environ.get(VARIABLE, "{}")))

    def to_env(self) -> str:
        return json.dumps(asdict(self))


class Checkpoints:
    """Of one training. Without a directory it does nothing."""

    def __init__(self, options: CheckpointOptions, job: str, node: str) -> None:
        self._options = options
        self._writer: CheckpointWriter | None = None
        if options.directory:
            self._writer = CheckpointWriter(
                job,
                node,
                options.directory,
                every_steps=options.every_steps,
                every_seconds=options.every_seconds,
                keep_last=options.keep_last,
                keep_every=options.keep_every,
            )
        self._saved = -1

    def restore(self) -> dict[str, Any] | None:
        """The newest state that can be read, from this machine's memory or from storage."""
        if self._writer is None:
            return None
        restored = load_latest(self._options.directory)
        if restored is None:
            return None
        log.info("continues from the checkpoint of step %d (%s)", restored.found.step, restored.found.source)
        self._saved = restored.found.step
        state: dict[str, Any] = restored.state
        return state

    def wanted(self, step: int, rank: int) -> bool:
        """Whether this worker asks for a checkpoint after ``step`` committed steps."""
        if self._writer is None:
            return False
        by_steps = self._options.every_steps > 0 and step % self._options.every_steps == 0
        return by_steps or (rank == 0 and self._options.every_seconds > 0 and self._writer.due(step))

    def busy(self) -> bool:
        return self._writer is not None and not self._writer.ready()

    def take(
        self, step: int, state: Callable[[], Any], rank: int, world: int, round: int, *, wait: bool = False
    ) -> None:
        if self._writer is None or step == self._saved:
            return
        report = self._writer.snapshot(step, state(), rank, world, round=round, wait=wait)
        if report.skipped:
            log.warning("no checkpoint of step %d: %s", step, report.reason)
        else:
            self._saved = step

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Notice:
    """SIGTERM as a notice: training ends at the next step's boundary, in order, instead of in the middle of one.

    Only while a training loop holds it; before and after, the signal ends the program at once, as ever.
    """

    def __init__(self) -> None:
        self.given = False
        self._installed = False
        self._held = False

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False

    def obey(self) -> None:
        """End now, if notice was given."""
        if self.given:
            raise SystemExit(128 + signal.SIGTERM)

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
            self.obey()


def default_directory(job_dir: str) -> str:
    return str(Path(job_dir) / "checkpoints")
