"""A worker of a real job with parameter servers: pulls and pushes rows until it is told to stop, and writes down when.

    python ps_loop.py FOLDER ROWS DIM BATCH

It fills its share of the table first, with as many pushes more as BENCH_FILL_BYTES says. Written at the end to FOLDER/NODE.npy: for
each step when it ended (unix time), the seconds of its pull and of its push, and how many undecided pushes it might have. The
numbers in BENCH_WINDOWS take turns of ``TURN_S`` by the clock, in all workers at once. While there is a file ``pause`` in FOLDER it
does nothing; a file ``stop`` ends it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

import pliant
from pliant.ps.specs import DenseSpec, InitializerSpec, OptimizerSpec, TableSpec

TURN_S = 0.5
FILL = 1 << 16  # rows in one push


def main() -> None:
    folder, rows, dim, batch = Path(sys.argv[1]), *map(int, sys.argv[2:])
    node = os.environ["PLIANT_NODE"]
    number = int(node.rpartition("-")[2])
    workers = int(os.environ["BENCH_WORKERS"])
    job = pliant.connect()
    parameters = job.parameters()
    parameters.define(
        [
            TableSpec("table", dim, OptimizerSpec("adagrad", 0.01), InitializerSpec("uniform")),
            DenseSpec("w", (1000,), OptimizerSpec("sgd", 0.01)),
        ]
    )
    parameters.initialize({"w": np.zeros(1000)})
    left = int(os.environ.get("BENCH_FILL_BYTES", "0")) // workers
    while True:
        for first in range(number * FILL, rows, workers * FILL):
            ids = np.arange(first, min(rows, first + FILL))
            parameters.push(parameters.iteration, examples=1, rows={"table": (ids, np.full((ids.size, dim), 1e-3))})
            left -= ids.size * (dim * 4 + 8)
        if left <= 0:
            break
    random = np.random.default_rng(number)
    gradients = random.standard_normal((batch, dim)).astype(np.float32) * 1e-3
    dense = np.full(1000, 1e-3, np.float32)
    (folder / f"ready-{number}").touch()
    steps = []
    sizes = [int(size) for size in os.environ.get("BENCH_WINDOWS", "4").split(",")]
    window = parameters.window(max(sizes))
    while not (folder / "stop").exists():
        if (folder / "pause").exists():
            window.drain()
            time.sleep(0.005)
            continue
        ids = random.integers(0, rows, batch)
        window.size = sizes[int(time.time() / TURN_S) % len(sizes)]
        begun = time.perf_counter()
        model = parameters.pull({"table": ids})
        pulled = time.perf_counter()
        window.push(model.iteration, examples=batch, dense={"w": dense}, rows={"table": (ids, gradients)})
        window.collect()
        steps.append((time.time(), pulled - begun, time.perf_counter() - pulled, window.size))
    window.drain()
    window.close()
    np.save(folder / f"{node}.npy", np.array(steps))


if __name__ == "__main__":
    main()
