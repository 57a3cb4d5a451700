"""For loops with Hugging Face Accelerate: a tracker, and a checkpoint when the node is to go.

    accelerator = Accelerator(log_with=PliantTracker())
    accelerator.init_trackers("digits")
    leave = CheckpointAndLeave(accelerator, "state")
    leave.restore()
    for step, batch in enumerate(batches, 1):
        ...
        accelerator.log({"loss": loss.item()}, step=step)
        leave.after_step()

Logged metrics reach the job. When the node is to go, ``after_step`` saves the accelerator's state and ends the program; the next
one restores it. What is not part of that state (how far the loop is) goes through ``accelerator.register_for_checkpointing``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import GeneralTracker

from pliant.client.job import Job, connect
from pliant.integrations.leave import LeaveNotice


class PliantTracker(GeneralTracker):  # type: ignore[misc,unused-ignore]
    name = "pliant"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, job: Job | None = None) -> None:
        super().__init__(_blank=True)
        self._job = job or connect()
        self._step = 0

    @property
    def tracker(self) -> Job:
        return self._job

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        return

    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        self._step = self._step if step is None else step
        numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
        self._job.report(self._step, metrics=numbers)


class CheckpointAndLeave:
    def __init__(self, accelerator: Accelerator, folder: str | os.PathLike[str]) -> None:
        """``folder``: of the accelerator's state; another one than that of checkpoints of your own."""
        self._accelerator = accelerator
        self._folder = Path(folder)
        self._complete = self._folder / "complete"  # written last
        self._notice = LeaveNotice()
        self._notice.install()

    def restore(self) -> bool:
        """Continue from what a program that left has saved; False: there is nothing."""
        found = self._complete.exists()
        if found:
            self._accelerator.load_state(str(self._folder))
        return found

    def after_step(self) -> None:
        if not self._notice.agreed():
            return
        if self._accelerator.is_main_process:
            self._complete.unlink(missing_ok=True)
        self._accelerator.wait_for_everyone()
        self._accelerator.save_state(str(self._folder))
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_main_process:
            self._complete.touch()
        self._notice.exit()
