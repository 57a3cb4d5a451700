"""A soak run for parameter servers: one job after the other, each with random faults, each audited at its end.

    python -m tests.chaos.soak --minutes 60 --seed 7         # or: make soak SOAK="--minutes 60 --seed 7"

The seed, which is printed, determines the jobs (``ps-async`` with a window, ``ps-sync``; numbers of servers and workers; how often
they dump) and the faults: programs, agents, the master and its supervisor are killed with SIGKILL, stopped with SIGSTOP for up to
eight seconds (a server's agent kills it after five) or preempted, and servers are added and removed meanwhile. After every job
each record has to have counted exactly once: on the servers, in the master's audit, in its summary. With ``ps-sync`` the model is
that of a job without faults. Where all processes were killed at once, the job is resumed, as by a person.

The first job that fails ends the run; its folder is kept. Neighbours: ``faults``, ``tests/e2e/ps/counting_job.py`` (the worker).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from tests.chaos.faults import FAULT, Chaos
from tests.e2e.ps.counting_job import BATCH, check_each_record_counted_once, ps_job
from tests.e2e.ps.test_kills import check_the_model_is_that_without_faults

from pliant.core.events import EventKind
from pliant.testing.jobs import LocalJob

RECORDS = 2400
MAX_FROZEN_S = 8.0
MAX_SERVERS = 3
LONG = 240.0  # seconds from the last fault to the job's end
GONE_POLLS = 20  # without any process, until a job is resumed
SCALE_EVERY_S = (6.0, 15.0)


@dataclass(frozen=True)
class Case:
    """One job of the run."""

    seed: int
    strategy: str
    window: int
    servers: int
    workers: int
    dump_iterations: int
    is_scaled: bool
    seconds: float  # of faults

    @classmethod
    def of(cls, seed: int, number: int) -> Case:
        chance = random.Random(f"{seed} {number}")
        strategy = chance.choice(["ps-async", "ps-async", "ps-sync"])
        return cls(
            chance.randrange(10**6),
            strategy,
            chance.choice([4, 4, 8]) if strategy == "ps-async" else 1,
            chance.randint(1, MAX_SERVERS),
            chance.randint(1, 3),
            chance.choice([5, 20, 60]),
            chance.random() < 0.5,
            chance.uniform(15, 30),
        )


def run(case: Case, folder: Path) -> Counter[str]:
    """Raises AssertionError if a record did not count exactly once; returns the faults by kind."""
    parameters = {"dump_iterations": case.dump_iterations}
    if case.strategy == "ps-async":
        parameters["push_window"] = case.window
    job = ps_job(
        folder,
        strategy=case.strategy,
        workers=case.workers,
        servers=f"1:{MAX_SERVERS}",
        wanted=case.servers,
        records=RECORDS,
        pause=0.05,
        held=True,
        parameters=parameters,
        spec={"fault": FAULT},
    )
    with job:
        job.wait_for_progress(BATCH, LONG)
        chaos = Chaos(job, case.seed, max_frozen=MAX_FROZEN_S)
        over = Event()
        scaler = Thread(target=_scale, args=(case, job, over, chaos.done), daemon=True)
        if case.is_scaled:
            scaler.start()
        try:
            chaos.rage(case.seconds)
        finally:
            over.set()
        if case.is_scaled:
            scaler.join()
        (folder / "hurry").touch()
        summary = _end(job, chaos.done)
        assert summary["phase"] == "Succeeded", job.report()
        per_iteration = 2 * BATCH if case.strategy == "ps-sync" else BATCH
        check_each_record_counted_once(job, folder, records=RECORDS, epochs=1, per_iteration=per_iteration)
        lost = [event.message for event in job.events(EventKind.PS_REPORT) if "lost" in event.message]
        assert not lost, f"{lost}\n{job.report()}"
    if case.strategy == "ps-sync":
        check_the_model_is_that_without_faults(folder, RECORDS // (2 * BATCH))
    return chaos.done


def _end(job: LocalJob, done: Counter[str]) -> dict[str, Any]:
    """Its summary. Where everything was killed, agents included, nobody is left to start a master: a person resumes the job."""
    gone = 0

    def over() -> bool:
        nonlocal gone
        gone = 0 if job.processes() else gone + 1
        if gone == GONE_POLLS and not job.home.summary_file.exists():
            gone = 0
            done["resume"] += 1
            job.resume()
        return job.home.summary_file.exists()

    job.until(over, "the job's end", LONG)
    return job.wait_for_summary(LONG)


def _scale(case: Case, job: LocalJob, over: Event, done: Counter[str]) -> None:
    chance = random.Random(case.seed)
    while not over.wait(chance.uniform(*SCALE_EVERY_S)):
        command = [sys.executable, "-m", "pliant.cli", "scale", "--job-dir", str(job.home.path)]
        command.append(f"ps={chance.randint(1, MAX_SERVERS)}")
        with suppress(subprocess.TimeoutExpired):  # there may be no master to ask
            if subprocess.run(command, timeout=20, capture_output=True, check=False).returncode == 0:
                done["scale"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="no new job begins after this time [10]")
    parser.add_argument("--seed", type=int, help="of the jobs and their faults [random; printed]")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with the job of this number [0]")
    parser.add_argument("--json", action="store_true", help="print a summary as JSON on standard output")
    options = parser.parse_args()
    if options.minutes <= 0:
        parser.error(f"--minutes is {options.minutes:g}; it must be more than 0")
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    _say(f"seed {seed}: {options.minutes:g} minutes (repeat with --seed {seed})")
    faults: Counter[str] = Counter()
    begun, number, failed = time.monotonic(), options.first, ""
    while not failed and time.monotonic() < begun + 60 * options.minutes:
        case = Case.of(seed, number)
        _say(f"job {number}: {asdict(case)}")
        folder = Path(tempfile.mkdtemp(prefix="pliant-soak-"))
        at = time.monotonic()
        try:
            done = run(case, folder)
        except (AssertionError, TimeoutError) as error:
            failed = f"job {number} failed (--seed {seed} --first {number}); its folder is kept: {folder}\n{error}"
            break
        shutil.rmtree(folder)
        faults += done
        number += 1
        _say(f"each record counted once after {sum(done.values())} faults, {time.monotonic() - at:.0f} s: {dict(done)}")
    minutes, jobs = (time.monotonic() - begun) / 60, number - options.first
    _say(f"{jobs} jobs with {sum(faults.values())} faults in {minutes:.1f} minutes, seed {seed}: {dict(faults)}")
    if options.json:
        summary = {"seed": seed, "minutes": minutes, "jobs": jobs, "faults": dict(faults), "failed": failed}
        print(json.dumps(summary, indent=1))
    if failed:
        _say(failed)
    return 1 if failed else 0


def _say(text: str) -> None:
    print(f"soak | {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
