"""What training goes on from when no worker is left that has its state."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest
from tests.e2e.torch.training_job import TrainingJob
from tests.torch.trainer_threads import TrainerThreads, Worker

from pliant.checkpoint import find_latest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

EVERY = 7  # steps


def committed_by(job: TrainingJob, pids: set[int]) -> list[int]:
    return sorted({line["commit"] for line in job.lines() if "commit" in line and line["pid"] in pids})


def test_all_programs_die_and_later_all_nodes_are_preempted_and_training_goes_on_where_it_was(tmp_path: Path) -> None:
    with TrainingJob(tmp_path, workers=2, pace=0.05, gated=True, checkpoint={"every_steps": EVERY}) as job:
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
        job.open_gate()
        job.ends_well()
        nodes = {line["pid"]: line["node"] for line in job.lines()}
        summary = job.summary()
    assert [node["exit_reason"] for node in summary["nodes"][:2]] == ["Preempted"] * 2
    second = {pid for pid, node in nodes.items() if node in ("worker-0", "worker-1")} - first
    third = set(nodes) - first - second
    again = committed_by(job, second)[0]
    assert again in range(EVERY, done[-1] + 2, EVERY), "the last checkpoint before the kill"
    assert committed_by(job, third)[0] >= before, "a checkpoint was taken upon notice"


def test_a_stopped_training_goes_on_from_its_last_step_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    with TrainingJob(tmp_path / "stopped", workers=2, pace=0.05, gated=True, checkpoint={"every_steps": 1000}) as job:
        job.wait_for_step(EVERY)
        job.interrupt()
        assert job.wait() == 130
        first = {line["pid"] for line in job.lines()}
        before = job.committed()
        job.open_gate()
        job.resume().ends_well()
        after = {line["pid"] for line in job.lines()} - first
    with TrainingJob(tmp_path / "undisturbed", workers=2) as undisturbed:
        undisturbed.ends_well()
    assert committed_by(job, after)[0] == before, "the checkpoint that was taken at the stop"
    assert job.hashes() == undisturbed.hashes()


def test_who_is_given_notice_in_the_middle_of_a_step_takes_the_checkpoint_that_the_others_leave_to_it(
    tmp_path: Path,
) -> None:
    saved = tmp_path / "saved"

    def give_notice(worker: Worker) -> None:
        worker.trainer._notice.given = True

    with TrainerThreads(tmp_path, workers=2, checkpoint_dir=saved) as threads, threads.points():
        early, late = threads.workers
        early.does(partial(give_notice, early), "before the collective", step=2)
        late.does(partial(give_notice, late), "in the collective", step=2)  # it told the others before that it stays
        threads.start()
        for worker in threads.workers:
            with pytest.raises(SystemExit):
                threads.finish()
            worker.error = None
    assert (early.committed[-1], late.committed[-1]) == ((0, 2), (0, 3))
    found = find_latest(saved, memory=False)
    assert found is not None
    assert found.step == 4
