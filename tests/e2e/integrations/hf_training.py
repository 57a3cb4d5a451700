# mypy: ignore-errors
"""An unmodified script for transformers' Trainer; with ``--callback`` it reports to its job, and leaves with a checkpoint."""

import sys
import time
from pathlib import Path

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

folder, steps = Path(sys.argv[1]), int(sys.argv[2])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x, labels):
        out = self.linear(x).squeeze(-1)
        return {"loss": nn.functional.mse_loss(out, labels), "logits": out}


class Slow(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        time.sleep(0.05)
        if state.is_world_process_zero:
            print("step", state.global_step, flush=True)


torch.manual_seed(0)
data = [{"x": torch.randn(4), "labels": torch.tensor(float(i % 3))} for i in range(64)]
callbacks = [Slow()]
if "--callback" in sys.argv:
    from pliant.integrations.transformers import PliantCallback

    callbacks.append(PliantCallback())
args = TrainingArguments(
    str(folder),
    max_steps=steps,
    per_device_train_batch_size=4,
    logging_steps=5,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    use_cpu=True,
)
trainer = Trainer(Net(), args, train_dataset=data, callbacks=callbacks)
last = get_last_checkpoint(str(folder)) if folder.exists() else None
print("resumes from", last, flush=True)
trainer.train(resume_from_checkpoint=last)
print("done", trainer.state.global_step, flush=True)
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()  # without it torch's threads abort the process at its exit now and then
