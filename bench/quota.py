"""Real jobs of this machine under one quota: the Brain's grants against an equal share and first come, first served.

    python bench/quota.py [--quick] [--rounds N] [--json]

Two jobs, then five, whose records wait (so that speed grows with workers, on any machine), of different lengths, all submitted at
once, under a quota of nodes. *brain*: `pliant run --auto --brain local --quota`. *equal share*: each job has quota / jobs workers
until its end. *first come*: the jobs run one after the other, each with the whole quota. Completion is counted from the submission,
launch and imports included; the sum over jobs, the last one (makespan), and the mean slowdown against the job alone with the whole
quota (its records over the quota's rate). --quick: shorter jobs.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness import finish, machine, median, say, table

RECORD_S = 0.02
QUOTA = {2: 6, 5: 10}  # nodes
LENGTHS = {2: (1.0, 0.5), 5: (1.0, 0.8, 0.5, 0.3, 0.2)}
POLICIES = ("brain", "equal share", "first come")


@dataclass(frozen=True)
class Job:
    name: str
    records: int


@dataclass(frozen=True)
class Found:
    completion_sum_s: float
    makespan_s: float
    slowdown: float
    slowdown_max: float


def jobs_of(count: int, records: int) -> list[Job]:
    return [Job(f"job-{number}", int(records * share)) for number, share in enumerate(LENGTHS[count])]


def command(job: Job, home: Path, *options: str) -> subprocess.Popen[bytes]:
    load = [
        sys.executable,
        "-m",
        "pliant.testing.load",
        "wait",
        "--seconds",
        str(RECORD_S),
        "--records",
        str(job.records),
    ]
    words = [sys.executable, "-m", "pliant.cli", "run", "--quiet", "--name", job.name, *options, "--", *load]
    with (home / f"{job.name}.log").open("wb") as log:
        return subprocess.Popen(words, env={**os.environ, "PLIANT_HOME": str(home)}, stdout=log, stderr=log)


def brain_in(home: Path, quota: int) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PLIANT_HOME": str(home)}
    with (home / "brain.log").open("wb") as log:
        words = [sys.executable, "-m", "pliant.cli", "brain", "serve", "--no-monitor"]
        brain = subprocess.Popen(words, env=env, stdout=log, stderr=log)
    while not (home / "brain" / "brain.json").exists():
        time.sleep(0.1)
    words = [sys.executable, "-m", "pliant.cli", "brain", "quota", "set", "team", "--nodes", str(quota)]
    subprocess.run(words, env=env, check=True, capture_output=True)
    return brain


def wait_for(running: dict[str, subprocess.Popen[bytes]], began: float, home: Path) -> dict[str, float]:
    ended: dict[str, float] = {}
    while len(ended) < len(running):
        for name, process in running.items():
            if name not in ended and process.poll() is not None:
                if process.returncode:
                    raise RuntimeError(f"{name} failed:\n{(home / f'{name}.log').read_text()[-2000:]}")
                ended[name] = time.monotonic() - began
        time.sleep(0.05)
    return ended


def run(policy: str, jobs: list[Job], quota: int) -> Found:
    with tempfile.TemporaryDirectory(prefix="pliant-quota-") as folder:
        home, brain = Path(folder), None
        try:
            if policy == "brain":
                brain = brain_in(home, quota)
            began = time.monotonic()
            if policy == "first come":
                ended: dict[str, float] = {}
                for job in jobs:
                    one = {job.name: command(job, home, "-n", str(quota))}
                    ended |= wait_for(one, began, home)
            else:
                options = ["-n", str(quota // len(jobs))]
                if policy == "brain":
                    options = ["--auto", "--brain", "local", "--quota", "team", "-n", f"1:{quota}"]
                ended = wait_for({job.name: command(job, home, *options) for job in jobs}, began, home)
        finally:
            if brain is not None:
                brain.send_signal(signal.SIGTERM)
                brain.wait(30)
    slowdowns = [ended[job.name] / (job.records * RECORD_S / quota) for job in jobs]
    return Found(sum(ended.values()), max(ended.values()), statistics.fmean(slowdowns), max(slowdowns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter jobs")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    records = 6_000 if options.quick else 20_000
    result: dict[str, object] = {"machine": machine(), "record_s": RECORD_S, "records": records}
    for count, quota in QUOTA.items():
        jobs = jobs_of(count, records)
        found: dict[str, list[Found]] = {policy: [] for policy in POLICIES}
        for _ in range(options.rounds):
            for policy in POLICIES:
                found[policy].append(run(policy, jobs, quota))
                say(f"{count} jobs, {policy}: sum {found[policy][-1].completion_sum_s:.0f} s")
        rows = {
            policy: {
                "completion_sum_s": median([one.completion_sum_s for one in runs]),
                "makespan_s": median([one.makespan_s for one in runs]),
                "slowdown": median([one.slowdown for one in runs]),
                "slowdown_max": median([one.slowdown_max for one in runs]),
            }
            for policy, runs in found.items()
        }
        table(
            f"{count} jobs under a quota of {quota} nodes",
            ("policy", "sum of completion", "makespan", "mean slowdown", "max slowdown"),
            [
                (
                    policy,
                    f"{row['completion_sum_s']:.0f} s",
                    f"{row['makespan_s']:.0f} s",
                    f"{row['slowdown']:.2f}",
                    f"{row['slowdown_max']:.2f}",
                )
                for policy, row in rows.items()
            ],
        )
        result[f"{count} jobs"] = rows
    finish(result, options.json)


if __name__ == "__main__":
    main()
