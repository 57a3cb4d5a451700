"""``fault.progress_timeout``: who hangs is replaced, from the very first shard on; who only waits is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pliant.core.nodes.states import NodeState
from pliant.master.components.shards import DataShardManager
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until

DATA = [{"name": "train", "size": 2, "shard_size": 1}]
NEVER = 1e6  # seconds; only progress is what these tests are about
FAULT = {"progress_timeout": 60.0, "heartbeat_timeout": NEVER, "session_timeout": NEVER}


def job(workers: object = 1, **more: Any) -> dict[str, Any]:
    return {"roles": {"worker": {"command": ["true"], "replicas": workers}}, "fault": FAULT, **more}


def start(master: RunningMaster, *nodes: str) -> None:
    for node in nodes:
        wait_until(lambda node=node: node in master.platform.running(), what=f"the launch of {node}")  # type: ignore[misc]
        FakeAgent(master.client, node).starts()


def lease(master: RunningMaster, node: str, dataset: str = "train") -> None:
    """Its program is given one shard."""
    client, stubs = master.client, master.client.stubs.shards
    client.call(stubs.OpenSession, pb.OpenSessionRequest(session=node, node=node))
    reply = client.call(stubs.Exchange, pb.ExchangeRequest(session=node, request=1, dataset=dataset, want=1))
    assert len(reply.shards) == 1


def hung(master: RunningMaster) -> list[str]:
    return [node.name for node in master.status().nodes if node.state is NodeState.FAILED]


def join(master: RunningMaster, *members: str) -> None:
    for member in members:
        master.client.call(master.client.stubs.rendezvous.Join, pb.JoinRequest(member=member, incarnation="0"))


def test_a_worker_that_hangs_in_its_first_shard_is_replaced(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningMaster(tmp_path, job(datasets=DATA), clock=clock) as master:
        start(master, "worker-0")
        lease(master, "worker-0")
        clock.advance(61)
        wait_until(lambda: hung(master) == ["worker-0"], what="the end of worker-0")
        message = next(node.message for node in master.status().nodes if node.name == "worker-0")
        assert message == "its program has made no progress for 61 s (none reported to this master)"


def test_a_worker_that_hangs_before_it_asks_for_anything_is_replaced(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningMaster(tmp_path, job(), clock=clock) as master:
        start(master, "worker-0")
        clock.advance(61)
        wait_until(lambda: hung(master) == ["worker-0"], what="the end of worker-0")


def test_a_restarted_master_counts_from_its_own_start_and_needs_no_report_before(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningMaster(tmp_path, job(datasets=DATA), clock=clock) as master:
        start(master, "worker-0")
        lease(master, "worker-0")
        client = master.client
        client.call(client.stubs.stats.ReportStep, pb.ReportStepRequest(node="worker-0", step=1))
        clock.advance(50)
        master.restart()
        FakeAgent(master.client, "worker-0").registers()
        clock.advance(50)
        assert hung(master) == [], "the time before the restart does not count"
        clock.advance(11)
        wait_until(lambda: hung(master) == ["worker-0"], what="the end of worker-0")


def test_who_waits_for_shards_that_others_hold_is_not_replaced(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningMaster(tmp_path, job("1:3", datasets=DATA), clock=clock) as master:
        start(master, "worker-0", "worker-1", "worker-2")
        for node in ("worker-0", "worker-1"):
            lease(master, node)
        client, stubs = master.client, master.client.stubs.shards
        client.call(stubs.OpenSession, pb.OpenSessionRequest(session="worker-2", node="worker-2"))
        waiting = pb.WaitForShardsRequest(dataset="train", session="worker-2")
        call = client.start(stubs.WaitForShards, waiting, timeout=20)
        wait_until(lambda: master.run_inside(lambda parts: bool(parts.require(DataShardManager).idle_nodes())))
        clock.advance(61)
        wait_until(lambda: len(hung(master)) == 2, what="the end of those that hang")
        assert sorted(hung(master)) == ["worker-0", "worker-1"]
        call.cancel()


def test_who_waits_for_a_world_is_not_replaced(tmp_path: Path) -> None:
    clock = ManualClock()
    spec = job("1:3", strategy="allreduce", rendezvous={"min": 3, "max": 3}, components={"need_task_manager": False})
    with RunningMaster(tmp_path, spec, clock=clock) as master:
        start(master, "worker-0", "worker-1", "worker-2")
        join(master, "worker-0", "worker-1")
        clock.advance(61)
        wait_until(lambda: hung(master) == ["worker-2"], what="the end of the one that does not come")


def test_of_a_world_that_stands_still_one_worker_at_a_time_is_replaced(tmp_path: Path) -> None:
    """Who of them hangs is not known for certain; together they have the model, and must not be lost together."""
    clock = ManualClock()
    spec = job("1:3", strategy="allreduce", rendezvous={"min": 1, "max": 3}, components={"need_task_manager": False})
    with RunningMaster(tmp_path, spec, clock=clock) as master:
        start(master, "worker-0", "worker-1", "worker-2")
        join(master, "worker-0", "worker-1", "worker-2")
        wait_until(lambda: master.status().world is not None, what="a world")
        client = master.client
        for node in ("worker-2", "worker-0", "worker-1"):  # worker-2 is the first that is not heard of again
            clock.advance(1)
            client.call(client.stubs.stats.ReportStep, pb.ReportStepRequest(node=node, step=1))
        clock.advance(70)
        wait_until(lambda: hung(master) == ["worker-2"], what="the end of worker-2")
        join(master, "worker-0", "worker-1")  # they find their world broken, and go on without it
        clock.advance(30)
        assert hung(master) == ["worker-2"]


def test_workers_are_not_replaced_while_a_parameter_server_is_missing(tmp_path: Path) -> None:
    clock = ManualClock()
    roles = {"ps": {"command": ["true"]}, "worker": {"command": ["true"], "replicas": "1:3"}}
    spec = {"roles": roles, "strategy": "ps-async", "fault": FAULT, "datasets": DATA}
    with RunningMaster(tmp_path, spec, clock=clock) as master:
        client = master.client
        client.call(client.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=2))
        start(master, "worker-0", "worker-1", "ps-0")
        clock.advance(61)
        client.call(client.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=3))
        start(master, "worker-3")  # whose launch follows the look at the others
        assert hung(master) == []
        seat = client.call(client.stubs.parameters.JoinSeat, pb.JoinSeatRequest(node="ps-0")).holder
        ready = pb.SeatReadyRequest(holder=seat, address="127.0.0.1:1")
        client.call(client.stubs.parameters.SeatReady, ready)
        for _ in range(7):
            clock.advance(10)
            client.call(client.stubs.parameters.SeatAlive, seat)
        wait_until(lambda: len(hung(master)) == 3, what="the end of workers that make no progress although they could")


def test_who_helps_no_more_after_training_waits_for_the_export_of_another(tmp_path: Path) -> None:
    clock = ManualClock()
    spec = job("1:2", strategy="allreduce", components={"need_training_service": True}, datasets=DATA)
    with RunningMaster(tmp_path, spec, clock=clock) as master:
        start(master, "worker-0", "worker-1")
        client, stubs = master.client, master.client.stubs.shards
        client.call(stubs.CommitPlan, pb.CommitPlanRequest(dataset="train", shards=2, node="worker-0", end=True))
        client.call(stubs.OpenSession, pb.OpenSessionRequest(session="worker-1", node="worker-1"))
        lease(master, "worker-0", "train-end")
        clock.advance(61)
        wait_until(lambda: hung(master) == ["worker-0"], what="the end of the one that exports and hangs")
