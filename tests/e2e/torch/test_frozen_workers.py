"""Workers that are stopped at random moments and continued later, and successors that were warm: the result does not know."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.e2e.torch.test_real_jobs import alone, assert_same
from tests.e2e.torch.training_job import TIMEOUT_S, TrainingJob

from pliant.core.events import EventKind

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
__all__ = ["alone"]


def kinds(job: TrainingJob) -> list[EventKind]:
    return [event.kind for event in job.events()]


@pytest.mark.parametrize("transport", ["memory", "sockets"])
def test_workers_stopped_at_random_moments_and_continued_later_change_nothing(
    tmp_path: Path, transport: str, alone: TrainingJob
) -> None:
    dice = random.Random(transport)
    with TrainingJob(tmp_path, workers=3, pace=0.05, gated=True, transport=transport) as job:
        for step in (3, 7, 12):
            job.wait_for_step(step)
            time.sleep(dice.uniform(0.0, 0.1))  # wherever that is in a step
            node = f"worker-{dice.randrange(3)}"
            pid = job.wait_until_running(node).pid
            before = kinds(job).count(EventKind.FROZEN)
            job.send(pid, signal.SIGSTOP)
            job.until(lambda: kinds(job).count(EventKind.FROZEN) > before, "the frozen worker is noticed")  # noqa: B023
            committed = job.committed()
            job.until(lambda: job.committed() > committed or committed == 20, "the others continue")  # noqa: B023
            job.send(pid, signal.SIGCONT)
        job.open_gate()
        job.ends_well()
        summary = job.summary()
    assert_same(job, alone)
    assert summary["restarts"] == 0, "each of them came back in its process"


def test_beside_busy_processes_nobody_is_taken_for_frozen(tmp_path: Path, alone: TrainingJob) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6)]
    try:
        with TrainingJob(tmp_path, workers=3, pace=0.1) as job:
            job.ends_well()
            found = kinds(job)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert_same(job, alone)
    assert EventKind.FROZEN not in found
    assert EventKind.SILENT not in found


def ready_standby(job: TrainingJob, node: str) -> int:
    """The process that an agent says is ready, of this node; 0: there is none."""
    agent = job.wait_until_running(node).agent_pid
    found = map(
        int, re.findall(r"the warm standby is ready: process (\d+)", (job.home.logs / "agents.log").read_text())
    )
    return next((pid for pid in found if psutil.pid_exists(pid) and psutil.Process(pid).ppid() == agent), 0)


def test_a_warm_standby_succeeds_a_killed_program_to_the_same_bits(tmp_path: Path, alone: TrainingJob) -> None:
    with TrainingJob(tmp_path, workers=2, pace=0.05, gated=True, spec={"fault": {"warm_standby": True}}) as job:
        standby = job.until(lambda: ready_standby(job, "worker-1"), "a warm standby", TIMEOUT_S)
        node = job.wait_until_running("worker-1")
        assert standby != node.pid
        job.send(node.pid, signal.SIGKILL)
        successor = job.until(
            lambda: (pid := job.wait_until_running("worker-1").pid) not in (0, node.pid) and pid,
            "its successor",
            TIMEOUT_S,
        )
        committed = {line["pid"] for line in job.lines() if "commit" in line}
        job.open_gate()
        job.ends_well()
        summary = job.summary()
    assert_same(job, alone)
    assert successor == standby
    assert standby not in committed, "it did not train before"
    assert summary["restarts"] == 1
    assert not psutil.pid_exists(standby)
