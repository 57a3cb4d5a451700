from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import NotAvailable
from pliant.core.job import Phase
from pliant.master.components.shards import DataShardManager
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, RunningMaster, wait_until

WORKERS = {"worker": {"command": ["true"], "replicas": 2}}
PS = {"ps": {"command": ["true"], "replicas": 1}}
CASES: dict[int, tuple[dict[str, Any], set[str]]] = {
    1: ({"components": {"need_pod_manager": False}}, {"shards"}),
    2: ({"components": {"need_task_manager": False}, "roles": WORKERS}, {"nodes"}),
    3: (
        {"components": {"need_task_manager": False}, "roles": WORKERS, "strategy": "allreduce"},
        {"nodes", "rendezvous"},
    ),
    4: ({"roles": WORKERS}, {"nodes", "shards"}),
    5: (
        {"roles": WORKERS, "strategy": "allreduce", "components": {"need_training_service": False}},
        {"nodes", "shards", "rendezvous"},
    ),
    6: ({"roles": {**WORKERS, **PS}, "strategy": "ps-sync"}, {"nodes", "shards", "training", "parameters"}),
    7: ({"roles": WORKERS, "strategy": "allreduce"}, {"nodes", "shards", "rendezvous", "training"}),
}
FLAGS = {
    "nodes": "--need-pod-manager",
    "shards": "--need-task-manager",
    "rendezvous": "--need-rendezvous",
    "training": "--need-training-service",
    "parameters": "ps-sync",
}
both = pytest.mark.parametrize(("case", "part"), [(case, part) for case in CASES for part in FLAGS])


def use(master: RunningMaster, part: str) -> None:
    """What each part is for, in a call or two."""
    client, stubs = master.client, master.client.stubs
    if part == "nodes":
        wait_until(lambda: "worker-0" in master.platform.running(), what="the launch of worker-0")
        agent = FakeAgent(client, "worker-0").starts()
        assert not agent.beats().stop
    elif part == "shards":
        assert client.call(stubs.shards.CreateDataset, pb.Dataset(name="d", size=4, shard_size=2)).created
        client.call(stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="guest"))
        reply = client.call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=1, dataset="d", want=9))
        assert [(shard.start, shard.end) for shard in reply.shards] == [(0, 2), (2, 4)]
    elif part == "rendezvous":
        for member in ("worker-0", "worker-1"):
            client.call(stubs.rendezvous.Join, pb.JoinRequest(member=member, incarnation="0"))
        request = pb.GetWorldRequest(member="worker-1", incarnation="0")
        world = client.call(stubs.rendezvous.GetWorld, request).world
        assert [member.name for member in world.members] == ["worker-0", "worker-1"]
    elif part == "parameters":
        client.call(stubs.parameters.Define, pb.DefineRequest(tables=[pb.TableSpec(name="t", dim=4)]))
        found = client.call(stubs.parameters.GetMap, pb.GetMapRequest(), timeout=5)
        assert len(found.tables) == 1
        assert len(found.map.partitions) == 256
    else:
        client.call(stubs.training.ReportVersion, pb.ReportVersionRequest(version=3))
        assert client.call(stubs.training.GetEvaluation, pb.Empty()).dataset == ""
        assert client.call(stubs.shards.GetDataset, pb.DatasetName(name="train-end")).type == pb.SHARD_TYPE_TRAIN_END


@both
def test_each_combination_serves_what_it_has_and_refuses_the_rest_by_its_flag(
    tmp_path: Path, case: int, part: str
) -> None:
    spec, parts = CASES[case]
    with RunningMaster(tmp_path, spec) as master:
        if part in parts:
            use(master, part)
            return
        with pytest.raises(NotAvailable) as refused:
            use_anyhow(master, part)
        assert FLAGS[part] in refused.value.hint


def use_anyhow(master: RunningMaster, part: str) -> None:
    stubs = master.client.stubs
    method, request = {
        "nodes": (stubs.nodes.Register, pb.RegisterRequest(node="worker-0")),
        "shards": (stubs.shards.CreateDataset, pb.Dataset(name="d", size=4, shard_size=2)),
        "rendezvous": (stubs.rendezvous.Join, pb.JoinRequest(member="w", incarnation="0")),
        "training": (stubs.training.GetEvaluation, pb.Empty()),
        "parameters": (stubs.parameters.GetMap, pb.GetMapRequest()),
    }[part]
    master.client.call(method, request)


@pytest.mark.parametrize("case", CASES)
def test_each_combination_says_what_it_is_and_can_be_stopped_and_started_again(tmp_path: Path, case: int) -> None:
    spec, parts = CASES[case]
    with RunningMaster(tmp_path, spec) as master:
        assert master.spec.components().case == case
        status = master.status()
        assert set(status.components) == parts
        before = master.state()
        master.restart()
        after = master.state()
        assert after["job"]["master_starts"] == 2
        assert {**after, "job": None, "nodes": None} == {**before, "job": None, "nodes": None}
        if "nodes" not in parts:
            with pytest.raises(NotAvailable, match="--need-pod-manager"):
                master.client.call(master.client.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=1))
        master.client.call(master.client.stubs.job.Stop, pb.StopRequest(reason="enough", at_once=True))
        assert master.join() is Phase.STOPPED
        summary = master.job_dir.summary()
        assert summary is not None
        assert (summary["phase"], summary["reason"], summary["exit_code"]) == ("Stopped", "enough", 130)
    assert master.platform.running() == []


def test_a_sharding_service_alone_takes_nothing_back_by_time(tmp_path: Path) -> None:
    from pliant.testing import ManualClock

    clock = ManualClock()
    with RunningMaster(tmp_path, CASES[1][0], clock=clock) as master:
        use(master, "shards")
        clock.advance(1e6)
        master.run_inside(lambda parts: parts.require(DataShardManager).expire_silent())
        status = master.status()
        assert status.datasets[0].shards_in_work == 2
