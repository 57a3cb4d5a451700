"""Tables of a hundred million rows on one server: what ``ps.py`` calls large.

    python bench/ps_large.py ROWS DIM SECONDS FOLDER          # one size, in this process; prints a line of JSON

A store as a server has it: built, pulled from, pushed to, dumped and half of it moved away, while a thread goes on pulling
and pushing ``BATCH`` random rows. The longest time without a step during the dump and during the move is what training
stalls. Each size has a process of its own. A size for which there is not three times its memory is left out: a machine that
swaps measures nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from harness import median, rss_mb, say, table

from pliant.ps.payloads import Ownership, Push, RowBatch, RowGradients
from pliant.ps.recovery.dumps import read_chunks, write_chunks
from pliant.ps.specs import InitializerSpec, OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore

BATCH = 4096
PARTITIONS, AT_ONCE = 256, 16  # partitions; those that move together
FILL = 1 << 20  # rows written at once
ROW_BYTES = 40  # beside its floats: header, index, room
LONG = 600.0  # seconds


def large(sizes: tuple[int, ...], dim: int, seconds: float) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for rows in sizes:
        needed = 3 * rows * (4 * dim + ROW_BYTES)
        free = psutil.virtual_memory().available
        with tempfile.TemporaryDirectory(prefix="bench-ps-large-") as folder:
            room = shutil.disk_usage(folder).free
            if needed > free or needed > room:
                say(
                    f"left out {rows:,} rows: {needed >> 20:,} MiB of memory and disk wanted; {free >> 20:,}, {room >> 20:,} free"
                )
                continue
            command = [sys.executable, __file__, *map(str, (rows, dim, seconds, folder))]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False)
        if done.returncode:
            raise RuntimeError(f"{rows:,} rows: {done.stderr[-2000:]}")
        found = result[f"{rows:,} rows"] = json.loads(done.stdout)
        say(f"{rows:,} rows: {found}")
    keys = ("build_s", "rss_gib", "bytes_per_row", "pull_ms", "push_ms", "dump_s", "dump_extra_gib", "dump_stall_s")
    keys += ("move_s", "move_stall_s")
    cells = [(name, *(f"{found[key]:,.2f}" for key in keys)) for name, found in result.items()]
    table(
        f"Large tables, rows of {dim} floats with SGD, one server",
        ("", *(key.replace("_", " ") for key in keys)),
        cells,
    )
    return result


class Trainer:
    """Pulls and pushes random rows without end."""

    def __init__(self, store: ParameterStore, rows: int, dim: int) -> None:
        self.store, self.rows = store, rows
        self._out, self._gradients = np.empty((BATCH, dim), np.float32), np.full((BATCH, dim), 1e-3, np.float32)
        self._random, self._sequence = np.random.default_rng(0), 0
        self.pulls: list[float] = []
        self.pushes: list[float] = []
        self._stopping = threading.Event()
        self._ends: list[float] = []

    def step(self) -> None:
        ids = np.unique(self._random.integers(0, self.rows, BATCH))
        self._sequence += 1
        begun = time.perf_counter()
        self.store.pull_rows("table", ids, self._out[: ids.size])
        pulled = time.perf_counter()
        gradients = RowGradients("table", ids, self._gradients[: ids.size], unique=True)
        self.store.apply_now(Push("bench", self._sequence, rows=(gradients,)))
        self.pulls.append(pulled - begun)
        self.pushes.append(time.perf_counter() - pulled)
        self._ends.append(time.perf_counter())

    @contextmanager
    def stalls(self) -> Iterator[list[float]]:
        """Steps in a thread; at the end their longest distance."""
        found: list[float] = []
        self._ends, self._stopping = [time.perf_counter()], threading.Event()
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield found
        finally:
            self._stopping.set()
            thread.join()
            found.append(float(np.diff([*self._ends, time.perf_counter()]).max()))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.step()


def measure(rows: int, dim: int, seconds: float, folder: Path) -> dict[str, float]:
    me = os.getpid()
    empty = rss_mb(me)
    store = _store(dim)
    begun = time.perf_counter()
    for first in range(0, rows, FILL):
        ids = np.arange(first, min(rows, first + FILL), dtype=np.int64)
        state = np.full((ids.size, dim), 0.01, np.float32)
        store.import_([RowBatch("table", ids, state, np.zeros((ids.size, 2), np.uint32))])
    found = {"rows": rows, "build_s": time.perf_counter() - begun, "rss_gib": (rss_mb(me) - empty) / 1024}
    found["bytes_per_row"] = (rss_mb(me) - empty) * 2**20 / rows
    trainer = Trainer(store, rows, dim)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        trainer.step()
    found |= {"pull_ms": 1000 * median(trainer.pulls), "push_ms": 1000 * median(trainer.pushes)}

    before, most = rss_mb(me), _Most(me)
    with trainer.stalls() as stalls, most:
        begun = time.perf_counter()
        with store.live_snapshot() as snapshot:
            write_chunks(folder / "dump" / "seat-0", snapshot, facts={})
        found["dump_s"] = time.perf_counter() - begun
    found |= {"dump_stall_s": stalls[0], "dump_extra_gib": (most.mb - before) / 1024}
    shutil.rmtree(folder / "dump")

    target = _store(dim)
    with trainer.stalls() as stalls:
        begun = time.perf_counter()
        for first in range(0, PARTITIONS // 2, AT_ONCE):
            moved = range(first, first + AT_ONCE)
            write_chunks(folder / "move" / "seat-0", store.export(moved, []), facts={})
            target.import_(read_chunks(folder / "move" / "seat-0"))
            shutil.rmtree(folder / "move")
        found["move_s"] = time.perf_counter() - begun
    found["move_stall_s"] = stalls[0]
    assert target.stats()["rows"] > 0.45 * rows
    return found


def _store(dim: int) -> ParameterStore:
    store = ParameterStore(partitions=PARTITIONS)
    store.own(Ownership(1, np.ones(PARTITIONS, np.uint8)))
    store.define(TableSpec("table", dim, OptimizerSpec("sgd", 0.01), InitializerSpec("uniform")))
    return store


class _Most:
    """The most memory that a process has in use meanwhile."""

    def __init__(self, pid: int) -> None:
        self.mb = 0.0
        self._pid, self._over = pid, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.mb = max(self.mb, rss_mb(self._pid))

    def __enter__(self) -> _Most:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))))
