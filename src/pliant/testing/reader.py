"""``python -m pliant.testing.reader``: reads shards and writes down what it did, before it is acknowledged.

READ     JSON, {dataset: arguments of ``job.shards``}; datasets are read one after the other
PACE     seconds per shard
PARTS    in how many steps a shard is done, each reported as progress
TRACE    a folder; each process writes a file there, one line per step (``traces.TraceLine``)
POISON   a record that the program fails on
GATE     a file; until it is there, each process does no more than its first few shards, and holds on to the next
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pliant
from pliant.client import Shard

BEFORE_THE_GATE = 3  # shards per process


def main() -> None:
    job = pliant.connect()
    env = os.environ
    pace, parts, poison = float(env.get("PACE", "0.01")), int(env.get("PARTS", "1")), int(env.get("POISON", "-1"))
    trace = Path(env["TRACE"]) / f"{job.node}.{job.incarnation}.{os.getpid()}"
    gate, seen = Path(env.get("GATE", "/")), 0
    with trace.open("a", buffering=1) as written:
        for name, arguments in json.loads(env["READ"]).items():
            for shard in job.shards(name, **arguments):
                seen += 1
                while seen > BEFORE_THE_GATE and not gate.exists():
                    time.sleep(0.02)
                step = -(-len(shard) // parts)
                for begin in range(0, len(shard), step):
                    time.sleep(pace / parts)
                    records = shard[begin : begin + step]
                    if poison in records:
                        raise ValueError(f"record {poison} is poison")
                    written.write(json.dumps([job.node, *_describe(shard, begin, records)]) + "\n")
                    shard.progress(begin + len(records))


def _describe(shard: Shard, begin: int, records: list[int]) -> list[object]:
    return [shard.session, shard.lease, shard.dataset, shard.epoch, shard.name, shard.offset + begin, records]


if __name__ == "__main__":
    main()
