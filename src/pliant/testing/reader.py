"""``python -m pliant.testing.reader``: reads shards and writes down what it did, before it is acknowledged.

READ     JSON, {dataset: arguments of ``job.shards``}; datasets are read one after the other
PACE     seconds per shard
TRACE    a folder; each process writes a file there, one line per shard (``traces.Seen``)
POISON   a record that the program fails on
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pliant
from pliant.client import Shard


def main() -> None:
    job = pliant.connect()
    pace, poison = float(os.environ.get("PACE", "0.01")), int(os.environ.get("POISON", "-1"))
    trace = Path(os.environ["TRACE"]) / f"{job.node}.{job.incarnation}.{os.getpid()}"
    with trace.open("a", buffering=1) as written:
        for name, arguments in json.loads(os.environ["READ"]).items():
            for shard in job.shards(name, **arguments):
                time.sleep(pace)
                if poison in shard:
                    raise ValueError(f"record {poison} is poison")
                written.write(json.dumps([job.node, *_describe(shard)]) + "\n")


def _describe(shard: Shard) -> list[object]:
    return [shard.session, shard.lease, shard.dataset, shard.epoch, shard.name, shard.offset, shard.indices()]


if __name__ == "__main__":
    main()
