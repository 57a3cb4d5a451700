from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.core.events import EventKind
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import RunningMaster, wait_until

JOB = {
    "strategy": "allreduce",
    "roles": {"worker": {"command": ["true"]}},
    "checkpoint": {"every_steps": 10},
    "datasets": [
        {"name": "train", "size": 20, "shard_size": 10},
        {"name": "test", "size": 6, "shard_size": 2, "type": "eval"},
    ],
}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[RunningMaster]:
    with RunningMaster(tmp_path, JOB) as running:
        request = pb.OpenSessionRequest(session="s", node="guest")
        running.client.call(running.client.stubs.shards.OpenSession, request)
        yield running


def report(master: RunningMaster, version: int) -> None:
    master.client.call(master.client.stubs.training.ReportVersion, pb.ReportVersionRequest(version=version))


def evaluation(master: RunningMaster) -> tuple[int, str]:
    reply = master.client.call(master.client.stubs.training.GetEvaluation, pb.Empty())
    return reply.version, reply.dataset


class Worker:
    """Does all shards of a dataset, and gives how many there were."""

    def __init__(self) -> None:
        self.number = 0

    def do_all(self, master: RunningMaster, dataset: str) -> int:
        done: list[int] = []
        count = 0
        while True:
            self.number += 1
            request = pb.ExchangeRequest(session="s", request=self.number, dataset=dataset, want=9, done=done)
            reply = master.client.call(master.client.stubs.shards.Exchange, request)
            done = [shard.lease for shard in reply.shards]
            count += len(done)
            if not done:
                return count


def test_a_version_that_is_due_opens_a_round_as_a_dataset_of_its_own(master: RunningMaster) -> None:
    report(master, 9)
    assert evaluation(master) == (0, "")
    report(master, 10)
    assert evaluation(master) == (10, "test@10")
    spec = master.client.call(master.client.stubs.shards.GetDataset, pb.DatasetName(name="test@10"))
    assert (spec.type, spec.size, spec.shard_size) == (pb.SHARD_TYPE_EVAL, 6, 2)


def test_rounds_are_open_one_at_a_time_and_close_when_their_shards_are_done(master: RunningMaster) -> None:
    worker = Worker()
    for version in (10, 20, 25, 31, 20):
        report(master, version)
    assert evaluation(master) == (10, "test@10")
    assert worker.do_all(master, "test@10") == 3
    wait_until(lambda: evaluation(master) == (20, "test@20"), what="the next round")
    assert worker.do_all(master, "test@20") == 3
    wait_until(lambda: evaluation(master) == (31, "test@31"), what="the next round")
    assert worker.do_all(master, "test@31") == 3
    wait_until(lambda: evaluation(master) == (0, ""), what="the end of the last round")


def test_a_round_survives_a_restart_of_the_master(master: RunningMaster) -> None:
    report(master, 10)
    report(master, 20)
    master.restart()
    assert evaluation(master) == (10, "test@10")
    assert Worker().do_all(master, "test@10") == 3
    wait_until(lambda: evaluation(master) == (20, "test@20"), what="the round that waited")


def test_the_train_end_shard_comes_after_all_training_and_once(master: RunningMaster) -> None:
    worker = Worker()
    assert worker.do_all(master, "train-end") == 0
    assert worker.do_all(master, "train") == 2
    assert worker.do_all(master, "train-end") == 1
    assert worker.do_all(master, "train-end") == 0


def test_metrics_of_a_version_are_kept_and_told(master: RunningMaster) -> None:
    stubs = master.client.stubs
    for metrics in ({"loss": 0.25}, {"accuracy": 0.9, "loss": 0.2}, {"odd": float("nan")}):
        master.client.call(stubs.training.ReportEvaluation, pb.ReportEvaluationRequest(version=10, metrics=metrics))
    events = master.client.call(stubs.job.GetEvents, pb.EventsRequest()).events
    assert "version 10: accuracy 0.9, loss 0.2" in [event.message for event in events]
    master.restart()
    assert master.stop_job() is not None
    summary = master.job_dir.summary()
    assert summary is not None
    assert summary["evaluation"] == {"loss": 0.2, "accuracy": 0.9, "odd": None}
    assert summary["evaluations"] == [{"version": 10, "metrics": {"loss": 0.2, "accuracy": 0.9}, "records": 0}]
    assert "NaN" not in master.job_dir.summary_file.read_text(), "it is JSON for others too"


def test_a_step_that_is_reported_with_statistics_is_a_version_as_well(master: RunningMaster) -> None:
    master.client.call(master.client.stubs.stats.ReportStep, pb.ReportStepRequest(node="worker-0", step=10))
    assert evaluation(master) == (10, "test@10")


def test_a_round_whose_model_nobody_can_read_is_abandoned_and_one_that_somebody_works_on_is_not(
    master: RunningMaster,
) -> None:
    def give_up(version: int) -> None:
        request = pb.GiveUpRoundRequest(version=version, reason="worker-1 cannot read its model")
        master.client.call(master.client.stubs.training.GiveUpRound, request)

    exchange = master.client.stubs.shards.Exchange
    for version in (10, 20):
        report(master, version)
    master.client.call(exchange, pb.ExchangeRequest(session="s", request=1, dataset="test@10", want=1))
    give_up(10)
    assert evaluation(master) == (10, "test@10"), "another worker can read it"
    master.client.call(exchange, pb.ExchangeRequest(session="s", request=2, dataset="test@10", released=[1]))
    give_up(20)
    assert evaluation(master) == (10, "test@10"), "it is not the turn of 20"
    give_up(10)
    assert evaluation(master) == (20, "test@20")
    events = master.client.call(master.client.stubs.job.GetEvents, pb.EventsRequest()).events
    told = [event.message for event in events if event.kind == EventKind.EVALUATION_FAILED]
    assert len(told) == 1
    assert "worker-1 cannot read its model" in told[0]
