"""A job of four workers over 10^5 records, while whatever can be killed or frozen is, at random.

PLIANT_CHAOS_SEED repeats a run's choices (not its timing), PLIANT_CHAOS_SECONDS changes how long faults go on.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from pliant.core.status import NodeStatus
from pliant.testing.reading import ReadingJob

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

RECORDS = 100_000
QUICKLY = {"limit": -1, "backoff": {"first": 0.05, "longest": 0.5}}
FAULT = {
    "session_timeout": 3.0,
    "heartbeat_timeout": 5.0,
    "grace": 1.0,
    "killed": {**QUICKLY, "in_place": True},
    **dict.fromkeys(("preempted", "hang", "unknown"), QUICKLY),
}


class Chaos:
    """Does one bad thing after the other to a job; what it froze it thaws."""

    DEEDS = (
        *(["kill program"] * 5 + ["freeze program"] * 3 + ["kill agent"] * 3 + ["preempt"] * 3),
        *(["kill master"] * 2 + ["freeze master"] * 1 + ["kill keeper"] * 1),
    )

    def __init__(self, job: ReadingJob, seed: int) -> None:
        self.job = job
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._frozen: dict[int, float] = {}  # pid -> when it is thawed
        self._nodes: list[NodeStatus] = []  # as last seen

    def rage(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.job.home.summary_file.exists():
            time.sleep(self.chance.uniform(0.2, 1.3))
            self._thaw(time.monotonic())
            self._do(self.chance.choice(self.DEEDS))
        self._thaw(float("inf"))

    def _do(self, deed: str) -> None:
        what, whom = deed.split() if " " in deed else (deed, "agent")
        if whom == "keeper":
            pid = next(iter(self.job.supervisors()), 0)
        elif whom == "master":
            pid = next(iter(self.job.masters()), 0)
        else:
            node = self._choose()
            pid = 0 if node is None else node.agent_pid if whom == "agent" else node.pid
        if not pid:
            return
        number = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "preempt": signal.SIGTERM}[what]
        if self.job.send(pid, number):
            self.done[deed] += 1
        if what == "freeze":
            self._frozen[pid] = time.monotonic() + self.chance.uniform(0.3, 3.0 if whom == "master" else 5.0)

    def _choose(self) -> NodeStatus | None:
        """A node that runs, or did when there last was a master to tell."""
        if (status := self.job.status()) is not None:
            self._nodes = [node for node in status.nodes if node.state == "Running" and node.pid]
        return self.chance.choice(self._nodes) if self._nodes else None

    def _thaw(self, now: float) -> None:
        for pid in [pid for pid, until in self._frozen.items() if until <= now]:
            self.job.thaw(pid)
            del self._frozen[pid]


def test_no_record_is_lost_or_counted_twice_whatever_is_killed_or_frozen(tmp_path: Path) -> None:
    seed = int(os.environ.get("PLIANT_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
    seconds = float(os.environ.get("PLIANT_CHAOS_SECONDS", 30))
    print(f"\nPLIANT_CHAOS_SEED={seed}")
    read = {"train": {"size": RECORDS, "shard_size": 100, "shuffle": True, "seed": seed}}
    job = ReadingJob(tmp_path, read, workers=4, pace=0.1, env={"PARTS": "4"}, spec={"fault": FAULT})
    with job:
        job.wait_for_progress(1)
        chaos = Chaos(job, seed)
        chaos.rage(seconds)
        summary = job.wait_for_summary(120)
        print(f"survived {sum(chaos.done.values())} faults: {dict(chaos.done)}")
        print(f"{summary['restarts']} restarts, {summary['replacements']} replacements,", end=" ")
        print(
            f"{summary['master_starts']} masters, {summary['seconds']:.0f} s, stalled {summary['stalled_seconds']:.1f} s"
        )
        assert summary["phase"] == "Succeeded", job.report()
        job.assert_each_record_once()
    assert sum(chaos.done.values()) > 10
