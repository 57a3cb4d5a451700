"""Hugging Face accelerate in restart mode: its usual loop, which finds its peers by the environment that Pliant sets.

    pip install accelerate
    python examples/06_accelerate.py                      # alone
    pliant run -n 2 examples/06_accelerate.py             # two processes

Nothing here knows Pliant. If a process dies, all start again and accelerate loads the state it saved last.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HELD_OUT = 360


class Finished:
    """How many epochs are done; saved and loaded by accelerate with the rest."""

    epochs = 0

    def state_dict(self) -> dict[str, int]:
        return {"epochs": self.epochs}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epochs = state["epochs"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on digits with accelerate.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--checkpoint", type=Path, default=Path("digits-accelerate"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    set_seed(0)

    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(labels)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(TensorDataset(x[:-HELD_OUT], y[:-HELD_OUT]), batch_size=32, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    finished = Finished()
    accelerator.register_for_checkpointing(finished)
    if saved := sorted(options.checkpoint.glob("epoch-*")):
        accelerator.load_state(str(saved[-1]))
    accelerator.print(f"{accelerator.num_processes} processes, from epoch {finished.epochs} on", flush=True)

    while finished.epochs < options.epochs:
        for images, digits in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(images), digits))
            optimizer.step()
        finished.epochs += 1
        unfinished = options.checkpoint / "unfinished"
        accelerator.save_state(str(unfinished))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:  # only a whole folder gets its name: a death while saving leaves the one before
            unfinished.rename(options.checkpoint / f"epoch-{finished.epochs:04d}")
            shutil.rmtree(options.checkpoint / f"epoch-{finished.epochs - 1:04d}", ignore_errors=True)
        accelerator.wait_for_everyone()

    with torch.no_grad():
        right = (accelerator.unwrap_model(model)(x[-HELD_OUT:]).argmax(1) == y[-HELD_OUT:]).float().mean().item()
    accelerator.print(f"accuracy on {HELD_OUT} held-out digits: {100 * right:.1f} %", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
