"""Killed in the middle of a move and of a dump, or on a full disk: what was accepted counts once, and the model is the same."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.e2e.ps.counting_job import BATCH, check_each_record_counted_once, ps_job

from pliant.core.events import EventKind
from pliant.ps.files import complete_dumps
from pliant.testing.jobs import LocalJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

RECORDS = 1600
HELD = Path(__file__).parent / "breakpoint_server.py"
LONG = 120.0  # seconds that a failure takes


def check_the_model_is_that_without_faults(folder: Path, iterations: int) -> None:
    """``w`` has the same gradient in all workers: 0.01 w. So it is what torch alone makes of it."""
    w = torch.nn.Parameter(torch.full((3, 4), 0.5))
    adam = torch.optim.Adam([w], lr=0.01)
    for _ in range(iterations):
        w.grad = 0.01 * w.detach()
        adam.step()
    for path in folder.glob("seen-*.npz"):
        with np.load(path) as found:
            assert found["iteration"] == iterations
            np.testing.assert_allclose(found["w"], w.detach().numpy(), rtol=1e-5)
            np.testing.assert_allclose(found["count"], iterations)


def test_training_with_servers_is_stopped_and_resumed_and_each_record_counts_once(tmp_path: Path) -> None:
    with ps_job(tmp_path, records=800, pause=0.05, held=True, parameters={"dump_iterations": 5}) as job:
        job.wait_for_progress(160, LONG)
        job.interrupt()
        assert job.wait(LONG) == 130
        (tmp_path / "hurry").touch()
        assert job.resume().wait(LONG) == 0
        check_each_record_counted_once(job, tmp_path, records=800, epochs=1, per_iteration=2 * BATCH)
    check_the_model_is_that_without_faults(tmp_path, 800 // (2 * BATCH))


@pytest.mark.parametrize("victim", ["worker-0", "ps-0"])
def test_pushes_that_are_staged_and_undecided_when_somebody_is_killed_count_once(tmp_path: Path, victim: str) -> None:
    env = {"PLIANT_TEST_UNDECIDED": "worker-0"}
    with ps_job(tmp_path, strategy="ps-async", records=400, env=env) as job:
        job.until((tmp_path / "undecided").exists, "pushes that every server has staged", LONG)
        job.kill_program(victim)
        (tmp_path / "go").touch()
        assert job.wait(LONG) == 0, job.report()
        check_each_record_counted_once(job, tmp_path, records=400, epochs=1, per_iteration=BATCH)


def reached(job: LocalJob, folder: Path, point: str) -> str:
    """The node that stands there."""
    mark = folder / f"at-{point}"
    return job.until(lambda: mark.read_text() if mark.exists() else None, point, LONG)


def test_servers_and_master_are_killed_in_the_middle_of_moves_and_of_a_dump(tmp_path: Path) -> None:
    points = ["dumping", "giving", "taking", "giving-again", "given"]
    command = [sys.executable, str(HELD), str(tmp_path), *points]
    with ps_job(
        tmp_path,
        servers="1:3",
        wanted=2,
        records=RECORDS,
        pause=0.5,
        held=True,
        parameters={"dump_iterations": 10},
        ps=command,
    ) as job:
        job.kill_program(reached(job, tmp_path, "dumping"))
        (tmp_path / "go-dumping").touch()
        job.until(lambda: complete_dumps(job.home.path), "a dump, though a server died with half of its part", LONG)

        scaled = subprocess.run(
            [sys.executable, "-m", "pliant.cli", "scale", "--job-dir", str(job.home.path), "ps=3"], timeout=LONG
        )
        assert scaled.returncode == 0
        source = reached(job, tmp_path, "giving")
        job.kill_program(source)
        (tmp_path / "go-giving").touch()

        target = reached(job, tmp_path, "taking")
        assert target != source
        job.kill_program(target)
        (tmp_path / "go-taking").touch()

        reached(job, tmp_path, "giving-again")
        master = job.kill_master()
        job.until(lambda: job.master_pid() != master, "the next master", LONG)
        (tmp_path / "go-giving-again").touch()

        job.kill_program(reached(job, tmp_path, "given"))
        (tmp_path / "go-given").touch()
        job.wait_for(
            lambda s: sorted(seat.partitions for seat in s.seats) == [85, 85, 86] or None,
            "equal shares",
            LONG,
        )
        (tmp_path / "hurry").touch()
        assert job.wait(LONG) == 0, job.report()
        check_each_record_counted_once(job, tmp_path, records=RECORDS, epochs=1, per_iteration=2 * BATCH)
        assert not [event for event in job.events(EventKind.PS_REPORT) if "lost" in event.message], job.report()
    check_the_model_is_that_without_faults(tmp_path, RECORDS // (2 * BATCH))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """At the place where the job's servers keep their files."""
    if os.geteuid() != 0:
        pytest.skip("a full disk is a small file system that only root can mount")
    place = tmp_path / "jobs" / "job" / "ps"
    place.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a full disk needs a mount: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_training_waits_while_the_disk_is_full_and_goes_on_when_there_is_room(tmp_path: Path, small_disk: Path) -> None:
    with ps_job(tmp_path, records=800, pause=0.05, held=True, parameters={"dump_iterations": 5}) as job:
        job.wait_for_progress(160, LONG)
        fill(small_disk / "ballast")
        (tmp_path / "hurry").touch()
        job.until(lambda: "cannot store a push" in job.log("worker-0") + job.log("worker-1"), "a word of it", LONG)
        stopped = job.largest_dataset().records_done
        assert "No space left on device" in job.log("worker-0") + job.log("worker-1")
        assert stopped < 800
        (small_disk / "ballast").unlink()
        assert job.wait(LONG) == 0, job.report()
        check_each_record_counted_once(job, tmp_path, records=800, epochs=1, per_iteration=2 * BATCH)
        assert complete_dumps(job.home.path), "the last dump"
    check_the_model_is_that_without_faults(tmp_path, 50)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            with contextlib.suppress(OSError):  # no room
                while True:
                    file.write(bytes(size))
