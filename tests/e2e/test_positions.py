"""Positions that are restored, and records that are lost, with real processes and real kills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pliant.client import Job
from pliant.testing.jobs import LocalJob

pytestmark = pytest.mark.e2e

RESTORING = """
import json, os, signal, pliant
job = pliant.connect()
shards = job.shards("train", size=100, shard_size=10)
job.restore_shards(json.load(open({saved!r})))
for number, shard in enumerate(shards):
    if number == 3 and job.incarnation == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    assert shard.commit()
"""
DYING = """
import os, signal, pliant
job = pliant.connect()
for shard in job.shards("train", size=100, shard_size=10, prefetch=1):
    if shard.start == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    assert shard.commit()
"""


def program(folder: Path, text: str) -> list[str]:
    (folder / "train.py").write_text(text)
    return ["python", str(folder / "train.py")]


def test_a_program_that_is_killed_and_restores_its_position_again_does_each_record_once(tmp_path: Path) -> None:
    with Job() as earlier:
        stream = earlier.shards("train", size=100, shard_size=10)
        for _ in range(4):
            next(stream)
        saved = tmp_path / "saved.json"
        saved.write_text(json.dumps(earlier.shard_checkpoint()))
    with LocalJob(tmp_path, program(tmp_path, RESTORING.format(saved=str(saved)))) as job:
        assert job.wait() == 0
        assert job.summary()["restarts"] == 1
        assert sorted(row.start for row in job.audit()) == list(range(30, 100, 10))
        (dataset,) = job.summary()["datasets"]
        assert (dataset["exact"], dataset["records_restored"]) == (True, 30)
        assert "100 of 100 records (30 of them before the restored checkpoint), each exactly once" in job.output()


def test_records_that_are_lost_without_fault_tolerance_fail_the_job_by_name(tmp_path: Path) -> None:
    spec = {"components": {"task_fault_tolerance": False}}
    with LocalJob(tmp_path, program(tmp_path, DYING), spec=spec) as job:
        assert job.wait() == 1
        reason = job.summary()["reason"]
    assert "records were lost with their worker (task_fault_tolerance is off): dataset train, epoch 0" in reason
    assert "records [20, " in reason
    assert "they were leased to worker-0 when it ended" in reason
