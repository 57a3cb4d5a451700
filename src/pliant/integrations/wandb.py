"""What a program reports, in Weights & Biases: one run per job, however often its programs start again.

    job.on_report(WandbLogger(project="digits"))

The run has the job's identity, so a restarted program continues it; curves are over ``step``, which may go back. One worker should
log: ``job.on_report(WandbLogger(...), when=lambda: trainer.rank == 0)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.client.job import Job, connect
from pliant.integrations.leave import missing

try:
    import wandb
except ImportError:
    raise missing("wandb", "'pliant[wandb]'") from None

STEP = "step"


class WandbLogger:
    """``options``: further ones of ``wandb.init``."""

    def __init__(self, *, project: str = "pliant", job: Job | None = None, **options: Any) -> None:
        self._project = project
        self._job = job or connect()
        self._options = options
        self._run: Any = None

    def __call__(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._run is None and metrics:
            given = {"project": self._project, "id": self._job.uid, "name": self._job.name, "resume": "allow"}
            self._run = wandb.init(**{**given, **self._options})
            self._run.define_metric("*", step_metric=STEP)
        if metrics:
            self._run.log({STEP: step, **metrics})

    def close(self) -> None:
        """Called at the program's end."""
        if self._run is not None:
            self._run.finish()
