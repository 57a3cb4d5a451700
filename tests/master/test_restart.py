"""Kill the master at an awkward moment, start another on the same folder: nothing is lost, nothing happens twice."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pliant.core.errors import CorruptData, MasterUnavailable, PermanentError, RetryableError
from pliant.core.job import Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.master.journal.store import read_audit
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, FakePlatform, ManualClock, RunningMaster, wait_until

WORKERS = {"worker": {"command": ["true"], "replicas": 2}}
JOB = {
    "strategy": "allreduce",
    "roles": WORKERS,
    "audit": True,
    "datasets": [{"name": "train", "size": 100, "shard_size": 10, "shuffle": True}],
}


def surviving(master: RunningMaster) -> dict[str, object]:
    state = master.state()
    state["job"] = {**state["job"], "master_starts": None}
    return state


def ready(master: RunningMaster) -> list[FakeAgent]:
    wait_until(lambda: len(master.platform.running()) == 2, what="two workers")
    return [FakeAgent(master.client, f"worker-{n}", pid=100 * (n + 1)).starts() for n in range(2)]


def exchange(master: RunningMaster, number: int, **fields: object) -> pb.ExchangeReply:
    request = pb.ExchangeRequest(session="s", request=number, **fields)  # type: ignore[arg-type]
    reply: pb.ExchangeReply = master.client.call(master.client.stubs.shards.Exchange, request)
    return reply


def test_everything_that_was_answered_is_there_after_a_kill(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB, clock=ManualClock()) as master:
        agents = ready(master)
        client, stubs = master.client, master.client.stubs
        client.call(stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="worker-0"))
        first = exchange(master, 1, dataset="train", want=3)
        progress = [pb.LeaseProgress(lease=3, records=4)]
        exchange(master, 2, done=[1], progress=progress)
        for agent in agents:
            client.call(stubs.rendezvous.Join, pb.JoinRequest(member=agent.node, incarnation="0", step=5))
        client.call(stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=2, reason="as before"))
        client.call(stubs.training.ReportEvaluation, pb.ReportEvaluationRequest(version=7, metrics={"loss": 0.5}))
        agents[1].program_exits(ExitReason.KILLED, "killed by SIGKILL")
        before, address = surviving(master), master.address.target
        master.restart()
        assert master.address.target == address, "nobody has to be told"
        assert surviving(master) == before
        assert exchange(master, 2, done=[1], progress=progress).refused == []
        assert surviving(master) == before, "what was sent again counted once"
        second = exchange(master, 3, dataset="train", want=100, done=[2, 3])
        starts = [shard.start for shard in (*first.shards, *second.shards)]
        assert sorted(starts) == list(range(0, 100, 10)), "each shard once"
        assert master.platform.launched == ["worker-0", "worker-1"], "no node was launched twice"


def test_what_was_accepted_is_in_the_audit_once_over_many_kills(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        client = master.client
        client.call(client.stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="worker-0"))
        done: list[int] = []
        for number in range(1, 8):
            done = [shard.lease for shard in exchange(master, number, dataset="train", want=2, done=done).shards]
            if number % 2:
                master.restart()
                exchange(master, number, dataset="train", want=2, done=done)
        master.kill()
    rows = read_audit(master.job_dir.journal)
    records = [index for row in rows for index in range(row.start + row.begin, row.start + row.end)]
    assert sorted(records) == list(range(100))


def test_a_launch_that_was_carried_out_but_not_noted_is_not_repeated(tmp_path: Path) -> None:
    platform = FakePlatform()
    with RunningMaster(tmp_path, JOB, platform=platform) as master:
        wait_until(lambda: len(platform.running()) == 2)
        master.fail_disk()  # perhaps before the platform's acceptance was noted
        master.kill()
        master.start()
        ready(master)
    assert platform.launched == ["worker-0", "worker-1"]


def test_a_node_that_ended_while_the_master_was_away_is_noticed(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        ready(master)
        master.kill()
        master.platform.preempt_node("worker-0")
        master.platform.lose_node("worker-1")
        master.start()
        wait_until(lambda: len(master.platform.running()) == 2, what="two replacements")
        status = master.status()
        ended = {node.name: node.exit_reason for node in status.nodes if node.ended_at}
        assert ended == {"worker-0": "Preempted", "worker-1": "Unknown"}


def test_agents_that_lived_through_it_are_welcome_and_their_programs_are_known(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        agents = ready(master)
        master.restart()
        assert all(agent.registers().welcome for agent in agents)
        status = master.status()
        assert [(node.state, node.pid) for node in status.nodes] == [("Running", 100), ("Running", 200)]


def test_a_call_that_was_not_answered_may_be_sent_again_to_the_successor(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        client = master.client
        client.call(client.stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="worker-0"))
        master.fail_disk()
        with pytest.raises(MasterUnavailable):
            exchange(master, 1, dataset="train", want=3)
        master.kill()
        master.start()
        assert len(exchange(master, 1, dataset="train", want=3).shards) == 3
        assert master.state()["shards"]["queues"]["train"]["cursor"] == 3


@pytest.mark.parametrize(
    "failure", [OSError(28, "No space left on device"), sqlite3.OperationalError("disk I/O error")]
)
def test_a_master_whose_disk_fails_answers_nothing_and_ends(tmp_path: Path, failure: Exception) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        before = master.state()["shards"]
        master.fail_disk(failure)
        request = pb.Dataset(name="late", size=1, shard_size=1)
        with pytest.raises(MasterUnavailable):
            master.client.call(master.client.stubs.shards.CreateDataset, request)
        master.join()
        assert isinstance(master.failure, PermanentError | RetryableError)
        assert str(failure) in str(master.failure)
        master.start()
        assert master.state()["shards"] == before


def test_many_snapshots_later_a_master_is_back_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pliant.master.journal import journal

    monkeypatch.setattr(journal, "SNAPSHOT_EVERY", 5)
    with RunningMaster(tmp_path, JOB, clock=ManualClock()) as master:
        ready(master)
        client = master.client
        client.call(client.stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="worker-0"))
        for number in range(1, 10):
            exchange(master, number, dataset="train", want=1, done=[number - 1] if number > 1 else [])
        before = surviving(master)
        master.restart()
        assert surviving(master) == before


def test_a_journal_that_cannot_be_replayed_is_named_with_the_place(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        wait_until(lambda: len(master.platform.running()) == 2)
        master.kill()
        with sqlite3.connect(master.job_dir.journal) as db:
            db.execute("UPDATE operations SET method = 'no_such_thing' WHERE seq = 2")
        db.close()
        with pytest.raises(CorruptData, match=r"journal\.db cannot be replayed at operation 2 of"):
            master.start()


def test_a_job_whose_parts_were_changed_says_so_instead_of_losing_its_state(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        ready(master)
        master.kill()
        text = master.job_dir.spec.read_text().replace("strategy: allreduce", "strategy: none")
        master.job_dir.spec.write_text(text)
        with pytest.raises(CorruptData, match=r"job\.yaml or the journal"):
            master.start()


def test_a_master_that_fails_to_start_leaves_nothing_behind(tmp_path: Path) -> None:
    import threading

    before = set(threading.enumerate())
    job = {"roles": WORKERS, "platform": "nowhere"}
    with pytest.raises(PermanentError, match="unknown platform 'nowhere'"):
        RunningMaster(tmp_path, job, platform="spec").start()
    assert set(threading.enumerate()) <= before


def test_a_job_that_is_over_is_not_begun_again(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        assert master.stop_job("enough") is Phase.STOPPED
        launched = list(master.platform.launched)
        master.start()
        assert master.join() is Phase.STOPPED
        assert master.platform.launched == launched
