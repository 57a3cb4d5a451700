from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest
from pliant.core.events import EventKind
from pliant.core.job import Phase
from pliant.core.nodes.capacity import Machine
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.status import NodeStatus
from pliant.platforms.base import NodeEvent
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.events import event_from
from pliant.testing import FakeAgent, FakePlatform, ManualClock, RunningMaster, wait_until


def job(**changes: Any) -> dict[str, Any]:
    worker = {"command": ["train", "--fast"], "replicas": "1:3", "env": {"MODE": "x"}, **changes.pop("worker", {})}
    return {"roles": {"worker": worker}, "components": {"need_task_manager": False}, **changes}


def nodes(master: RunningMaster) -> dict[str, NodeStatus]:
    status = master.status()
    return {node.name: node for node in status.nodes}


def states(master: RunningMaster) -> dict[str, str]:
    return {name: node.state for name, node in nodes(master).items()}


def events(master: RunningMaster, kind: EventKind) -> list[dict[str, Any]]:
    reply = master.client.call(master.client.stubs.job.GetEvents, pb.EventsRequest())
    return [event_from(event).facts for event in reply.events if event.kind == kind]


def launched(master: RunningMaster, *names: str) -> None:
    wait_until(lambda: set(names) <= set(master.platform.running()), what=f"the launch of {names}")


def passes(master: RunningMaster, clock: ManualClock, seconds: float) -> None:
    """Let time pass, and the master look at it."""
    clock.advance(seconds)
    ticks = master.run_inside(lambda parts: parts.woken.set())
    assert ticks is None


def test_a_node_is_launched_with_what_its_role_says(tmp_path: Path) -> None:
    spec = job(worker={"resources": {"cpu": 2, "memory": 512}}, working_dir="/somewhere")
    with RunningMaster(tmp_path, spec) as master:
        launched(master, "worker-0", "worker-1", "worker-2")
        launch = master.platform.nodes["worker-0"].launch
        assert (launch.role, launch.command, launch.working_dir) == ("worker", ("train", "--fast"), "/somewhere")
        assert (launch.resources.cpu, launch.resources.memory_mb) == (2, 512)
        assert launch.env["MODE"] == "x"
        assert launch.environment.to_env()["PLIANT_STRATEGY"] == "none"


def test_a_node_without_room_waits_and_is_launched_when_there_is_some(tmp_path: Path) -> None:
    clock, platform = ManualClock(), FakePlatform(room=2)
    with RunningMaster(tmp_path, job(), clock=clock, platform=platform) as master:
        launched(master, "worker-0", "worker-1")
        wait_until(lambda: events(master, EventKind.REFUSED))
        assert states(master)["worker-2"] == "Pending"
        platform.room = 3
        passes(master, clock, 60)
        launched(master, "worker-2")
        assert events(master, EventKind.REFUSED)[0]["reason"] == "room for only 2 nodes"


def test_a_launch_that_goes_wrong_is_tried_again_as_another_node(tmp_path: Path) -> None:
    clock, platform = ManualClock(), FakePlatform()
    platform.refuse_next("the image is broken", unschedulable=False)
    with RunningMaster(tmp_path, job(worker={"replicas": 1}), clock=clock, platform=platform) as master:
        wait_until(lambda: "worker-1" in states(master), what="a replacement")
        passes(master, clock, 60)
        launched(master, "worker-1")
        failed = nodes(master)["worker-0"]
        assert (failed.state, failed.message) == ("Failed", "the image is broken")


def test_scaling_up_launches_and_scaling_down_removes_the_youngest(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, job()) as master:
        launched(master, "worker-0", "worker-1", "worker-2")
        scale = master.client.stubs.job.Scale
        reply = master.client.call(scale, pb.ScaleRequest(role="worker", replicas=1, reason="night"))
        assert (reply.before, reply.now) == (3, 1)
        wait_until(lambda: master.platform.running() == ["worker-0"], what="the removal of two")
        wait_until(lambda: states(master)["worker-2"] == "Deleted")
        master.client.call(scale, pb.ScaleRequest(role="worker", replicas=2, reason="morning"))
        launched(master, "worker-0", "worker-3")
        scaled = [(event["before"], event["replicas"], event["reason"]) for event in events(master, EventKind.SCALE)]
        assert scaled == [(3, 1, "night"), (1, 2, "morning")]
        with pytest.raises(InvalidRequest, match="9 replicas requested; allowed: 1 to 3"):
            master.client.call(scale, pb.ScaleRequest(role="worker", replicas=9))


def test_a_program_is_restarted_in_place_with_a_growing_pause(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, job(worker={"replicas": 1})) as master:
        launched(master, "worker-0")
        agent = FakeAgent(master.client, "worker-0").starts()
        answers = [agent.program_exits(ExitReason.ERROR, "bad") for _ in range(4)]
        assert [answer.restart for answer in answers] == [True, True, True, False]
        assert [answer.incarnation for answer in answers[:3]] == [1, 2, 3]
        assert [answer.delay for answer in answers[:3]] == [0.5, 1.0, 2.0]
        assert nodes(master)["worker-0"].restarts == 3


