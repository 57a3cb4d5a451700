"""A callback for the ``Trainer`` of Hugging Face transformers.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[PliantCallback()])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(args.output_dir))

Steps, records and logged metrics reach the job (``eval_loss`` as ``eval/loss``). When the node is to go, the Trainer saves a
checkpoint after the step and the program ends; the next one resumes from it. Without a job nothing is reported.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from pliant.client.job import Job, connect
from pliant.integrations.leave import LeaveNotice

EVALUATION = "eval_"


class PliantCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed for us
    def __init__(self, job: Job | None = None) -> None:
        self._job = job or connect()
        self._notice = LeaveNotice()
        self._is_leaving = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._notice.install()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        records = args.train_batch_size * args.gradient_accumulation_steps
        self._job.report(state.global_step, total=max(0, state.max_steps), records=records)
        if self._notice.agreed():
            self._is_leaving = control.should_save = control.should_training_stop = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if state.is_world_process_zero:
            numbers = {name: value for name, value in (logs or {}).items() if isinstance(value, int | float)}
            metrics = {
                f"eval/{name.removeprefix(EVALUATION)}" if name.startswith(EVALUATION) else name: value
                for name, value in numbers.items()
            }
            self._job.report(state.global_step, total=max(0, state.max_steps), metrics=metrics)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._is_leaving:
            self._notice.exit()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._notice.remove()
