"""A job that is over is resumed by the next master: what was accepted stays, what was missing is launched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.core.job import Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.summary import JobSummary
from pliant.master.process import StopUnrecorded
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until


@pytest.fixture
def master(tmp_path: Path) -> Iterator[RunningMaster]:
    spec = {
        "roles": {"worker": {"command": ["true"], "replicas": 2}},
        "components": {"need_rendezvous": True},
        "fault": {kind: {"limit": 0} for kind in ("error", "killed", "unknown")},
    }
    running = RunningMaster(tmp_path, spec, clock=ManualClock()).start()
    yield running
    running.close()


def agent(master: RunningMaster, node: str) -> FakeAgent:
    wait_until(lambda: node in master.platform.running(), what=f"the launch of {node}")
    return FakeAgent(master.client, node).starts()


def exchange(master: RunningMaster, node: str, number: int, done: list[int]) -> list[int]:
    client = master.client
    if number == 1:
        client.call(client.stubs.shards.OpenSession, pb.OpenSessionRequest(session=node, node=node))
    request = pb.ExchangeRequest(session=node, request=number, dataset="train", want=2, done=done)
    return [shard.lease for shard in client.call(client.stubs.shards.Exchange, request).shards]


def resume(master: RunningMaster) -> None:
    os.replace(master.job_dir.summary_file, master.job_dir.resume_file)
    master.start()
    assert not master.job_dir.resume_file.exists()


def test_a_stopped_job_goes_on_with_new_nodes_and_with_the_records_that_are_not_done(master: RunningMaster) -> None:
    agent(master, "worker-0")
    agent(master, "worker-1")
    client = master.client
    client.call(client.stubs.shards.CreateDataset, pb.Dataset(name="train", size=20, shard_size=5))
    first, _second = exchange(master, "worker-0", 1, [])
    exchange(master, "worker-0", 2, [first])
    assert master.stop_job() is Phase.STOPPED
    resume(master)
    agent(master, "worker-2")
    agent(master, "worker-3")
    status = master.status()
    assert (status.phase, status.datasets[0].records_done) == (Phase.RUNNING, 5)
    before = master.state()
    master.restart()
    after = master.state()
    assert {**after["job"], "master_starts": 0} == {**before["job"], "master_starts": 0}, "replayed as it was"
    assert not after["rendezvous"]["closed"]
    taken = exchange(master, "worker-2", 1, [])
    taken += exchange(master, "worker-2", 2, taken)
    exchange(master, "worker-2", 3, taken[2:])
    assert master.status().datasets[0].records_done == 20, "the lease of the stopped program was returned"


def test_a_failed_job_is_resumed_with_fresh_limits_and_without_the_failure(master: RunningMaster) -> None:
    failing = agent(master, "worker-0")
    other = agent(master, "worker-1")
    saved = pb.CheckpointReport(node="worker-0", directory="/full", step=3, problem="no space left")
    master.client.call(master.client.stubs.checkpoints.Report, saved)
    failing.program_exits(ExitReason.ERROR, "no")
    master.platform.end_node("worker-0", ExitReason.ERROR, "no")
    wait_until(lambda: not master.alive or other.beats().stop, what="the order to stop")
    master.platform.end_node("worker-1", ExitReason.PREEMPTED, "stopped")
    assert master.join() is Phase.FAILED
    assert len(JobSummary.from_json(master.job_dir.summary() or {}).status.warnings) == 1
    resume(master)
    agent(master, "worker-2")
    agent(master, "worker-3")
    status = master.status()
    assert (status.phase, status.first_failure, status.warnings) == (Phase.RUNNING, None, [])


def test_a_succeeded_job_is_not_resumed(master: RunningMaster) -> None:
    for node in ("worker-0", "worker-1"):
        agent(master, node).program_exits(ExitReason.COMPLETED, "")
        master.platform.end_node(node, ExitReason.COMPLETED, "")
    assert master.join() is Phase.SUCCEEDED
    os.replace(master.job_dir.summary_file, master.job_dir.resume_file)
    master.start()
    assert master.join() is Phase.SUCCEEDED
    assert master.job_dir.summary_file.exists()


def test_a_master_that_cannot_journal_a_stop_says_that_somebody_else_has_to_carry_it_out(master: RunningMaster) -> None:
    agent(master, "worker-0")
    master.fail_disk()
    master.run_inside(lambda parts: parts.end_job("enough"))
    master.join()
    assert isinstance(master.failure, StopUnrecorded)
