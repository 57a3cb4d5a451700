"""A worker program for tests of parameter servers, and the job around it.

Each record's own row of the table ``seen`` gets a gradient of -1 / (examples of the iteration) when the record is trained,
and learns with rate 1. So at the end every row tells how often its record counted: exactly once is one value for all. A file
``hurry`` ends the pauses between batches, and a job that is ``held`` does not get past its last few iterations before: training
lasts as long as a test needs it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pliant.testing.jobs import LocalJob

BATCH = 8  # examples of one push
HELD_BACK = 5  # iterations of a job that is held

PROGRAM = """
import os, sys, time
import numpy as np
import pliant
from pliant.ps.specs import DenseSpec, OptimizerSpec, TableSpec

records, epochs, pause, folder = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
held_at = float(sys.argv[5])


def hurries():
    return os.path.exists(os.path.join(folder, "hurry"))


job = pliant.connect()
if job.node == "worker-0":
    pause *= float(os.environ.get("PLIANT_TEST_SLOW", "1"))
parameters = job.parameters()
one = OptimizerSpec("sgd", learning_rate=1.0)
parameters.define([
    TableSpec("seen", 1, optimizer=one),
    TableSpec("users", 4, optimizer=OptimizerSpec("adagrad", learning_rate=0.1)),
    DenseSpec("w", (3, 4), optimizer=OptimizerSpec("adam", learning_rate=0.01)),
    DenseSpec("count", (1,), optimizer=one),
])
parameters.initialize({"w": np.full((3, 4), 0.5), "count": [0.0]})
shards = job.shards("train", size=records, shard_size=40, epochs=epochs, shuffle=True, acknowledge=False)


if job.node == os.environ.get("PLIANT_TEST_UNDECIDED") and not job.incarnation:
    from pliant.ps.client.push_window import PushWindow

    decide = PushWindow._decide

    def decide_later(window, batch):
        \"\"\"What is staged stays undecided until the test goes on.\"\"\"
        open(os.path.join(folder, "undecided"), "w").close()
        while not os.path.exists(os.path.join(folder, "go")):
            time.sleep(0.02)
        return decide(window, batch)

    PushWindow._decide = decide_later


def computed(batch):
    users = batch % 17
    model = parameters.pull({"users": users})
    if not hurries():
        time.sleep(pause)
    while model.iteration >= held_at and not hurries():
        time.sleep(0.05)
    gradients = {
        "examples": len(batch),
        "dense": {"w": 0.01 * model.dense["w"], "count": [-1.0]},
        "rows": {"seen": (batch, np.full((len(batch), 1), -1 / len(batch))), "users": (users, 0.1 * model.rows["users"])},
    }
    return model.iteration, gradients


def cut(shard):
    indices = np.array(shard.indices())
    for at in range(0, len(indices), 8):
        yield indices[at:at + 8], min(at + 8, len(indices))


if parameters.sync:
    for shard in shards:
        for batch, done in cut(shard):
            while True:
                iteration, gradients = computed(batch)
                told = parameters.push(iteration, shards=[(shard, done)], **gradients)
                if not told.stale:
                    break
            if not told.accepted:
                print("lost", shard, told, flush=True)
                break
else:
    with parameters.pipeline(on_decided=lambda one: one.pushed.accepted or print(one, flush=True)) as pipeline:
        for one in pipeline.batches(shards, cut):
            iteration, gradients = computed(one.work)
            pipeline.push(one, iteration, **gradients)
found = parameters.pull({"seen": np.arange(records)}, at_least=parameters.latest())
name = os.path.join(folder, f"seen-{job.node}-{job.incarnation}.npz")
np.savez(name, seen=found.rows["seen"], iteration=found.iteration, count=found.dense["count"], w=found.dense["w"])
"""


def ps_job(
    folder: Path,
    *,
    strategy: str = "ps-sync",
    workers: int | str = 2,
    servers: int | str = 2,
    records: int = 800,
    epochs: int = 1,
    pause: float = 0.0,
    held: bool = False,
    parameters: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    name: str = "job",
    wanted: int | None = None,
    ps: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> LocalJob:
    program = folder / "worker.py"
    program.write_text(textwrap.dedent(PROGRAM))
    per_iteration = 2 * BATCH if strategy == "ps-sync" else BATCH
    held_at = records * epochs // per_iteration - HELD_BACK if held else float("inf")
    command = ["python", str(program), str(records), str(epochs), str(pause), str(folder), str(held_at)]
    roles: dict[str, Any] = {"worker": {"replicas": workers, "command": command}, "ps": {"replicas": servers}}
    if wanted is not None:
        least, _, most = str(servers).partition(":")
        roles["ps"] = {"replicas": {"min": int(least), "max": int(most), "wanted": wanted}}
    if ps:
        roles["ps"]["command"] = list(ps)
    told = {"batch_size": 2 * BATCH, **(parameters or {})} if strategy == "ps-sync" else dict(parameters or {})
    whole = {"strategy": strategy, "roles": roles, "parameters": told, **(spec or {})}
    return LocalJob(folder, command, spec=whole, name=name, env=env)


def check_each_record_counted_once(
    job: LocalJob, folder: Path, *, records: int, epochs: int, per_iteration: int
) -> None:
    """By what the servers hold at the end, and by the master's audit."""
    results = sorted(folder.glob("seen-*.npz"))
    assert results, f"no worker finished\n{job.report()}"
    for path in results:
        with np.load(path) as found:
            seen = np.round(found["seen"] * per_iteration * 1e4) / 1e4
            wrong = np.flatnonzero(seen[:, 0] != epochs)
            assert not wrong.size, (
                f"{path.name}: records {wrong[:10]} counted {seen[wrong[:10], 0]} times\n{job.report()}"
            )
    done = sum(row.end - row.begin for row in job.audit())
    assert done == records * epochs
    summary = job.summary()
    assert summary["parameters"]["examples"] == records * epochs, summary["parameters"]
