"""What it costs a parameter server to know the load of its partitions: what ``ps.py`` calls measuring.

A server and a worker in one process, over loopback. Blocks of calls with and without sampling take turns, so whatever slows the
machine slows both; the CPU time of the process counts, which a busy machine disturbs less than the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import median, paired, say, table

from pliant.ps.client.connection import PsConnection
from pliant.ps.payloads import Push, RowBatch, RowGradients
from pliant.ps.server.server import PsServer
from pliant.ps.specs import InitializerSpec, OptimizerSpec, TableSpec
from pliant.ps.store.partition_load import SAMPLED
from pliant.ps.store.store import ParameterStore

TOKEN = "0123456789abcdef" * 4
DIM, BATCH = 64, 4096
CALLS = 64  # of one block


def measuring(rows: int, turns: int) -> dict[str, Any]:
    store = ParameterStore()
    store.define(TableSpec("table", DIM, OptimizerSpec("sgd", 0.01), InitializerSpec("uniform")))
    width = store.table("table").row_floats
    for first in range(0, rows, 100_000):
        ids = np.arange(first, min(rows, first + 100_000), dtype=np.int64)
        state = np.full((ids.size, width), 0.01, np.float32)
        store.import_([RowBatch("table", ids, state, np.zeros((ids.size, 2), np.uint32))])
    server = PsServer(store, TOKEN, standalone=True)
    server.start()
    connection = PsConnection("127.0.0.1", server.port, TOKEN)
    source, sequence = np.random.default_rng(0), iter(range(1, 1 << 60))
    out, gradients = np.empty((BATCH, DIM), np.float32), np.full((BATCH, DIM), 1e-3, np.float32)

    def ids_of_a_batch() -> Any:
        return np.unique(source.integers(0, rows, BATCH + BATCH // 8))[:BATCH]

    def pull() -> None:
        ids = ids_of_a_batch()
        connection.send_pull([("table", ids)])
        connection.receive_pull([out[: ids.size]], {})

    def push() -> None:
        ids = ids_of_a_batch()
        rows = (RowGradients("table", ids, gradients[: ids.size]),)
        connection.send_push(Push("bench", next(sequence), rows=rows), apply_now=True)
        connection.receive_pushed()

    try:
        return {name: _compare(store, call, name, turns) for name, call in (("pull", pull), ("push", push))}
    finally:
        connection.close()
        server.stop()


def _compare(store: ParameterStore, call: Callable[[], None], name: str, turns: int) -> dict[str, float]:
    load = store.load
    kinds: dict[str, Callable[[], bool]] = {
        "without": lambda: False,
        "one in sixteen": load.is_sampled,
        "every request": lambda: True,
    }
    spent: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(turns + 1):
        for kind, is_sampled in kinds.items():
            load.is_sampled = is_sampled  # type: ignore[method-assign]
            began = time.process_time()
            for _ in range(CALLS):
                call()
            if turn:  # the first is to warm up
                spent[kind].append((time.process_time() - began) / CALLS)
    del load.is_sampled
    base = spent["without"]
    rows = [
        (kind, f"{median(times) * 1e6:,.0f} us", f"{paired(times, base):.4f}", f"{min(times) / min(base):.4f}")
        for kind, times in spent.items()
    ]
    table(f"{name} of {BATCH} x {DIM}, CPU time", ["load of partitions", "median", "ratio", "ratio of minima"], rows)
    direct = _direct(store)
    share = direct / SAMPLED / median(base)
    say(f"counting one request: {direct * 1e6:.0f} us; one in {SAMPLED}: {share:.2%} of a {name}")
    return {"seconds": median(base), "counting": direct, "share": share} | {
        kind: median(times) / median(base) for kind, times in spent.items()
    }


def _direct(store: ParameterStore) -> float:
    """Seconds to count the ids of one request."""
    ids, times = np.arange(BATCH, dtype=np.int64), []
    for _ in range(200):
        began = time.process_time()
        store.load.add_rows("table", ids, DIM)
        times.append(time.process_time() - began)
    return median(times)
