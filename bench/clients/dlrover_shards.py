"""A client of ``bench/shards.py`` in DLRover's environment: the same orders, by DLRover's own client.

A lease is ``get_task``, a report is ``report_task_result``; DLRover has one call for each shard and each report.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from dlrover.python.elastic_agent.master_client import GrpcMasterClient

PATIENCE = 300  # seconds: a large dataset takes longer than its default of 5


def connect() -> Any:
    return GrpcMasterClient(os.environ["DLROVER_MASTER_ADDR"], int(os.environ["NODE_ID"]), "worker", PATIENCE)


def define(client: Any, name: str, records: int, shard_size: int, storage: str) -> None:
    client.report_dataset_shard_params(
        batch_size=shard_size,
        num_epochs=1,
        dataset_size=records,
        shuffle=True,
        num_minibatches_per_shard=1,
        dataset_name=name,
        task_type=1,
        storage_type=storage,
    )


def pair(client: Any, name: str) -> int:
    _, task = client.get_task(name)
    if task.shard.end <= task.shard.start:
        return 0
    client.report_task_result(name, task.task_id, "")
    return 1


def run(client: Any, begin: float, seconds: float) -> dict[str, float]:
    define(client, "bench", 10**12, 1000, "table")
    time.sleep(max(0.0, begin - time.time()))
    start = time.perf_counter()
    end, done = start + seconds, 0
    while time.perf_counter() < end:
        done += pair(client, "bench")
    return {"shards": done, "seconds": time.perf_counter() - start}


def latency(client: Any, pairs: int) -> dict[str, list[float]]:
    define(client, "bench", 10**12, 1000, "table")
    taken = []
    for _ in range(pairs):
        start = time.perf_counter()
        pair(client, "bench")
        taken.append(time.perf_counter() - start)
    return {"latencies": taken}


def create(client: Any, name: str, size: int, shard_size: int, storage: str) -> dict[str, float]:
    start = time.perf_counter()
    define(client, name, size, shard_size, storage)
    created = time.perf_counter() - start
    client.get_task(name)
    first = time.perf_counter() - start
    start = time.perf_counter()
    saved = client.get_shard_checkpoint(name)
    return {
        "created": created,
        "first_shard": first,
        "checkpoint_seconds": time.perf_counter() - start,
        "checkpoint_bytes": len(saved.encode() if isinstance(saved, str) else saved),
    }


def main() -> None:
    client = connect()
    orders = {"run": run, "latency": latency, "create": create}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(orders[order.pop("kind")](client, **order)), flush=True)


if __name__ == "__main__":
    main()
