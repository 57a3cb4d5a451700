# mypy: ignore-errors
"""An unmodified script for Lightning's Trainer; with ``--callback`` it reports to its job, and leaves with a checkpoint."""

import sys
import time
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

folder, steps = Path(sys.argv[1]), int(sys.argv[2])


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def training_step(self, batch, index):
        time.sleep(0.05)
        x, y = batch
        loss = nn.functional.mse_loss(self.linear(x).squeeze(-1), y)
        self.log("loss", loss)
        print("step", self.global_step, flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


torch.manual_seed(0)
data = DataLoader(TensorDataset(torch.randn(64, 4), torch.arange(64) % 3 * 1.0), batch_size=4)
callbacks, newest = [], None
if "--callback" in sys.argv:
    from pliant.integrations.lightning import PliantCallback

    leaving = PliantCallback(folder / "leave.ckpt")
    callbacks, newest = [leaving], leaving.newest
print("resumes from", newest, flush=True)
trainer = Trainer(
    max_steps=steps,
    max_epochs=-1,
    accelerator="cpu",
    strategy="auto" if int(__import__("os").environ.get("WORLD_SIZE", "1")) == 1 else "ddp",
    devices=int(__import__("os").environ.get("LOCAL_WORLD_SIZE", "1")),
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    default_root_dir=folder,
    callbacks=callbacks,
)
trainer.fit(Net(), data, ckpt_path=newest)
print("done", trainer.global_step, flush=True)
