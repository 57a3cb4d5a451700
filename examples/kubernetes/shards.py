"""A program for the shard queue on Kubernetes: each record of a dataset is worked on once, whatever happens to the Pods.

    pliant submit examples/kubernetes/shard-queue.yaml -N team-a --file examples/kubernetes/shards.py
    python examples/kubernetes/shards.py                                  # alone, on this machine

It needs nothing but Pliant itself. Delete its Pods while it runs: `pliant audit` proves that no record was lost.
"""

from __future__ import annotations

import argparse
import time

import pliant

options = argparse.ArgumentParser()
options.add_argument("--records", type=int, default=2000)
options.add_argument("--seconds-per-record", type=float, default=0.01)
given = options.parse_args()

job = pliant.connect()
done = 0
for shard in job.shards("numbers", size=given.records, shard_size=20, shuffle=True, seed=1):
    for _ in range(shard.start, shard.end):
        time.sleep(given.seconds_per_record)  # where the work would be
    done += shard.end - shard.start
    print(f"{job.node} did records [{shard.start}, {shard.end})", flush=True)
print(f"{job.node} did {done} of {given.records} records", flush=True)
