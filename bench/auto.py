"""Jobs that plan their own resources, against the best fixed configuration of a grid, in one run.

    python bench/auto.py [--only wait,compute,servers] [--seconds S] [--json]

Each load runs once with every configuration of its grid for a while (its settled rate), then the whole job: automatic from
nothing, with the best fixed configuration, and with what a job gets without any option (``manual``: one worker). Aims: the
settled rate of automatic is at least 90 % of the best one's, and the whole job takes at most 1.25 times as long. Nothing else may
run beside it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import finish, machine, say, table

from pliant.core.events import EventKind
from pliant.core.status import JobStatus
from pliant.master.journal.store import read_events
from pliant.testing.jobs import LocalJob

AIMS = {"settled rate": 0.90, "time": 1.25}
CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class Load:
    arguments: tuple[str, ...]
    rate_of_one: float  # records per second of one worker, about: decides how long a job is
    workers: tuple[int, ...]  # the grid
    servers: tuple[int, ...] = ()
    server_cpus: tuple[float, ...] = ()
    server: Mapping[str, Any] = field(default_factory=dict)
    worker: Mapping[str, Any] = field(default_factory=dict)


LOADS = {
    "wait": Load(("--seconds", "0.05"), 20.0, (1, 2, 4, 8, 12, 16)),
    "compute": Load(("--seconds", "0.02"), 50.0, (1, 2, 3, 4, 8)),
    "servers": Load(
        ("--seconds", "0.01"),
        30.0,
        (1, 2, 4, 8),
        (1, 2),
        (0.2, 0.5, 1.0),
        {"resources": {"cpu": 0.2}, "max_resources": {"cpu": 1}},
    ),
}


@dataclass(frozen=True)
class Fixed:
    workers: int
    servers: int = 0
    server_cpu: float = 0.0

    def __str__(self) -> str:
        return f"{self.workers} workers" + (f", {self.servers} servers x {self.server_cpu:g}" if self.servers else "")


def grid(load: Load) -> Iterator[Fixed]:
    if not load.servers:
        yield from (Fixed(workers) for workers in load.workers)
        return
    for workers, servers, cpu in itertools.product(load.workers, load.servers, load.server_cpus):
        yield Fixed(workers, servers, cpu)


@dataclass(frozen=True)
class Run:
    seconds: float  # of the whole job, from the first record on
    settled: float  # records per second at its end
    node_seconds: float
    changes: int
    final: str
    ooms: int


class Bench:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = itertools.count()

    def job(self, name: str, load: Load, records: int, fixed: Fixed | None, *, manual: bool = False) -> LocalJob:
        command = ["python", "-m", "pliant.testing.load", name, "--records", str(records), *load.arguments]
        worker: dict[str, Any] = {"command": command, **load.worker}
        spec: dict[str, Any] = {"strategy": "ps-async" if load.servers else "none"}
        roles: dict[str, Any] = {"worker": worker}
        if fixed is not None:
            worker["replicas"] = fixed.workers
        elif not manual:
            spec["optimize"] = "single-job"
        if load.servers:
            roles["ps"] = (
                {"replicas": fixed.servers, "resources": {"cpu": fixed.server_cpu}} if fixed else dict(load.server)
            )
        folder = self._folder / f"{next(self._number)}"
        folder.mkdir()
        return LocalJob(folder, command, spec={**spec, "roles": roles, "audit": False})

    def rate(self, name: str, load: Load, fixed: Fixed, seconds: float) -> float:
        """Of a fixed configuration, once all of its workers have trained."""
        with self.job(name, load, 100_000_000, fixed) as job:

            def works(status: JobStatus) -> JobStatus | None:
                return status if sum(node.records > 0 for node in status.nodes) >= fixed.workers else None

            began = job.wait_for(works, "all workers", 120)
            end = began.time + seconds
            status = job.wait_for(lambda now: now if now.time >= end else None, "time", 10 * seconds)
            found = (status.progress.records_done - began.progress.records_done) / (status.time - began.time)
            stop(job)
        return found

    def whole(self, name: str, load: Load, records: int, fixed: Fixed | None, *, manual: bool = False) -> Run:
        points: list[tuple[float, int]] = []
        with self.job(name, load, records, fixed, manual=manual) as job:
            while job.launcher.poll() is None:
                if (status := job.status()) is not None and status.progress.records_done:
                    points.append((status.time, status.progress.records_done))
                time.sleep(0.5)
            summary = job.summary()
            events = read_events(job.home.journal, limit=100_000)
        assert summary["phase"] == "Succeeded", summary
        nodes = [(n["created_at"], n["ended_at"] or points[-1][0]) for n in summary["nodes"]]
        kinds = [event.kind for event in events]
        roles = ", ".join(f"{role['wanted']} {role['name']}" for role in summary["roles"])
        exits = [event for event in events if event.kind == EventKind.EXIT]
        return Run(
            points[-1][0] - points[0][0],
            _settled(points),
            sum(end - begin for begin, end in nodes),
            kinds.count(EventKind.PLAN),
            roles,
            sum(event.facts["exit_reason"] == "OOM" for event in exits),
        )


def _settled(points: list[tuple[float, int]]) -> float:
    """Over the last third of the job, without its last seconds, in which workers run dry."""
    end = points[-1][0] - 3.0
    begin = points[0][0] + (end - points[0][0]) * 2 / 3
    inside = [point for point in points if begin <= point[0] <= end] or points
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) / max(last - first, 1e-9)


def stop(job: LocalJob) -> None:
    command = [
        sys.executable,
        "-c",
        "from pliant.cli import main; main()",
        "stop",
        "--job-dir",
        str(job.home.path),
        "--now",
    ]
    subprocess.run(command, capture_output=True, timeout=60, check=False)
    job.wait()


def measure(bench: Bench, name: str, seconds: float, length: float) -> dict[str, Any]:
    load = LOADS[name]
    rates = {}
    for fixed in grid(load):
        rates[fixed] = bench.rate(name, load, fixed, seconds)
        say(f"{name}: {fixed}: {rates[fixed]:.1f} records/s")
    best = max(rates, key=lambda fixed: rates[fixed])
    records = int(rates[best] * length)
    runs = {"automatic": bench.whole(name, load, records, None), "best fixed": bench.whole(name, load, records, best)}
    if not load.servers:
        # With one worker it would take the better part of an hour: a tenth of the records shows its rate.
        alone = bench.whole(name, load, max(1, int(load.rate_of_one * length / 4)), None, manual=True)
        runs["no options"] = Run(
            records / alone.settled, alone.settled, records / alone.settled, 0, alone.final, alone.ooms
        )
    return {"best": str(best), "records": records, "rates": {str(k): v for k, v in rates.items()}, "runs": runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(LOADS))
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="for which each configuration of a grid is measured"
    )
    parser.add_argument(
        "--length", type=float, default=240.0, help="of a whole job with the best fixed one, in seconds"
    )
    parser.add_argument("--rounds", type=int, default=1, choices=(1,), help="there is one: it takes minutes")
    parser.add_argument("--quick", action="store_true", help="one load, short: does it run?")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.only, options.seconds, options.length = "wait", 2.0, 10.0
    folder = Path(tempfile.mkdtemp(prefix="pliant-bench-"))
    found: dict[str, Any] = {}
    try:
        bench = Bench(folder)
        for name in options.only.split(","):
            found[name] = measure(bench, name, options.seconds, options.length)
            _show(name, found[name])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    plain = {
        name: {**each, "runs": {k: vars_of(run) for k, run in each["runs"].items()}} for name, each in found.items()
    }
    finish({"machine": machine(), "loads": plain, "aims": AIMS}, options.json)


def vars_of(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__dataclass_fields__}


def _show(name: str, found: Mapping[str, Any]) -> None:
    best: Run = found["runs"]["best fixed"]
    rows = [
        (
            which,
            f"{run.settled:.1f}",
            f"{run.settled / best.settled:.2f}",
            f"{run.seconds:.0f}",
            f"{run.seconds / best.seconds:.2f}",
            f"{run.node_seconds:.0f}",
            str(run.changes),
            run.final,
        )
        for which, run in found["runs"].items()
    ]
    headings = ["", "records/s", "of the best", "seconds", "of the best", "node seconds", "plans", "ended with"]
    table(f"{name}: best fixed is {found['best']} ({found['records']} records)", headings, rows)


if __name__ == "__main__":
    main()
