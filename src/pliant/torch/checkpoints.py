"""When training takes checkpoints, and how all workers agree on it.

A checkpoint is one cut through all workers: each copies its part of the same state after the same step. So whether one is
taken is decided by the step's own collective: one is due (by steps each worker knows, by seconds rank 0 decides), and every
worker has a free slot. A worker that cannot take part makes all of them skip it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pliant.checkpoint import CheckpointWriter, load_latest
from pliant.core.errors import InvalidRequest
from pliant.core.nodes.environment import CheckpointSettings, NodeEnvironment

log = logging.getLogger(__name__)


def settings_of_job() -> CheckpointSettings:
    """As the job's spec says, which the environment of a node carries."""
    return NodeEnvironment.from_env(os.environ).checkpoint or CheckpointSettings()


def checkpoint_settings(given: CheckpointSettings) -> CheckpointSettings:
    """What a program asked for; without a directory of its own, in that of its job."""
    if given.directory:
        return given
    of_job = settings_of_job()
    if not given.every_steps and not given.every_seconds:
        return of_job
    home = NodeEnvironment.from_env(os.environ).job_dir
    directory = of_job.directory or (str(home / "checkpoints") if home is not None else "")
    if not directory:
        raise InvalidRequest(
            "checkpoints were requested without a directory",
            hint="pass checkpoint_dir, or set checkpoint.dir in the job's spec",
        )
    return replace(given, directory=directory)


class Checkpointer:
    """Takes and restores the checkpoints of one training. Without a directory it does nothing."""

    def __init__(self, settings: CheckpointSettings, job: str, node: str) -> None:
        self._settings = settings
        self._writer: CheckpointWriter | None = None
        if settings.directory:
            self._writer = CheckpointWriter(
                job,
                node,
                settings.directory,
                every_steps=settings.every_steps,
                every_seconds=settings.every_seconds,
                keep_last=settings.keep_last,
                keep_every=settings.keep_every,
            )
        self._saved = -1

    def restore(self) -> dict[str, Any] | None:
        """The newest state that can be read, from this machine's memory or from storage."""
        if self._writer is None:
            return None
        restored = load_latest(self._settings.directory)
        if restored is None:
            return None
        log.info("resuming from the checkpoint of step %d (%s)", restored.found.step, restored.found.source)
        self._saved = restored.found.step
        state: dict[str, Any] = restored.state
        return state

    def is_due(self, step: int, rank: int) -> bool:
        """Whether this worker asks for a checkpoint after ``step`` committed steps."""
        if self._writer is None:
            return False
        by_steps = self._settings.every_steps > 0 and step % self._settings.every_steps == 0
        return by_steps or (rank == 0 and self._settings.every_seconds > 0 and self._writer.due(step))

    def is_busy(self) -> bool:
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
