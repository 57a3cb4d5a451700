"""Contributions that one master decides per second: what ``ps.py`` calls decisions.

A real master with its journal on disk, and workers that do not compute (``clients/ps_contributors.py``) in another process. The
rate by the clock depends on what else the machine does, decisions per second of the master's CPU time much less.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import say, table

from pliant.testing import RunningMaster

CONTRIBUTORS = Path(__file__).resolve().parent / "clients" / "ps_contributors.py"
SPEC = {
    "strategy": "ps-async",
    "audit": False,
    "roles": {"worker": {"command": "none"}, "ps": {"replicas": {"min": 1, "max": 1}}},
    "parameters": {"dump_seconds": 0, "push_window": 64},
}
RECORDS = 10**9  # of one worker: its shard never ends


def decisions(workers: tuple[int, ...], windows: tuple[int, ...], seconds: float) -> dict[str, Any]:
    result: dict[str, Any] = {}
    shown = []
    for count in workers:
        for window in windows:
            found = result[f"{count} workers, window {window}"] = _measure(count, window, seconds)
            shown.append(
                (
                    f"{count}",
                    f"{window}",
                    f"{found['per_second']:,.0f}",
                    f"{found['per_cpu_second']:,.0f}",
                    f"{found['batch_ms']:.1f}",
                )
            )
    titles = ("workers", "in a batch", "decided/s", "per second of CPU", "ms a batch")
    table("Contributions that one master decides", titles, shown)
    return result


def _measure(workers: int, window: int, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-ps-") as name, RunningMaster(Path(name), SPEC) as master:
        master.client.call(master.client.stubs.shards.CreateDataset, _dataset(workers))
        address = master.job_dir.address()
        command = [sys.executable, str(CONTRIBUTORS), address.target, str(master.job_dir.token)]
        began, wall = time.process_time(), time.perf_counter()
        run = subprocess.run(
            [*command, str(workers), str(window), str(seconds)], capture_output=True, text=True, timeout=120
        )
        spent = time.process_time() - began
        if run.returncode:
            raise RuntimeError(f"the contributors failed: {run.stderr[-1500:]}")
        found = json.loads(run.stdout)
    say(f"{workers} workers, batches of {window}: {spent:.1f} s of CPU in {time.perf_counter() - wall:.1f} s")
    return {
        "per_second": found["accepted"] / found["seconds"],
        "per_cpu_second": found["all"] / spent,
        "batch_ms": found["batch_ms"],
    }


def _dataset(workers: int) -> Any:
    from pliant.rpc import pliant_pb2 as pb

    return pb.Dataset(name="d", size=workers * RECORDS, shard_size=RECORDS, type=pb.SHARD_TYPE_TRAIN, epochs=1)
