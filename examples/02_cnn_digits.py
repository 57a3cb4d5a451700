"""Elastic synchronous training: a small CNN on scikit-learn's digits.

    python examples/02_cnn_digits.py                           # alone
    pliant run -n 3 -- python examples/02_cnn_digits.py        # three workers; kill any of them, add more

The result does not depend on how many workers there are or what happens to them, to the last bit. What makes the loop elastic
is marked; everything else is plain PyTorch.

``--record FILE`` is for whoever wants to see that: each worker appends a line of JSON for every step that it commits, with the
time, and at the end one with the accuracy and the SHA-256 of its weights. ``examples/quickstart.py`` reads it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import pliant.torch as elastic  # elastic

HELD_OUT = 360  # of 1797 images


def images() -> tuple[TensorDataset, torch.Tensor, torch.Tensor]:
    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    x = torch.tensor(pixels, dtype=torch.float32)[order].reshape(-1, 1, 8, 8) / 16
    y = torch.tensor(labels, dtype=torch.int64)[order]
    return TensorDataset(x[:-HELD_OUT], y[:-HELD_OUT]), x[-HELD_OUT:], y[-HELD_OUT:]


def network(width: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * width, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


class Recorder:
    """Appends lines to a file that all workers share; a line is one write, so that no kill can cut it."""

    def __init__(self, file: Path | None) -> None:
        self._file = file.open("ab", buffering=0) if file else None
        self._who = {"node": os.environ.get("PLIANT_NODE", "alone"), "pid": os.getpid()}

    def write(self, **facts: object) -> None:
        if self._file:
            self._file.write(json.dumps(self._who | {"time": time.time()} | facts).encode() + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a CNN on digits, elastically.")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--virtual-workers", type=int, default=4)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append a line for each step, and the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset, held_out, labels = images()
    model = network(options.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    trainer = elastic.Trainer(model, optimizer, virtual_workers=options.virtual_workers)  # elastic
    recorder = Recorder(options.record)

    for step in trainer.steps(dataset, micro_batch=options.micro_batch, epochs=options.epochs):  # elastic
        for x, y in step:
            step.backward(cross_entropy(model(x), y))  # elastic: instead of zero_grad, backward and optimizer.step
        recorder.write(step=step.index, workers=trainer.world_size, loss=step.loss)
        if trainer.rank == 0 and step.number == 0:
            print(f"epoch {step.epoch}: loss {step.loss:.4f}, world size {trainer.world_size}", flush=True)

    with torch.no_grad():
        right = (model(held_out).argmax(1) == labels).float().mean().item()
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    recorder.write(steps=trainer.total, accuracy=right, sha256=weights)
    if trainer.rank == 0:
        print(f"accuracy on {HELD_OUT} held-out digits: {100 * right:.1f} %")
        print(f"weights: {weights[:16]}", flush=True)


if __name__ == "__main__":
    main()
