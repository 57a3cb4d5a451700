"""A worker is frozen (SIGSTOP): how soon do the others finish their next step, and what does it cost when it wakes up?

    python bench/freeze.py [--rounds N] [--quick] [--busy N] [--json]

Three workers, steps of about 25 ms, all workers in turn. *Stall* is the time from the stop to the next step that another worker
finished, less a step; *detection* is the part of it until the master removed the frozen worker from its world, the rest is the
new world. The worker is continued after five seconds; *false alarms* are workers that were removed although nobody had stopped
them. ``--busy``: as many processes that do nothing but compute beside it, and for ``--minutes`` nobody is frozen at all.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness import finish, machine, median, options_of, parsed, say, table
from training import TrainingJob

SHAPE = {"units": 6, "micro": 16, "steps": 10_000_000, "pause_ms": 10}
FROZEN_S = 5.0
REMOVED = ("FROZEN", "SILENT")


def removals(job: TrainingJob) -> list[dict[str, Any]]:
    """What the master noted of workers that it removed from their world."""
    command = [str(Path(sys.executable).with_name("pliant")), "events", "--job-dir", str(job.home / "job"), "--json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [event for event in map(json.loads, output.splitlines()) if event["kind"].upper() in REMOVED]


def one_freeze(job: TrainingJob, rank: int) -> dict[str, float]:
    steps = [c.time for c in job.commits() if c.rank == 0][-60:]
    step = median([b - a for a, b in itertools.pairwise(steps)])
    pid = job.pids_by_rank()[rank]
    stopped = time.time()
    os.kill(pid, signal.SIGSTOP)
    try:
        job.wait_for(
            lambda cs: any(c.time > stopped + 2 * step and c.pid != pid and c.world == 2 for c in cs), "a step", 60
        )
        after = min(c.time for c in job.commits() if c.time > stopped + 2 * step and c.pid != pid and c.world == 2)
        time.sleep(max(0.0, stopped + FROZEN_S - time.time()))
    finally:
        os.kill(pid, signal.SIGCONT)
    woken = time.time()
    job.wait_for(lambda cs: any(c.time > woken and c.world == 3 for c in cs), "its return", 60)
    seen = [event["time"] for event in removals(job) if event["time"] > stopped]
    back = min(c.time for c in job.commits() if c.time > woken and c.world == 3)
    return {"stall": after - stopped - step, "detection": min(seen) - stopped, "return": back - woken, "step": step}


def busy_processes(count: int) -> list[subprocess.Popen[bytes]]:
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]


def main() -> None:
    parser = options_of(__doc__, rounds=6, quick_rounds=1)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute beside the job")
    parser.add_argument("--minutes", type=float, default=0.0, help="without any freeze, at the end: for false alarms")
    options = parsed(parser)
    runs: list[dict[str, float]] = []
    beside = busy_processes(options.busy)
    try:
        with TrainingJob("pliant", 3, **SHAPE) as job:
            job.wait_for_step(60, timeout=240)
            for number in range(options.rounds):
                runs.append(one_freeze(job, number % 3))
                say(f"rank {number % 3}: {runs[-1]}")
                time.sleep(2)
            before = max(c.step for c in job.commits())
            time.sleep(60 * options.minutes)
            quiet_steps = max(c.step for c in job.commits()) - before
            false_alarms = len(removals(job)) - options.rounds
    finally:
        for process in beside:
            process.kill()
            process.wait()
    figures = {key: median([run[key] for run in runs]) for key in ("stall", "detection", "return", "step")}
    rows = [(name, f"{value:.3f} s", f"{max(run[name] for run in runs):.3f} s") for name, value in figures.items()]
    table(f"SIGSTOP of one of three workers, {options.busy} busy processes", ["", "median", "maximum"], rows)
    say(f"false alarms: {false_alarms}, in {options.minutes:g} minutes without a freeze and {quiet_steps} steps")
    result = {"machine": machine(), "runs": runs, "median": figures, "false_alarms": false_alarms}
    finish(result, options.json)


if __name__ == "__main__":
    main()
