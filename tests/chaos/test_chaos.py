"""A job of four workers over 10^5 records, while whatever can be killed or frozen is, at random.

PLIANT_CHAOS_SEED repeats a run's choices (not its timing), PLIANT_CHAOS_SECONDS changes how long faults go on.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.chaos.faults import FAULT, Chaos

from pliant.testing.reading import ReadingJob

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

RECORDS = 100_000


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
