"""A plain DDP script, as one writes it for torchrun: nothing in it knows Pliant. A small network on scikit-learn's digits.

    torchrun --standalone --nproc-per-node=3 examples/05_ddp_unmodified.py
    pliant run -n 3 examples/05_ddp_unmodified.py

It saves after each epoch and goes on from what it finds, as every script for torchrun should. Kill any of its processes while
it runs: all of them start again, and lose what was done since the last save. (To lose nothing, see pliant.torch.)
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

HELD_OUT = 360


def digits() -> tuple[TensorDataset, torch.Tensor, torch.Tensor]:
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(labels)
    return TensorDataset(x[:-HELD_OUT], y[:-HELD_OUT]), x[-HELD_OUT:], y[-HELD_OUT:]


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on digits with DDP.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--checkpoint", type=Path, default=Path("digits-ddp.pt"))
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    train, test_x, test_y = digits()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = DistributedSampler(train, seed=1)
    loader = DataLoader(train, batch_size=32, sampler=sampler)

    first = 0
    if options.checkpoint.exists():
        saved = torch.load(options.checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epochs"]
    if rank == 0:
        print(f"{dist.get_world_size()} processes, from epoch {first} on", flush=True)

    for epoch in range(first, options.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        if rank == 0:
            unfinished = options.checkpoint.with_suffix(".tmp")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epoch + 1}
            torch.save(state, unfinished)
            os.replace(unfinished, options.checkpoint)

    if rank == 0:
        with torch.no_grad():
            right = (model.module(test_x).argmax(1) == test_y).float().mean().item()
        print(f"accuracy on {HELD_OUT} held-out digits: {100 * right:.1f} %", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
