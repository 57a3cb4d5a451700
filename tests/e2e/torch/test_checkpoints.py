"""What training goes on from when no worker is left that has its state."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.e2e.torch.training_job import TrainingJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

EVERY = 7  # steps


def committed_by(job: TrainingJob, pids: set[int]) -> list[int]:
    return sorted({line["commit"] for line in job.lines() if "commit" in line and line["pid"] in pids})


def test_all_programs_die_and_later_all_nodes_are_preempted_and_training_goes_on_where_it_was(tmp_path: Path) -> None:
    with TrainingJob(tmp_path, workers=2, pace=0.05, checkpoint={"every_steps": EVERY}) as job:
        job.wait_for_step(EVERY + 1)
        first = {job.wait_until_running(node).pid for node in ("worker-0", "worker-1")}
        for number in (signal.SIGSTOP, signal.SIGKILL):  # both at once: none can go on without the other
            for pid in first:
                job.send(pid, number)
        done = committed_by(job, first)
        job.wait_for_step(done[-1] + 2)  # one more than before
        before = job.committed()
        for node in ("worker-0", "worker-1"):
            job.preempt(node)
        job.ends_well()
        nodes = {line["pid"]: line["node"] for line in job.lines()}
        summary = job.summary()
    assert [node["exit_reason"] for node in summary["nodes"][:2]] == ["Preempted"] * 2
    second = {pid for pid, node in nodes.items() if node in ("worker-0", "worker-1")} - first
    third = set(nodes) - first - second
    assert committed_by(job, second)[0] == EVERY, "the last checkpoint before the kill"
    assert committed_by(job, third)[0] >= before, "a checkpoint was taken upon notice"
