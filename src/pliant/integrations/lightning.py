"""A callback for Lightning's ``Trainer``.

    leaving = PliantCallback("checkpoints/leave.ckpt")
    trainer = Trainer(callbacks=[leaving])
    trainer.fit(model, data, ckpt_path=leaving.newest)

Steps and logged metrics reach the job. When the node is to go, a checkpoint is saved to this path after the batch and the
program ends; ``newest`` is that checkpoint for the next one, or None. Without a job nothing is reported.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback

from pliant.client.job import Job, connect
from pliant.integrations.leave import LeaveNotice


class PliantCallback(Callback):  # type: ignore[misc]  # Lightning is not typed for us
    def __init__(self, path: str | os.PathLike[str], job: Job | None = None) -> None:
        self.path = Path(path)
        self._job = job or connect()
        self._notice = LeaveNotice()

    @property
    def newest(self) -> str | None:
        return str(self.path) if self.path.exists() else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._notice.install()  # Lightning has installed its own handler, which leaves without a checkpoint

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._report(trainer)
        if self._notice.agreed():
            trainer.save_checkpoint(self.path)
            self._notice.exit()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._report(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._notice.remove()

    def _report(self, trainer: Any) -> None:
        total = trainer.estimated_stepping_batches
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        shown = metrics if trainer.is_global_zero else {}
        self._job.report(trainer.global_step, total=int(total) if 0 < total < 2**62 else 0, metrics=shown)