def test_an_exit_reason_that_this_release_does_not_know_counts_as_unknown(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, job()) as master:
        launched(master, "worker-0")
        agent = FakeAgent(master.client, "worker-0").starts()
        request = pb.ProgramExitedRequest(node=agent.node, incarnation=agent.incarnation, exit_reason=99)  # type: ignore[arg-type]
        master.client.call(master.client.stubs.nodes.ProgramExited, request)
        (exit_,) = events(master, EventKind.EXIT)
        assert exit_["exit_reason"] == ExitReason.UNKNOWN


def test_out_of_memory_asks_for_more_in_the_next_node(tmp_path: Path) -> None:
    clock = ManualClock()
    spec = job(worker={"replicas": 1, "resources": {"memory": 1000}})
    with RunningMaster(tmp_path, spec, clock=clock) as master:
        launched(master, "worker-0")
        FakeAgent(master.client, "worker-0").starts()
        master.platform.exhaust_memory_of("worker-0")
        wait_until(lambda: "worker-1" in states(master))
        passes(master, clock, 60)
        launched(master, "worker-1")
        assert master.platform.nodes["worker-1"].launch.resources.memory_mb == 1500


def test_an_agent_that_falls_silent_is_given_up_removed_at_once_and_replaced(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningMaster(tmp_path, job(worker={"replicas": 1}), clock=clock) as master:
        launched(master, "worker-0")
        silent = FakeAgent(master.client, "worker-0").starts()
        passes(master, clock, 20)
        wait_until(lambda: master.platform.running() == [], what="the removal of the silent node")
        assert master.platform.removed[0].grace == 0
        assert nodes(master)["worker-0"].exit_reason == "Hang"
        assert [event["reason"] for event in events(master, EventKind.HANG)] == ["no heartbeat from its agent for 20 s"]
        assert silent.beats().stop
        assert not silent.registers().welcome
        passes(master, clock, 60)
        launched(master, "worker-1")


def test_a_heartbeat_carries_the_order_to_stop_with_its_reason(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, job()) as master:
        launched(master, "worker-0", "worker-1", "worker-2")
        agent = FakeAgent(master.client, "worker-2").starts()
        assert not agent.beats(cpu=1.5, memory_mb=300).stop
        assert (nodes(master)["worker-2"].cpu, nodes(master)["worker-2"].memory_mb) == (1.5, 300)
        master.platform.make_stubborn("worker-2")
        master.client.call(master.client.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=2, reason="one less"))
        order = agent.beats()
        assert (order.stop, order.grace, order.reason) == (True, 10.0, "scaled down from 3 to 2: one less")
        agent.program_exits(ExitReason.COMPLETED)
        assert nodes(master)["worker-2"].state == "Deleted", "it went because we wanted it to"


def test_events_of_nodes_that_nobody_knows_and_late_ones_are_ignored(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, job(worker={"replicas": 1})) as master:
        launched(master, "worker-0")
        FakeAgent(master.client, "worker-0").starts()
        before = master.state()
        master.platform._tell(NodeEvent("stranger-7", False, ExitReason.KILLED))
        master.platform._tell(NodeEvent("worker-77", False, ExitReason.KILLED))
        master.platform._tell(NodeEvent("worker-0", True))
        master.platform.preempt_node("worker-0")
        wait_until(lambda: "worker-1" in states(master))
        after = master.state()
        for _ in range(3):
            master.platform._tell(NodeEvent("worker-0", False, ExitReason.KILLED, "again"))
        launched(master, "worker-1")
        assert after["nodes"]["roles"]["worker"]["next_number"] == 2
        assert before["nodes"]["roles"]["worker"]["next_number"] == 1
        assert list(states(master)) == ["worker-0", "worker-1"]


def test_a_stubborn_node_is_forced_when_its_grace_is_over(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, job(worker={"replicas": 1})) as master:
        launched(master, "worker-0")
        FakeAgent(master.client, "worker-0").starts()
        master.platform.make_stubborn("worker-0")
        master.client.call(master.client.stubs.job.Stop, pb.StopRequest(reason="enough"))
        wait_until(lambda: master.platform.nodes["worker-0"].asked_to_end)
        assert master.platform.running() == ["worker-0"]
        master.client.call(master.client.stubs.job.Stop, pb.StopRequest(reason="now", at_once=True))
        wait_until(lambda: master.platform.running() == [])
        master.join()


