"""On one Ray cluster: how soon does a job train, and how long does it stall when a worker is killed? Pliant beside Ray Train.

    python bench/ray.py [--rounds N] [--quick] [--json]

Three workers, on a cluster that the bench starts, with Ray of an environment of its own. All systems run in turn. Launch is
from the command to the first step that all workers finished; the stall is that of ``recovery.py``: the longest time after
kill -9 of a worker's process in which no worker finished a step, less a step. Ray Train runs with
``FailureConfig(max_failures=3)`` and a checkpoint every 30 steps, with three workers and (elastic) with 2 to 3.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import Peer, finish, machine, median, options_of, parsed, peer_environment, say, table
from recovery import one_run
from systems import SYSTEMS

ROOT = Path(__file__).resolve().parents[1]
TURN = ("ray-pliant", "ray-train", "ray-train-elastic")
CPUS = 8  # that Ray believes in: nobody waits for room
START_S = 120.0


def environment() -> Peer:
    """Ray with Ray Train; everything else is that of this environment."""
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "src"), sysconfig.get_paths()["purelib"], str(ROOT), str(Path(__file__).parent / "clients")]
    )
    return peer_environment("ray-train", ("ray[train,default]==2.60.0",), "import ray.train, torch, pliant.torch")


@contextmanager
def cluster(python: Path) -> Iterator[str]:
    """Its address."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "cluster.json"
        env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        command = [str(python), "-m", "tests.ray.cluster_process", str(place), str(CPUS)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env, cwd=ROOT)
        assert process.stdin is not None
        try:
            deadline = time.monotonic() + START_S
            while not place.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("the Ray cluster did not start")
                time.sleep(0.1)
            yield str(json.loads(place.read_text())["address"])
        finally:
            process.stdin.close()
            process.wait()


def measure(python: Path, runs: int) -> dict[str, list[dict[str, Any]]]:
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in TURN}
    for number in range(runs):
        for system in TURN:
            try:
                run = one_run(system, python, 1 + number % 2)
            except TimeoutError as error:
                run = {"hung": True, "launch": float("nan"), "why": str(error)}
            results[system].append(run)
            say(f"{system}: {run}")
    return results


def main() -> None:
    options = parsed(options_of(__doc__, rounds=2))
    peer = environment()
    if peer.python is None:
        sys.exit(f"Ray Train: {peer.reason}")
    with cluster(peer.python) as address:
        os.environ["RAY_ADDRESS"] = address
        results = measure(peer.python, options.rounds)
    good = {system: [run for run in runs if not run["hung"]] for system, runs in results.items()}
    stall = {system: median([run["stall"] for run in runs]) for system, runs in good.items() if runs}
    launch = {system: median([run["launch"] for run in runs]) for system, runs in good.items() if runs}
    own = TURN[0]
    rows = [
        (
            SYSTEMS[system].title,
            f"{launch[system]:.1f} s",
            f"{launch[system] / launch[own]:.1f}",
            f"{stall[system]:.2f} s",
            f"{stall[system] / stall[own]:.0f}",
            f"{median([run['lost'] for run in good[system]]):.0f}",
            f"{len(results[system]) - len(good[system])} of {len(results[system])}",
        )
        for system in TURN
        if good[system]
    ]
    titles = ["system", "launch", "of Pliant's", "stall", "of Pliant's", "steps lost", "hung"]
    table("three workers on one Ray cluster, one killed", titles, rows)
    finish({"machine": machine(), "runs": results, "launch": launch, "stall": stall}, options.json)


if __name__ == "__main__":
    main()
