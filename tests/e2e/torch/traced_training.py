"""A training program for tests with real processes: batch norm, dropout and Adam; writes down what it does.

Environment: ``TRACE`` (folder for one file per process), ``PACE`` (seconds per micro-batch, as if it computed),
``EPOCHS``, ``TRANSPORT`` (of gradients: memory, sockets, mixed), ``SLOW`` ("node seconds": that node takes so much longer for
each micro-batch), and ``KILL``, "node point step": the program of that node (or "any") ends itself by SIGKILL there, once.
``GATE`` (a file): until it is there, the last quarter of the training takes twenty times as long; then nothing is slowed down any
more.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import pliant.torch as elastic
import pliant.torch.elastic_world as elastic_world
from pliant.torch.gradients.tree_sum import TreeSum
from pliant.torch.step_control import StepController
from pliant.torch.worlds.address_store import AddressStore
from pliant.torch.worlds.membership import Membership

RECORDS, MICRO_BATCH, VIRTUAL_WORKERS = 70, 2, 8
STEPS_PER_EPOCH = -(-RECORDS // (MICRO_BATCH * VIRTUAL_WORKERS))
NODE = os.environ.get("PLIANT_NODE", "alone")
TRACE = Path(os.environ["TRACE"])
POINTS: dict[str, tuple[Any, str]] = {
    "before": (StepController, "_commit"),
    "inside": (StepController, "_finish"),
    "adding": (TreeSum, "reduce"),
    "between": (StepController, "_apply"),
    "after": (StepController, "_end_step"),
    "sending": (elastic_world, "send_state"),
    "receiving": (elastic_world, "receive_state"),
    "exchanging": (Membership, "_exchange"),
    "connecting": (AddressStore, "get"),
}


def write(**what: Any) -> None:
    with (TRACE / f"{NODE}-{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), "node": NODE, **what}) + "\n")


def arm(trainer: elastic.Trainer, node: str, point: str, step: int) -> None:
    """Replace a function by one that ends this process when its time has come."""
    home, name = POINTS[point]
    original = getattr(home, name)
    spent = TRACE / "killed"

    def deadly(*args: Any, **keywords: Any) -> Any:
        if node in (NODE, "any") and trainer.step >= step and not spent.exists():
            spent.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **keywords)

    setattr(home, name, deadly)


def compute(step: int) -> None:
    """As long as a micro-batch of this step takes."""
    gate, pace = os.environ.get("GATE", ""), float(os.environ["PACE"])
    slow, extra = (os.environ.get("SLOW") or "nobody 0").split()
    pace += float(extra) if slow == NODE else 0.0
    if gate and os.path.exists(gate):
        return
    is_late = step >= 3 * int(os.environ["EPOCHS"]) * STEPS_PER_EPOCH // 4
    time.sleep(20 * pace if gate and is_late else pace)


def main() -> None:
    inputs = torch.randn(RECORDS, 6, generator=torch.Generator().manual_seed(5))
    data = torch.utils.data.TensorDataset(inputs, (inputs.sum(1) > 0).long())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    transport = os.environ.get("TRANSPORT", "memory")
    trainer = elastic.Trainer(
        model,
        optimizer,
        virtual_workers=VIRTUAL_WORKERS,
        shared_memory=transport != "sockets",
    )
    if transport == "mixed":  # as if workers with odd and with even numbers were on two machines
        trainer._gradients.machine = int(NODE.rpartition("-")[2] or 0) % 2 + 1
    if kill := os.environ.get("KILL"):
        node, point, at = kill.split()
        arm(trainer, node, point, int(at))
    trainer.on_commit = lambda step: write(commit=step.index, rank=trainer.rank, at=trainer._elastic.world.round)
    for step in trainer.steps(data, micro_batch=MICRO_BATCH, epochs=int(os.environ["EPOCHS"])):
        for x, y in step:
            records = list(trainer._state.plan.indices(step.index, step.unit))  # type: ignore[union-attr]
            write(
                unit=[step.epoch, step.index, step.unit],
                records=records,
                at=trainer._elastic.world.round,
            )
            compute(step.index)
            step.backward(nn.functional.cross_entropy(model(x), y))
    state = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    digest = hashlib.sha256(b"".join(value.tobytes() for value in state.values())).hexdigest()
    write(hash=digest, weights={name: value.tolist() for name, value in state.items()})


if __name__ == "__main__":
    main()
