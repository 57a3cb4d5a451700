"""Every rule by which a job ends, through the master's own door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.core.job import Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until

NEVER_AGAIN = {kind: {"limit": 0} for kind in ("error", "killed", "oom", "unknown", "hang")}


class MasterUnderTest:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.master: RunningMaster | None = None

    def start(self, *, workers: object = 2, **spec: Any) -> RunningMaster:
        roles = {"worker": {"command": ["true"], "replicas": workers}, **spec.pop("roles", {})}
        self.master = RunningMaster(self.folder, {"roles": roles, **spec}, clock=ManualClock()).start()
        return self.master

    def agent(self, node: str) -> FakeAgent:
        assert self.master is not None
        platform = self.master.platform
        wait_until(lambda: node in platform.running(), what=f"the launch of {node}")
        return FakeAgent(self.master.client, node).starts()

    def leave(self, agent: FakeAgent, reason: ExitReason = ExitReason.COMPLETED, message: str = "") -> None:
        """The program ends, the agent says so and goes."""
        assert self.master is not None
        agent.program_exits(reason, message)
        self.master.platform.end_node(agent.node, reason, message)

    def do_all_shards(self) -> None:
        assert self.master is not None
        client, stubs = self.master.client, self.master.client.stubs.shards
        client.call(stubs.OpenSession, pb.OpenSessionRequest(session="s", node="guest"))
        done: list[int] = []
        for number in range(1, 100):
            request = pb.ExchangeRequest(session="s", request=number, dataset="train", want=5, done=done)
            reply = client.call(stubs.Exchange, request)
            done = [shard.lease for shard in reply.shards]
            if reply.availability == pb.AVAILABILITY_END:
                return


@pytest.fixture
def running(tmp_path: Path) -> Iterator[MasterUnderTest]:
    running = MasterUnderTest(tmp_path)
    yield running
    if running.master is not None:
        running.master.close()


DATA = [{"name": "train", "size": 20, "shard_size": 5}]


def reason_of(master: RunningMaster) -> str:
    summary = master.job_dir.summary()
    assert summary is not None
    return str(summary["reason"])


def test_a_job_is_done_when_its_workers_and_its_shards_are(running: MasterUnderTest) -> None:
    master = running.start(datasets=DATA)
    agents = [running.agent("worker-0"), running.agent("worker-1")]
    running.do_all_shards()
    for agent in agents:
        running.leave(agent)
    assert master.join() is Phase.SUCCEEDED
    assert reason_of(master) == "all workers finished, all shards done"
    summary = master.job_dir.summary()
    assert summary is not None
    assert (summary["exit_code"], summary["records_done"]) == (0, 20)


@pytest.mark.parametrize("reason", [ExitReason.KILLED, ExitReason.ERROR, ExitReason.PREEMPTED])
def test_without_fault_tolerance_of_tasks_a_worker_that_dies_with_shards_fails_the_job_by_its_records(
    running: MasterUnderTest, reason: ExitReason
) -> None:
    master = running.start(datasets=DATA, components={"task_fault_tolerance": False})
    agents = [running.agent("worker-0"), running.agent("worker-1")]
    stubs = master.client.stubs.shards
    master.client.call(stubs.OpenSession, pb.OpenSessionRequest(session="s", node="worker-0"))
    request = pb.ExchangeRequest(session="s", request=1, dataset="train", want=2)
    assert len(master.client.call(stubs.Exchange, request).shards) == 2
    running.leave(agents[0], reason, "it is gone")
    assert master.join() is Phase.FAILED
    assert reason_of(master) == (
        "records were lost with their worker (task_fault_tolerance is off): "
        "dataset train, epoch 0, records [0, 10): they were leased to worker-0 when it ended (it is gone)"
    )


def test_without_fault_tolerance_of_tasks_a_worker_that_dies_without_shards_costs_nothing(
    running: MasterUnderTest,
) -> None:
    master = running.start(datasets=DATA, components={"task_fault_tolerance": False})
    agents = [running.agent("worker-0"), running.agent("worker-1")]
    agents[0].program_exits(ExitReason.KILLED, "it is gone")
    running.do_all_shards()
    for agent in agents:
        running.leave(agent)
    assert master.join() is Phase.SUCCEEDED


EVALUATION = {"name": "test", "size": 6, "shard_size": 2, "type": "eval"}


@pytest.mark.parametrize("strategy", ["none", "local", "allreduce", "ps-sync", "ps-async"])
def test_an_evaluation_dataset_of_the_description_is_handed_out_with_every_strategy(
    running: MasterUnderTest, strategy: str
) -> None:
    servers = {"ps": {"command": ["true"]}} if strategy.startswith("ps") else {}
    master = running.start(workers=1, strategy=strategy, datasets=[*DATA, EVALUATION], roles=servers)
    client, stubs = master.client, master.client.stubs.shards
    assert client.call(stubs.GetDataset, pb.DatasetName(name="test")).type == pb.SHARD_TYPE_EVAL
    client.call(stubs.OpenSession, pb.OpenSessionRequest(session="e", node="guest"))
    request = pb.ExchangeRequest(session="e", request=1, dataset="test", want=9)
    assert [shard.start for shard in client.call(stubs.Exchange, request).shards] == [0, 2, 4]


def test_a_job_is_done_without_evaluation_data_that_only_rounds_are_made_from(running: MasterUnderTest) -> None:
    rounds = {"checkpoint": {"every_steps": 10}}
    master = running.start(workers=1, strategy="local", datasets=[*DATA, EVALUATION], **rounds)
    agent = running.agent("worker-0")
    running.do_all_shards()
    request = pb.ReportVersionRequest(version=10)
    master.client.call(master.client.stubs.training.ReportVersion, request)
    running.leave(agent)
    assert master.join() is Phase.SUCCEEDED


def test_a_job_is_not_done_without_evaluation_data_that_nobody_asked_for(running: MasterUnderTest) -> None:
    master = running.start(workers=1, strategy="local", datasets=[*DATA, EVALUATION])
    agent = running.agent("worker-0")
    running.do_all_shards()
    running.leave(agent)
    assert master.join() is Phase.FAILED
    assert reason_of(master) == "all workers finished, but dataset test is incomplete: 0 of 6 records"


def test_a_job_never_succeeds_with_shards_undone(running: MasterUnderTest) -> None:
    master = running.start(workers=1, datasets=DATA)
    running.leave(running.agent("worker-0"))
    assert master.join() is Phase.FAILED
    assert reason_of(master) == "all workers finished, but dataset train is incomplete: 0 of 20 records"


def test_shards_that_are_done_do_not_end_a_job_whose_workers_run(running: MasterUnderTest) -> None:
    master = running.start(workers=1, datasets=DATA)
    agent = running.agent("worker-0")
    running.do_all_shards()
    assert not agent.beats().stop
    assert master.run_inside(lambda parts: parts.state.job.phase) is Phase.RUNNING
    running.leave(agent)
    assert master.join() is Phase.SUCCEEDED


def test_without_shards_the_workers_alone_decide(running: MasterUnderTest) -> None:
    master = running.start(components={"need_task_manager": False})
    for node in ("worker-0", "worker-1"):
        running.leave(running.agent(node))
    assert master.join() is Phase.SUCCEEDED
    assert reason_of(master) == "all workers finished"


def test_a_parked_shard_fails_the_job_by_name(running: MasterUnderTest) -> None:
    master = running.start(workers=1, datasets=[{**DATA[0], "max_failures": 1}])
    agent = running.agent("worker-0")
    client, stubs = master.client, master.client.stubs.shards
    client.call(stubs.OpenSession, pb.OpenSessionRequest(session="p", node="guest"))
    client.call(stubs.Exchange, pb.ExchangeRequest(session="p", request=1, dataset="train", want=1))
    failed = [pb.LeaseFailure(lease=1, message="a bad record")]
    client.call(stubs.Exchange, pb.ExchangeRequest(session="p", request=2, dataset="train", failed=failed))
    running.do_all_shards()
    running.leave(agent)
    assert master.join() is Phase.FAILED
    assert "dataset train, epoch 0, records [0, 5): failed 1 time, last: a bad record" in reason_of(master)


def test_a_parked_shard_that_may_be_skipped_does_not_fail_the_job(running: MasterUnderTest) -> None:
    master = running.start(workers=1, datasets=[{**DATA[0], "max_failures": 1, "skip_parked": True}])
    agent = running.agent("worker-0")
    client, stubs = master.client, master.client.stubs.shards
    client.call(stubs.OpenSession, pb.OpenSessionRequest(session="p", node="guest"))
    client.call(stubs.Exchange, pb.ExchangeRequest(session="p", request=1, dataset="train", want=1))
    failed = [pb.LeaseFailure(lease=1, message="a bad record")]
    client.call(stubs.Exchange, pb.ExchangeRequest(session="p", request=2, dataset="train", failed=failed))
    running.do_all_shards()
    running.leave(agent)
    assert master.join() is Phase.SUCCEEDED


def test_a_node_that_is_given_up_fails_the_job_if_too_few_are_left(running: MasterUnderTest) -> None:
    master = running.start(workers=2, fault=NEVER_AGAIN)
    failing, other = running.agent("worker-0"), running.agent("worker-1")
    failing.program_exits(ExitReason.ERROR, "exit code 1: ValueError: bad", "Traceback ... ValueError: bad")
    master.platform.end_node("worker-0", ExitReason.ERROR)
    wait_until(lambda: other.beats().stop, what="the order to stop")
    assert master.join() is Phase.FAILED
    assert "gave up on worker-0: failed 1 time (limit 0); 1 worker left, minimum 2" in reason_of(master)
    summary = master.job_dir.summary()
    assert summary is not None
    first = summary["first_failure"]
    assert (first["node"], first["kind"], first["traceback"]) == (
        "worker-0",
        "Error",
        "Traceback ... ValueError: bad",
    )


def test_a_job_goes_on_with_one_worker_less_if_enough_are_left(running: MasterUnderTest) -> None:
    master = running.start(workers="1:2", fault=NEVER_AGAIN, components={"need_task_manager": False})
    failing, other = running.agent("worker-0"), running.agent("worker-1")
    running.leave(failing, ExitReason.ERROR, "bad")
    assert not other.beats().stop
    running.leave(other)
    assert master.join() is Phase.SUCCEEDED


def test_a_job_of_which_no_worker_finished_has_failed(running: MasterUnderTest) -> None:
    master = running.start(workers="0:1", fault=NEVER_AGAIN)
    running.leave(running.agent("worker-0"), ExitReason.ERROR, "bad")
    assert master.join() is Phase.FAILED
    assert reason_of(master) == (
        "no workers left: gave up on worker-0: failed 1 time (limit 0); continuing with 0 workers"
    )


def scale(master: RunningMaster, workers: int) -> None:
    master.client.call(master.client.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=workers, reason="a test"))


def waiting_for(master: RunningMaster) -> tuple[str, str]:
    """The phase, and why the job waits."""
    status = master.status()
    return status.phase, ", ".join(condition.reason for condition in status.conditions)


def test_a_job_whose_workers_are_scaled_to_zero_waits_and_goes_on_when_scaled_up(running: MasterUnderTest) -> None:
    master = running.start(workers="0:2", datasets=DATA)
    running.agent("worker-0")
    running.agent("worker-1")
    scale(master, 0)
    wait_until(lambda: master.platform.running() == [], what="the end of all workers")
    wait_until(lambda: waiting_for(master) == ("Running", "ScaledToZero"), what="the job to wait")
    master.restart()
    (condition,) = master.status().conditions
    assert (condition.type, condition.status) == ("WaitingForNodes", "True")
    assert master.status().message == condition.message
    assert "worker scaled to 0; scale up to continue" in condition.message
    scale(master, 1)
    agent = running.agent("worker-2")
    assert waiting_for(master) == ("Running", "")
    running.do_all_shards()
    running.leave(agent)
    assert master.join() is Phase.SUCCEEDED


def test_a_job_that_is_described_without_workers_waits_for_the_first(running: MasterUnderTest) -> None:
    master = running.start(workers={"min": 0, "max": 2, "wanted": 0}, components={"need_task_manager": False})
    assert waiting_for(master) == ("Running", "ScaledToZero")
    scale(master, 1)
    running.leave(running.agent("worker-0"))
    assert master.join() is Phase.SUCCEEDED


def test_records_that_are_left_keep_a_job_that_was_scaled_to_zero_after_a_worker_finished(
    running: MasterUnderTest,
) -> None:
    master = running.start(workers="0:2", datasets=DATA)
    other = running.agent("worker-1")
    running.leave(running.agent("worker-0"))
    scale(master, 0)
    wait_until(lambda: other.node not in master.platform.running(), what="the end of all workers")
    wait_until(lambda: waiting_for(master) == ("Running", "ScaledToZero"), what="the job to wait")
    scale(master, 2)
    last = running.agent("worker-2")
    running.do_all_shards()
    running.leave(last)
    assert master.join() is Phase.SUCCEEDED


def test_workers_that_are_lost_after_a_job_was_scaled_up_again_fail_it(running: MasterUnderTest) -> None:
    master = running.start(workers="0:1", fault=NEVER_AGAIN)
    running.agent("worker-0")
    scale(master, 0)
    wait_until(lambda: waiting_for(master) == ("Running", "ScaledToZero"), what="the job to wait")
    scale(master, 1)
    running.leave(running.agent("worker-1"), ExitReason.ERROR, "bad")
    assert master.join() is Phase.FAILED
    assert reason_of(master).startswith("no workers left: gave up on worker-1")


def test_the_final_failure_of_a_critical_node_fails_the_job(running: MasterUnderTest) -> None:
    chief = {"chief": {"command": ["true"]}}
    master = running.start(workers="1:2", fault=NEVER_AGAIN, roles=chief)
    running.leave(running.agent("chief-0"), ExitReason.ERROR, "bad")
    assert master.join() is Phase.FAILED
    assert "the role is critical" in reason_of(master)


def test_parameter_servers_do_not_keep_a_job_whose_workers_are_done(running: MasterUnderTest) -> None:
    servers = {"ps": {"command": ["true"], "replicas": 2}}
    master = running.start(workers=1, roles=servers, components={"need_task_manager": False})
    running.agent("ps-0")
    running.agent("ps-1")
    running.leave(running.agent("worker-0"))
    assert master.join() is Phase.SUCCEEDED
    assert master.platform.running() == []


def test_a_preempted_worker_is_replaced_and_no_failure_of_the_job(running: MasterUnderTest) -> None:
    master = running.start(workers=1, components={"need_task_manager": False})
    running.agent("worker-0")
    master.platform.preempt_node("worker-0")
    wait_until(lambda: master.run_inside(lambda parts: len(parts.state.nodes.nodes()) if parts.state.nodes else 0) == 2)
    status = master.status()
    assert [(node.name, node.state, node.replaces) for node in status.nodes] == [
        ("worker-0", "Failed", ""),
        ("worker-1", "Pending", "worker-0"),
    ]
    assert status.first_failure is None


def test_the_master_stays_until_the_last_node_is_gone(running: MasterUnderTest) -> None:
    master = running.start(workers=2)
    agents = [running.agent("worker-0"), running.agent("worker-1")]
    master.platform.make_stubborn("worker-1")
    master.client.call(master.client.stubs.job.Stop, pb.StopRequest(reason="enough"))
    assert all(agent.beats().stop for agent in agents if agent.node in master.platform.running())
    assert master.client.call(master.client.stubs.job.WaitForEnd, pb.Empty()).phase == pb.PHASE_STOPPED
    assert master.alive
    assert master.job_dir.summary() is None
    master.client.call(master.client.stubs.job.Stop, pb.StopRequest(reason="now", at_once=True))
    assert master.join() is Phase.STOPPED
    assert reason_of(master) == "enough", "what ended it stays"


def test_a_master_that_died_while_its_job_was_ending_ends_it_after_its_return(running: MasterUnderTest) -> None:
    master = running.start(workers=2)
    running.agent("worker-0")
    wait_until(lambda: len(master.platform.running()) == 2)
    master.platform.make_stubborn("worker-0")
    master.client.call(master.client.stubs.job.Stop, pb.StopRequest(reason="enough"))
    master.kill()
    master.platform.nodes["worker-0"].stubborn = False
    master.start()
    assert master.join() is Phase.STOPPED
    assert master.platform.running() == []
