"""Workers that do not work together are told of once: as an event, and in the status, also of the next master."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.core.combination import MIN_RUN_S
from pliant.core.events import EventKind
from pliant.core.nodes.fault_policy import ExitReason
from pliant.master.journal.store import read_events
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.status import status_from_message
from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until


def job(**more: Any) -> dict[str, Any]:
    return {"roles": {"worker": {"command": ["true"], "replicas": 2}}, **more}


def warnings(master: RunningMaster) -> list[str]:
    client = master.client
    return status_from_message(client.call(client.stubs.job.GetStatus, pb.Empty())).warnings


def agents(master: RunningMaster) -> list[FakeAgent]:
    names = ("worker-0", "worker-1")
    wait_until(lambda: set(names) <= set(master.platform.running()), what="the launch of both")
    return [FakeAgent(master.client, name).starts() for name in names]


def train_alone(master: RunningMaster, node: str, dataset: str = "train") -> None:
    """Its program does a shard, and has updated a model by then."""
    client, stubs = master.client, master.client.stubs.shards
    client.call(stubs.OpenSession, pb.OpenSessionRequest(session=node, node=node))
    leased = client.call(stubs.Exchange, pb.ExchangeRequest(session=node, request=1, dataset=dataset, want=1))
    done = [shard.lease for shard in leased.shards]
    client.call(
        stubs.Exchange, pb.ExchangeRequest(session=node, request=2, dataset=dataset, done=done, trains_alone=True)
    )


def test_separate_models_are_told_of_once_when_the_second_worker_trains_alone(tmp_path: Path) -> None:
    data = [{"name": "train", "size": 20, "shard_size": 1}]
    with RunningMaster(tmp_path, job(datasets=data), clock=ManualClock()) as master:
        agents(master)
        train_alone(master, "worker-0")
        assert warnings(master) == []
        train_alone(master, "worker-1")
        told = warnings(master)
        assert [text[:42] for text in told] == ["2 workers train without exchanging gradien"]
        master.restart()
        assert warnings(master) == told
        events = read_events(master.job_dir.journal, limit=1000)
        assert [event.message for event in events if event.kind is EventKind.NOT_COMBINED] == told


@pytest.mark.parametrize("kind", ["eval", "predict"])
def test_shards_that_are_not_for_training_say_nothing_about_models(tmp_path: Path, kind: str) -> None:
    data = [{"name": "test", "size": 20, "shard_size": 1, "type": kind}]
    with RunningMaster(tmp_path, job(datasets=data), clock=ManualClock()) as master:
        agents(master)
        for node in ("worker-0", "worker-1"):
            train_alone(master, node, "test")
        assert warnings(master) == []


def test_workers_that_ran_the_whole_program_each_are_told_of_in_the_summary(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningMaster(tmp_path, job(), clock=clock) as master:
        both = agents(master)
        clock.advance(MIN_RUN_S)
        for agent in both:
            agent.program_exits(ExitReason.COMPLETED, "finished")
            master.platform.end_node(agent.node, ExitReason.COMPLETED, "finished")
        assert master.join() == "Succeeded"
        summary = master.job_dir.summary()
    assert summary is not None
    assert summary["reason"] == "all workers finished"
    assert [condition["type"] for condition in summary["conditions"]] == ["IndependentWorkers"]
