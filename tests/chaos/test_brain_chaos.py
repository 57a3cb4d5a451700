"""A job that the Brain plans for and keeps the journal of, while Brains, their database and masters are killed or frozen at random.

PLIANT_CHAOS_SEED repeats a run's choices (not its timing), PLIANT_CHAOS_SECONDS changes how long faults go on.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from tests.e2e.auto.planned_job import PlannedJob
from tests.e2e.brain.brain_process import BrainProcess
from tests.e2e.brain.database_server import DatabaseServer, running_server

from pliant.core.events import EventKind

pytestmark = [pytest.mark.chaos, pytest.mark.databases, pytest.mark.timeout(600)]

RECORDS = 10_000
ENDING_S = 300.0  # after the last fault; a busy machine starts everything again slowly
LOAD = ("wait", "--seconds", "0.1", "--shard-size", "20")


class Chaos:
    """One bad thing after the other. What was killed is started again, and what was frozen thawed, when its time has come."""

    DEEDS = (
        *(["kill brain"] * 3 + ["freeze brain"] * 2 + ["kill database"] * 2 + ["freeze database"] * 2),
        *(["kill master"] * 2 + ["lose master"] * 2 + ["kill all"] * 2),
    )

    def __init__(self, job: PlannedJob, brains: list[BrainProcess], database: DatabaseServer, seed: int) -> None:
        self.job, self.brains, self.database = job, brains, database
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._mends: list[tuple[float, str, int]] = []  # when, what, which Brain

    def rage(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.chance.uniform(0.2, 1.5))
            self._mend(time.monotonic())
            self._do(self.chance.choice(self.DEEDS))
        self._mend(float("inf"))

    def _do(self, deed: str) -> None:
        self.done[deed] += 1
        what, whom = deed.split()
        if whom in ("brain", "all"):
            for number, brain in enumerate(self.brains):
                if (whom == "all" or self.chance.random() < 0.7) and not self._is_broken(f"brain {number}"):
                    self._break_brain(number, brain, what)
        if whom in ("database", "all") and not self._is_broken("database"):
            self.database.kill() if what == "kill" else self.database.freeze()
            self._later("start database" if what == "kill" else "thaw database")
        if whom in ("master", "all"):
            self._break_master(with_disk=what == "lose" or whom == "all")

    def _break_brain(self, number: int, brain: BrainProcess, what: str) -> None:
        if what == "kill":
            brain.kill()
            self._later(f"start brain {number}")
        else:
            brain.send(signal.SIGSTOP)
            self._later(f"thaw brain {number}")

    def _break_master(self, *, with_disk: bool) -> None:
        """``with_disk``: its journal is gone before another one starts."""
        launcher = self.job.launcher.pid
        found = self.job.masters()
        self.job.send(launcher, signal.SIGSTOP)
        try:
            for pid in found:
                self.job.send(pid, signal.SIGKILL)
            if with_disk and found:
                for file in self.job.home.path.glob("journal.db*"):
                    file.unlink(missing_ok=True)
        finally:
            self.job.send(launcher, signal.SIGCONT)

    def _is_broken(self, whom: str) -> bool:
        return any(what.endswith(whom) for _, what, _ in self._mends)

    def _later(self, what: str) -> None:
        self._mends.append((time.monotonic() + self.chance.uniform(0.3, 8.0), what, 0))

    def _mend(self, now: float) -> None:
        for each in sorted(each for each in self._mends if each[0] <= now):
            self._mends.remove(each)
            what, _, whom = each[1].partition(" ")
            if whom == "database":
                self.database.start() if what == "start" else self.database.thaw()
                continue
            brain = self.brains[int(whom.removeprefix("brain "))]
            if what == "start":
                brain.start(waits=False)
            else:
                brain.send(signal.SIGCONT)


@pytest.mark.parametrize("family", ["postgresql", "mariadb"])
def test_the_sum_in_the_database_is_what_was_accepted_whatever_is_killed_or_frozen(tmp_path: Path, family: str) -> None:
    seed = int(os.environ.get("PLIANT_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
    seconds = float(os.environ.get("PLIANT_CHAOS_SECONDS", 20))
    print(f"\nPLIANT_CHAOS_SEED={seed}")
    with running_server(family) as database:
        folder = tmp_path / "brain"
        brains = [BrainProcess(folder, "--no-monitor", database=database.url, log=f"brain-{n}") for n in range(2)]
        try:
            brains[0].start()
            brains[1].start(waits=False)
            job = PlannedJob(
                *(tmp_path, *LOAD),
                workers="1:3",
                records=RECORDS,
                optimize={"mode": "cluster"},
                spec={"journal": {"store": "database"}, "fault": {"orphan_timeout": 600.0}},
            )
            with job:
                job.wait_for_progress(50, ENDING_S)
                chaos = Chaos(job, brains, database, seed)
                chaos.rage(seconds)
                print(f"survived {sum(chaos.done.values())} faults: {dict(chaos.done)}")
                job.wait_for_progress(50, ENDING_S)
                job.hurry()
                assert job.wait(ENDING_S) == 0, job.report()
                summary, rows, plans = job.summary(), job.audit(), job.plans()
                masters = len(job.events(EventKind.MASTER))
            total = summary["progress"]["records_total"]
            assert sum(row.end - row.begin for row in rows) == total == RECORDS
            spans = sorted((row.ordinal, row.begin, row.end) for row in rows)
            assert all(one[0] < other[0] or one[2] <= other[1] for one, other in pairwise(spans)), "each record once"
            active = next(brain for brain in brains if brain.is_alive)
            assert active.accepted(job.name) == total
            origins = [plan.origin for plan in plans if plan.origin]
            assert len(origins) == len(set(origins)), "no offer was planned twice"
            print(
                f"{summary['master_starts']} masters ({masters} known), {len(plans)} plans, {summary['seconds']:.0f} s"
            )
        finally:
            for brain in brains:
                brain.stop()
