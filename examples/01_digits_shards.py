"""Asynchronous training over the shard queue: a small network on scikit-learn's digits.

    python examples/01_digits_shards.py                                   # alone
    pliant run -n 4 -- python examples/01_digits_shards.py                # four workers share the records
    pliant run -n 4 -- python examples/01_digits_shards.py --epochs 30

Each worker leases shards, trains on each, and adds what it learned to parameters that all share. Any of them may be
killed at any moment; no record is lost, and none is learned from twice in an epoch.

How the workers share parameters. They are one file in the job's folder. For each shard a worker reads it, trains a copy
for a few steps of SGD, and adds the *difference* to the file, which others may have changed meanwhile. This is
asynchronous (stale) SGD; it suits a small network and small steps. Synchronous training with allreduce is another example.

Why a kill does no harm. The file is replaced whole (write, then rename) under a lock that the kernel drops when its
holder dies. It also lists the shards that it has learned from: a worker that died after it wrote the file and
before it told the master leaves a shard that is handed out again, and whoever gets it sees that it is learned.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import pliant

SHARD = 32  # records
BATCH = 16
HELD_OUT = 360  # of 1797 images
RATE = 0.05


def images() -> tuple[torch.Tensor, torch.Tensor]:
    """In an order that is fixed and mixed; the last ones are held out."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    scaled = torch.tensor(pixels[order] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    return scaled, torch.tensor(labels[order], dtype=torch.int64)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


class SharedParameters:
    """One file that all workers read and change: the parameters, and the shards that went into them."""

    def __init__(self, folder: Path, first: torch.Tensor) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "parameters.npz"
        self._lock = folder / "parameters.lock"
        with self._locked():
            if not self._file.exists():
                self._write(first.numpy(), set())

    def read(self) -> tuple[torch.Tensor, set[tuple[int, int]]]:
        with np.load(self._file) as saved:  # always whole, since it is replaced by a rename
            return torch.tensor(saved["vector"]), {(int(epoch), int(start)) for epoch, start in saved["learned"]}

    def add(self, difference: torch.Tensor, shard: tuple[int, int]) -> None:
        with self._locked():
            vector, learned = self.read()
            if shard not in learned:
                self._write((vector + difference).numpy(), learned | {shard})

    def _write(self, vector: np.ndarray, learned: set[tuple[int, int]]) -> None:
        unfinished = self._file.with_name(f"parameters.{os.getpid()}.tmp.npz")
        np.savez(unfinished, vector=vector, learned=np.array(sorted(learned), dtype=np.int64).reshape(-1, 2))
        unfinished.replace(self._file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def train_on(model: nn.Module, pixels: torch.Tensor, labels: torch.Tensor) -> float:
    """A few steps of plain SGD; gives the mean loss."""
    losses = []
    for x, y in zip(pixels.split(BATCH), labels.split(BATCH), strict=True):
        loss = nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= RATE * parameter.grad
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on digits over the shard queue.")
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)  # the workers are the parallelism here
    with contextlib.ExitStack() as ending:
        # Without ``pliant run`` there is no job's folder: one for this run, gone when it ends.
        home = os.environ.get("PLIANT_JOB_DIR") or ending.enter_context(tempfile.TemporaryDirectory(prefix="digits-"))
        learn(pliant.connect(), Path(home) / "model", options.epochs)


def learn(job: pliant.Job, folder: Path, epochs: int) -> None:
    pixels, labels = images()
    train = len(labels) - HELD_OUT
    model = network()
    shared = SharedParameters(folder, parameters_to_vector(model.parameters()).detach())

    for step, shard in enumerate(
        job.shards("digits", size=train, shard_size=SHARD, epochs=epochs, shuffle=True, seed=1)
    ):
        before, learned = shared.read()
        name = (shard.epoch, shard.start)
        if name not in learned:
            vector_to_parameters(before.clone(), model.parameters())
            loss = train_on(model, pixels[shard.indices()], labels[shard.indices()])
            shared.add(parameters_to_vector(model.parameters()).detach() - before, name)
            job.report(step, loss=loss)
        # Asking for the next shard tells the master that this one is done.

    # A train-end shard is there once all training data is done; one worker gets it, and another one if that one dies.
    for _ in job.shards("final evaluation", size=1, type="train_end"):
        vector_to_parameters(shared.read()[0], model.parameters())
        with torch.no_grad():
            right = (model(pixels[train:]).argmax(1) == labels[train:]).float().mean().item()
        (folder / "accuracy.json").write_text(json.dumps({"accuracy": right, "held_out": HELD_OUT}))
        print(f"accuracy on {HELD_OUT} held-out digits: {100 * right:.1f} %", flush=True)


if __name__ == "__main__":
    main()
