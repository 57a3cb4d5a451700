# mypy: ignore-errors
"""A loop with Accelerate that reports to its job, and leaves with a checkpoint."""

import sys
import time

import torch
from accelerate import Accelerator
from torch import nn

from pliant.integrations.accelerate import CheckpointAndLeave, PliantTracker

folder, steps = sys.argv[1], int(sys.argv[2])


class Position:
    step = 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


accelerator = Accelerator(cpu=True, log_with=PliantTracker())
accelerator.init_trackers("test")
torch.manual_seed(0)
model, position = nn.Linear(4, 1), Position()
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
accelerator.register_for_checkpointing(position)
leave = CheckpointAndLeave(accelerator, folder)
print("resumes from", folder if leave.restore() else None, flush=True)
while position.step < steps:
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    position.step += 1
    time.sleep(0.05)
    accelerator.log({"loss": loss.item()}, step=position.step)
    print("step", position.step, flush=True)
    leave.after_step()
accelerator.wait_for_everyone()
print("done", position.step, flush=True)
