"""Records that take as long to load as to compute: the Trainer with and without readers ahead, beside PyTorch's DataLoader.

    python bench/read_ahead.py [--quick] [--rounds N] [--json]

One worker trains a small model; the records of a micro-batch wait (a disk, a network) for as long as its computation was found to
take. ``none``: read when they are wanted, as without any option; ``threads`` and ``workers``: two of them read ahead;
``DataLoader``: a plain training loop over torch's own, with two worker processes. In turn; shown are medians, and how many times
as fast as ``none``.
Start and end of worker processes are counted apart: the time runs from the first step on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch
from harness import finish, machine, median, options_of, paired, parsed, say, table
from torch import nn

from pliant.client.job import Job
from pliant.torch import Trainer

AIM = 1.8  # times as fast, with two readers
WIDTH, MICRO_BATCH, UNITS = 512, 16, 4
READERS = 2


class Slow:
    """Each record waits."""

    def __init__(self, records: int, wait: float) -> None:
        self._records, self._wait = records, wait

    def __len__(self) -> int:
        return self._records

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self._wait)
        return torch.full((WIDTH,), index / self._records)


def network() -> nn.Module:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(8)))


def loss_of(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Some passes, so that a micro-batch takes long enough for a wait to be exact."""
    return sum((model(batch).square().mean() for _ in range(4)), torch.zeros(()))


def with_trainer(data: Slow, **options: Any) -> float:
    """Seconds a step, the first one apart."""
    model = network()
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=1e-3), virtual_workers=UNITS, job=Job(None))
    began, steps = 0.0, 0
    for step in trainer.steps(data, micro_batch=MICRO_BATCH, **options):
        for batch in step:
            step.backward(loss_of(model, batch))
        if step.index == 0:
            began = time.perf_counter()
        steps = step.index
    return (time.perf_counter() - began) / steps


def with_loader(data: Slow) -> float:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader: Any = torch.utils.data.DataLoader(data, MICRO_BATCH, num_workers=READERS, shuffle=True)  # type: ignore[arg-type]
    began, last = 0.0, 0
    for number, batch in enumerate(loader):
        (loss_of(model, batch) / UNITS).backward()  # type: ignore[no-untyped-call]
        if number % UNITS == UNITS - 1:
            optimizer.step()
            optimizer.zero_grad()
            last = number // UNITS
            began = began or time.perf_counter()
    return (time.perf_counter() - began) / last


def main() -> None:
    parser = options_of(__doc__, rounds=5)
    options = parsed(parser)
    torch.set_num_threads(1)
    steps = 5 if options.quick else 30
    records = steps * UNITS * MICRO_BATCH
    compute = with_trainer(Slow(records, 0.0))
    data = Slow(records, compute / (UNITS * MICRO_BATCH))
    say(f"a step computes for {1e3 * compute:.0f} ms, and its records wait as long")
    ways: dict[str, Callable[[], float]] = {
        "none": lambda: with_trainer(data),
        "threads": lambda: with_trainer(data, num_threads=READERS),
        "workers": lambda: with_trainer(data, num_workers=READERS),
        "DataLoader": lambda: with_loader(data),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.rounds):
        for name, run in ways.items():
            taken[name].append(run())
        say(f"turn {turn + 1}: " + ", ".join(f"{name} {1e3 * values[-1]:.0f} ms" for name, values in taken.items()))
    faster = {name: paired(taken["none"], values) for name, values in taken.items()}
    table(
        f"Records that wait as long as they compute, {READERS} readers",
        ["", "ms a step", "times as fast", f"aim: {AIM}"],
        [
            [name, f"{1e3 * median(values):.0f}", f"{faster[name]:.2f}", "reached" if faster[name] >= AIM else "-"]
            for name, values in taken.items()
        ],
    )
    result: dict[str, Any] = {"machine": machine(), "compute_s": compute, "seconds": taken, "times_as_fast": faster}
    result["load_after"] = round(os.getloadavg()[0], 2)
    finish(result, options.json)


if __name__ == "__main__":
    main()
