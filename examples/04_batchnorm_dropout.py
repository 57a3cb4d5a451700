"""Batch norm and dropout under elasticity: the same bits for any number of workers.

    python examples/04_batchnorm_dropout.py
    pliant run -n 4 -- python examples/04_batchnorm_dropout.py     # the last line is the same, also if you kill -9 some

Dropout is seeded per step and virtual worker, batch-norm statistics are those of virtual worker 0, and gradients are added up
as whole numbers: so none of the three depends on which process computed what.
"""

from __future__ import annotations

import argparse
import hashlib

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import pliant.torch as elastic

HELD_OUT = 360


def main() -> None:
    parser = argparse.ArgumentParser(description="Batch norm and dropout, elastically and exactly.")
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    x = torch.tensor(pixels, dtype=torch.float32)[order] / 16
    y = torch.tensor(labels, dtype=torch.int64)[order]

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3),
        nn.Linear(128, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trainer = elastic.Trainer(model, optimizer, virtual_workers=6)
    trainer.fit(
        lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        TensorDataset(x[:-HELD_OUT], y[:-HELD_OUT]),
        micro_batch=16,
        epochs=options.epochs,
        drop_last=True,  # batch norm cannot use a micro-batch of one record
    )
    if trainer.rank == 0:
        model.eval()
        with torch.no_grad():
            right = (model(x[-HELD_OUT:]).argmax(1) == y[-HELD_OUT:]).float().mean().item()
        bits = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
        print(f"accuracy on {HELD_OUT} held-out digits: {100 * right:.1f} %")
        print(f"weights: {hashlib.sha256(bits).hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
