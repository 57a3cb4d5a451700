"""``python -m pliant.testing.load KIND``: programs whose records cost something known, for tests and benchmarks of planning.

wait      each record waits: any number of workers helps
compute   each record takes CPU time: as many workers as cores help
share     each record waits with one of a few slots of the machine in its hand: as many workers as slots help, on any machine
hold      each record waits, and its worker holds on to memory for it
servers   each batch pulls and pushes rows: parameter servers are the bottleneck if they have little CPU

A file given by ``--hurry`` ends the costs: a job lasts as long as a test needs it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pliant
from pliant.client import Job
from pliant.files.locks import FileLock

BLOCK = b"x" * 65536
ROWS, WIDTH = 2048, 64  # of one batch of ``servers``
SLOTS = 2  # of ``share``


class Load:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.kind: str = arguments.kind
        self.seconds: float = arguments.seconds
        self.megabytes: float = arguments.megabytes
        self._slots = [Path(f"{arguments.slots}.{number}") for number in range(SLOTS)] if arguments.slots else []
        self._hurry = Path(arguments.hurry) if arguments.hurry else None
        self._held: list[bytearray] = []

    @property
    def is_hurried(self) -> bool:
        return self._hurry is not None and self._hurry.exists()

    def record(self) -> None:
        """What one record costs."""
        if self.kind == "compute":
            end = time.thread_time() + self.seconds
            while time.thread_time() < end:
                hashlib.sha256(BLOCK).digest()
            return
        with self._slot():
            time.sleep(self.seconds)
        if self.kind == "hold":
            self._held.append(bytearray(os.urandom(1) * int(self.megabytes * (1 << 20))))

    @contextlib.contextmanager
    def _slot(self) -> Iterator[None]:
        """The first that is free, else the next one that becomes free of a random one."""
        locks = [FileLock(path) for path in self._slots]
        random.shuffle(locks)
        taken = next((lock for lock in locks if lock.try_acquire()), None)
        if taken is None and locks:
            taken = locks[0]
            taken.acquire()
        try:
            yield
        finally:
            if taken is not None:
                taken.release()


def read(job: Job, load: Load, records: int, shard_size: int) -> None:
    for shard in job.shards("train", size=records, shard_size=shard_size):
        for done, _ in enumerate(shard, start=1):
            if not load.is_hurried:
                load.record()
            shard.progress(done)


def train(job: Job, load: Load, records: int, shard_size: int) -> None:
    import numpy as np

    from pliant.ps.specs import OptimizerSpec, TableSpec

    parameters = job.parameters()
    parameters.define([TableSpec("rows", WIDTH, optimizer=OptimizerSpec("adagrad", learning_rate=0.1))])
    generator = np.random.default_rng(job.incarnation)
    for shard in job.shards("train", size=records, shard_size=shard_size, acknowledge=False):
        ids = generator.integers(0, 1 << 20, ROWS)
        if load.is_hurried:
            ids = ids[:1]
        else:
            load.record()
        is_stale = True
        while is_stale:
            model = parameters.pull({"rows": ids})
            pushed = parameters.push(
                model.iteration,
                examples=len(shard),
                rows={"rows": (ids, 0.01 * model.rows["rows"])},
                shards=[(shard, len(shard))],
            )
            is_stale = pushed.stale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("wait", "compute", "share", "hold", "servers"))
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.05, help="that a record (of servers: a batch) costs")
    parser.add_argument("--megabytes", type=float, default=0.0, help="that a record leaves in memory")
    parser.add_argument("--shard-size", type=int, default=5)
    parser.add_argument("--hurry", default="", help="a file; once it is there, records cost nothing")
    parser.add_argument("--slots", default="", help="of share: files to lock, this and a number")
    arguments = parser.parse_args()
    job, load = pliant.connect(), Load(arguments)
    (train if arguments.kind == "servers" else read)(job, load, arguments.records, arguments.shard_size)


if __name__ == "__main__":
    main()
