"""A job that is read from its journal, without a master."""

from __future__ import annotations

from pathlib import Path

from pliant.core.status import JobStatus
from pliant.core.status_builder import build_status
from pliant.master.controller import JobController
from pliant.master.offline import JobOnDisk
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, RunningMaster, wait_until

JOB = {
    "strategy": "allreduce",
    "roles": {"worker": {"command": ["true"], "replicas": "1:3"}},
    "datasets": [{"name": "train", "size": 100, "shard_size": 10, "epochs": 2}],
}
NOW = 2_000_000_000.0


def without_a_master(job: JobController) -> JobStatus:
    return build_status(job.name, job.state, NOW)


def test_a_replayed_journal_gives_the_status_of_the_living_master(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        wait_until(lambda: len(master.platform.running()) == 3)
        client, stubs = master.client, master.client.stubs
        FakeAgent(client, "worker-0", pid=77).starts()
        FakeAgent(client, "worker-1", pid=79).starts()
        client.call(stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="worker-0"))
        client.call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=1, dataset="train", want=3))
        client.call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=2, done=[1]))
        client.call(stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=2, reason="night"))

        def living() -> JobStatus:
            found = master.run_inside(without_a_master)
            client.call(stubs.job.GetStatus, pb.Empty())  # answered once the journal is on disk
            return found

        def replayed() -> JobStatus:
            job = JobOnDisk(master.job_dir)
            return build_status(job.spec.name, job.state, NOW)

        # The removal of a node goes on meanwhile: both are asked again until nothing happened in between.
        status = wait_until(lambda: found if (found := living()) == replayed() else None, what="the same status")
    assert (status.progress.records_done, status.datasets[0].shards_in_work) == (10, 2)
    assert [(role.wanted, role.ready) for role in status.roles] == [(2, 2)]