def test_a_node_that_the_platform_keeps_waiting_is_told_and_later_asks_for_less(tmp_path: Path) -> None:
    clock, platform = ManualClock(), FakePlatform()
    worker = {"replicas": 1, "resources": {"cpu": 4, "memory": 1000}, "min_resources": {"cpu": 2}}
    spec = job(worker=worker, fault={"start_timeout": 60, "unschedulable": {"shrink_after": 100}})
    with RunningMaster(tmp_path, spec, clock=clock, platform=platform) as master:
        launched(master, "worker-0")
        wait_until(lambda: states(master)["worker-0"] == "Creating")
        platform.leave_no_room_for("worker-0", "0/2 nodes are available")
        wait_until(lambda: events(master, EventKind.UNSCHEDULABLE))
        assert [e["reason"] for e in events(master, EventKind.UNSCHEDULABLE)] == ["0/2 nodes are available"]
        passes(master, clock, 101.0)
        launched(master, "worker-1")
        assert platform.nodes["worker-1"].launch.resources.cpu == 3
        assert not events(master, EventKind.HANG), "nobody can register while there is no room"
        platform.leave_no_room_for("worker-1", "still none")
        wait_until(lambda: len(events(master, EventKind.UNSCHEDULABLE)) == 2)
        platform.leave_no_room_for("worker-1", "")
        wait_until(lambda: [e["node"] for e in events(master, EventKind.SCHEDULED)] == ["worker-1"])


def test_a_role_may_forgive_less_than_the_job(tmp_path: Path) -> None:
    platform = FakePlatform()
    with RunningMaster(
        tmp_path, job(worker={"replicas": "1:2", "restarts": {"preempted": 0}}), platform=platform
    ) as master:
        launched(master, "worker-0", "worker-1")
        platform.preempt_node("worker-0")
        wait_until(lambda: states(master)["worker-0"] == "Failed")
        status = master.status()
        assert [role.wanted for role in status.roles] == [1]


LARGEST = Machine(4.0, 8000, 0)


def test_a_request_that_can_never_be_met_is_said_at_once_and_given_up_at_the_limit(tmp_path: Path) -> None:
    clock, platform = ManualClock(), FakePlatform(largest=LARGEST)
    spec = job(
        worker={"replicas": 1, "resources": {"memory": "1000Gi"}}, fault={"unschedulable": {"give_up_after": 30}}
    )
    with RunningMaster(tmp_path, spec, clock=clock, platform=platform) as master:
        wait_until(lambda: master.status().conditions, what="the condition")
        (condition,) = master.status().conditions
        problem = "1024000 MB of memory requested, the largest machine has 8000"
        assert (condition.type, condition.status, condition.reason) == ("WaitingForNodes", "True", "RequestTooLarge")
        assert condition.message == (
            f"worker-0 cannot be scheduled: {problem}; giving up after 30 s (fault.unschedulable.give_up_after)"
        )
        assert master.status().message == condition.message
        assert events(master, EventKind.TOO_LARGE) == [{"node": "worker-0", "reason": problem}]
        clock.advance(31)
        assert master.join() is Phase.FAILED
    summary = master.job_dir.summary()
    assert summary is not None
    assert summary["exit_code"] == 1
    assert f"gave up on worker-0: {problem}; waited 30 s" in summary["reason"]


def test_a_larger_machine_that_comes_in_time_runs_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pliant.master.components.nodes.CAPACITY_INTERVAL_S", 0.05)
    clock, platform = ManualClock(), FakePlatform(largest=LARGEST)
    spec = job(worker={"replicas": 1, "resources": {"cpu": 8}})
    with RunningMaster(tmp_path, spec, clock=clock, platform=platform) as master:
        wait_until(lambda: events(master, EventKind.TOO_LARGE), what="the event")
        platform.largest = Machine(16.0, 8000, 0)
        wait_until(lambda: not events_of_waiting(master), what="the end of the condition")
        passes(master, clock, 60)
        launched(master, "worker-0")


def events_of_waiting(master: RunningMaster) -> list[str]:
    return [condition.reason for condition in master.status().conditions if condition.reason == "RequestTooLarge"]


def test_memory_grows_to_the_largest_machine_and_the_job_fails_there_with_the_numbers(tmp_path: Path) -> None:
    clock, platform = ManualClock(), FakePlatform(largest=LARGEST)
    spec = job(worker={"replicas": 1, "resources": {"memory": "6Gi"}})
    with RunningMaster(tmp_path, spec, clock=clock, platform=platform) as master:
        for number, memory in enumerate((6144, 8000)):
            node = f"worker-{number}"
            launched(master, node)
            assert platform.nodes[node].launch.resources.memory_mb == memory
            agent = FakeAgent(master.client, node).starts()
            agent.beats(memory_mb=memory - 44)
            agent.program_exits(ExitReason.OOM, "killed for memory")
            platform.exhaust_memory_of(node)
            passes(master, clock, 60)
        assert master.join() is Phase.FAILED
    summary = master.job_dir.summary()
    assert summary is not None
    assert (
        "out of memory with 8000 MB, measured peak 7956 MB; cannot request more, "
        "8000 MB is the size of the largest machine" in summary["reason"]
    )
