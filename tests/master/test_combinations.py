from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import NotAvailable
from pliant.core.job import Phase
from pliant.master.components.shards import DataShardManager
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until

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
        found = client.call(stubs.parameters.GetMap, pb.GetMapRequest(), timeout=60)
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
    clock = ManualClock()
    with RunningMaster(tmp_path, CASES[1][0], clock=clock) as master:
        use(master, "shards")
        clock.advance(1e6)
        master.run_inside(lambda parts: parts.require(DataShardManager).expire_silent())
        status = master.status()
        assert status.datasets[0].shards_in_work == 2


# --- the end of a sharding service alone


class Service:
    """A master without nodes, and one program at a time that talks to it."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        self.clock = ManualClock()
        parts = {"need_pod_manager": False, **spec.pop("components", {})}
        self.master = RunningMaster(folder, {"components": parts, **spec}, clock=self.clock)
        self.requests = 0

    def create(self, name: str = "d", **fields: Any) -> None:
        dataset = pb.Dataset(**{"name": name, "size": 4, "shard_size": 2, **fields})
        self.master.client.call(self.master.client.stubs.shards.CreateDataset, dataset)

    def open(self, session: str = "s") -> None:
        request = pb.OpenSessionRequest(session=session, node="guest")
        self.master.client.call(self.master.client.stubs.shards.OpenSession, request)

    def exchange(self, *, dataset: str = "d", want: int = 0, **reports: Any) -> pb.ExchangeReply:
        self.requests += 1
        request = pb.ExchangeRequest(session="s", request=self.requests, dataset=dataset, want=want, **reports)
        reply: pb.ExchangeReply = self.master.client.call(self.master.client.stubs.shards.Exchange, request)
        return reply

    def do_all(self, dataset: str = "d") -> None:
        reply = self.exchange(dataset=dataset, want=9)
        self.exchange(dataset=dataset, done=[shard.lease for shard in reply.shards])

    def close(self, session: str = "s") -> None:
        self.master.client.call(self.master.client.stubs.shards.CloseSession, pb.CloseSessionRequest(session=session))

    def ticks(self) -> None:
        """So often that it would have ended."""
        for _ in range(3):
            self.master.run_inside(lambda parts: parts.woken.set())
            wait_until(lambda: not self.master.run_inside(lambda parts: parts.woken.is_set()), what="a tick")
        assert self.master.alive

    def ends(self) -> dict[str, Any]:
        self.master.join()
        summary = self.master.job_dir.summary()
        assert summary is not None
        return summary


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    with made.master:
        yield made


def test_a_sharding_service_ends_when_all_is_done_and_its_programs_have_left(service: Service) -> None:
    service.ticks()
    service.create()
    service.ticks()
    service.open()
    service.do_all()
    service.ticks()  # the program may create more
    service.create("more")
    service.do_all("more")
    service.close()
    ended = service.ends()
    assert (ended["phase"], ended["exit_code"]) == ("Succeeded", 0)
    assert ended["reason"] == "all datasets are finished"
    assert ended["records_done"] == 8


def test_a_program_that_asks_hears_of_the_end_before_the_service_goes(service: Service) -> None:
    service.create()
    for session in ("s", "other"):
        service.open(session)
    leases = [shard.lease for shard in service.exchange(want=9).shards]
    shards = service.master.client.stubs.shards
    waiting = service.master.client.start(
        shards.WaitForShards, pb.WaitForShardsRequest(dataset="d", session="other"), timeout=60
    )
    service.exchange(done=leases)
    service.close()
    assert waiting.result().availability == pb.AVAILABILITY_END
    service.ticks()
    service.close("other")
    assert service.ends()["phase"] == "Succeeded"


def test_a_program_that_died_without_a_word_holds_a_service_up_for_a_while_only(service: Service) -> None:
    service.create()
    service.open("dead")
    service.open()
    service.do_all()
    service.close()
    service.ticks()
    service.clock.advance(29)
    service.ticks()
    service.clock.advance(2)
    assert service.ends()["phase"] == "Succeeded"


def test_a_service_with_a_parked_shard_fails_by_its_name_when_the_rest_is_done(service: Service) -> None:
    service.create(max_failures=1)
    service.open()
    first, second = (shard.lease for shard in service.exchange(want=9).shards)
    service.exchange(done=[second], failed=[pb.LeaseFailure(lease=first, message="a bad record")])
    service.ticks()
    service.close()
    ended = service.ends()
    assert (ended["phase"], ended["exit_code"]) == ("Failed", 1)
    assert "dataset d, epoch 0, records [0, 2): failed 1 time, last: a bad record" in ended["reason"]


def test_a_service_whose_stream_is_open_goes_on(service: Service) -> None:
    service.create(stream=True, size=None)
    service.open()
    shards = service.master.client.stubs.shards
    service.master.client.call(shards.GrowStream, pb.GrowRequest(dataset="d", records=4))
    service.do_all()
    service.close()
    service.ticks()
    service.master.client.call(shards.GrowStream, pb.GrowRequest(dataset="d", close=True))
    assert service.ends()["phase"] == "Succeeded"


@pytest.mark.parametrize("flag", ["keep_serving", "need_rendezvous"])
def test_a_service_that_shall_keep_serving_or_forms_worlds_is_ended_by_a_person(tmp_path: Path, flag: str) -> None:
    service = Service(tmp_path, components={flag: True})
    with service.master:
        service.create()
        service.open()
        service.do_all()
        service.close()
        service.ticks()
        assert service.master.stop_job() is Phase.STOPPED


def test_a_service_that_was_killed_ends_after_its_return(service: Service) -> None:
    service.create()
    service.open()
    service.do_all()
    service.master.restart()
    service.ticks()
    service.close()
    assert service.ends()["phase"] == "Succeeded"
