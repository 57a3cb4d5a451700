"""When training takes checkpoints, and how all workers agree on it.

A checkpoint is one cut through all workers: each copies its part of the same state after the same step. So whether one is
taken is decided by the step's own collective: one is due (by steps each worker knows, by seconds rank 0 decides), and every
worker has a free slot. A worker that cannot take part makes all of them skip it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from pliant.checkpoint import CheckpointWriter, load_latest
from pliant.checkpoint.slots import WriteResult
from pliant.checkpoint.trial import try_destination
from pliant.client.job import Job
from pliant.core.errors import InvalidRequest, RetryableError
from pliant.core.nodes.environment import CheckpointSettings, NodeEnvironment

log = logging.getLogger(__name__)


def settings_of_job() -> CheckpointSettings:
    """As the job's spec says, which the environment of a node carries."""
    return NodeEnvironment.from_env(os.environ).checkpoint or CheckpointSettings()


def checkpoint_settings(
    directory: str | os.PathLike[str] | None = None,
    *,
    every_steps: int = 0,
    every_seconds: float = 0.0,
    keep_last: int | None = None,
    keep_every: int | None = None,
) -> CheckpointSettings:
    """What a program asked for, and for the rest (where, when, how many are kept) what its job's spec says."""
    of_job = settings_of_job()
    if not every_steps and not every_seconds:
        every_steps, every_seconds = of_job.every_steps, of_job.every_seconds
    target = os.fspath(directory or "") or of_job.directory
    if not target and (every_steps or every_seconds):
        home = NodeEnvironment.from_env(os.environ).job_dir
        if home is None:
            raise InvalidRequest(
                "checkpoints were requested without a directory",
                hint="pass checkpoint_dir, or set checkpoint.dir in the job's spec",
            )
        target = str(home / "checkpoints")
    return CheckpointSettings(
        target,
        every_steps,
        every_seconds,
        of_job.keep_last if keep_last is None else keep_last,
        of_job.keep_every if keep_every is None else keep_every,
    )


def check_destination(directory: str, job: Job) -> None:
    """Try it before training. The directory of the job's spec was tried already, by the agent that writes there."""
    own = NodeEnvironment.from_env(os.environ)
    if own.incarnation is not None and own.checkpoint is not None and own.checkpoint.directory == directory:
        return
    problem = try_destination(directory, f"{job.name}-{job.node}")
    if problem is None:
        return
    text = f"checkpoints cannot be written to {directory}: {problem.text}"
    if job.elastic and job.report_unusable_checkpoints(directory, problem.text, problem.hint):
        log.warning("%s; training all the same, as others do", text)
        return
    raise (InvalidRequest if problem.is_permanent else RetryableError)(text, hint=problem.hint)


def _report(job: Job, result: WriteResult) -> None:
    """Of a checkpoint that this process wrote out, having no agent, or could not take."""
    if job.elastic and (result.problem or result.complete):
        job.report_checkpoint(result.directory, result.step, result.problem, result.hint)


class Checkpointer:
    """Takes and restores the checkpoints of one training. Without a directory it does nothing."""

    def __init__(self, settings: CheckpointSettings, job: Job) -> None:
        """Raises if checkpoints cannot be written there."""
        self._settings = settings
        self._writer: CheckpointWriter | None = None
        if settings.directory:
            check_destination(settings.directory, job)
            self._writer = CheckpointWriter(
                job.name,
                job.node,
                settings.directory,
                every_steps=settings.every_steps,
                every_seconds=settings.every_seconds,
                keep_last=settings.keep_last,
                keep_every=settings.keep_every,
                on_result=partial(_report, job),
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
        if self._writer is None:
            return
        if step == self._saved and not (wait and self._writer.wait_until_written()):
            return  # else it is taken once more: this one is waited for, so it matters
        report = self._writer.snapshot(step, state(), rank, world, round=round, wait=wait)
        if report.skipped or (wait and not report.written):
            log.warning("no checkpoint of step %d: %s", step, report.reason)
        if not report.skipped:
            self._saved = step

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
