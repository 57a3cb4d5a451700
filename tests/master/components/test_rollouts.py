"""A person gives a running job other resources: in place where the platform can, else node by node, whoever dies meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest, NotAvailable
from pliant.core.events import EventKind
from pliant.core.resources import Resources
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.events import event_from
from pliant.testing import FakeAgent, FakePlatform, ResizingPlatform, RunningMaster, wait_until

WORKERS = {
    "command": "train",
    "replicas": {"min": 1, "max": 3, "wanted": 2},
    "resources": {"cpu": 1, "memory": "100Mi"},
}


def job(tmp_path: Path, platform: FakePlatform) -> RunningMaster:
    return RunningMaster(tmp_path, {"roles": {"worker": WORKERS}}, platform=platform)


def begin(master: RunningMaster) -> None:
    wait_until(lambda: {"worker-0", "worker-1"} <= set(master.platform.launched), what="the workers")
    for node in ("worker-0", "worker-1"):
        FakeAgent(master.client, node).starts()


@pytest.fixture
def resizing(tmp_path: Path) -> Iterator[RunningMaster]:
    with job(tmp_path, ResizingPlatform()) as master:
        begin(master)
        yield master


@pytest.fixture
def replacing(tmp_path: Path) -> Iterator[RunningMaster]:
    with job(tmp_path, FakePlatform()) as master:
        begin(master)
        yield master


def scale(master: RunningMaster, **wanted: Any) -> pb.ScaleReply:
    reply: pb.ScaleReply = master.client.call(master.client.stubs.job.Scale, pb.ScaleRequest(reason="slow", **wanted))
    return reply


def facts(master: RunningMaster, kind: EventKind) -> list[dict[str, Any]]:
    reply = master.client.call(master.client.stubs.job.GetEvents, pb.EventsRequest())
    return [event_from(event).facts for event in reply.events if event.kind == kind]


def run_what_is_launched(master: RunningMaster, started: set[str]) -> None:
    for node in set(master.platform.running()) - started:
        started.add(node)
        FakeAgent(master.client, node).starts()


def rollout(master: RunningMaster) -> str:
    role = master.status().role("worker")
    assert role is not None
    return f"{role.rollout} {role.rollout_done}/{role.rollout_total}"


def test_running_nodes_are_resized_in_place_where_the_platform_can(resizing: RunningMaster) -> None:
    reply = scale(resizing, cpu=2.0)
    assert (reply.before, reply.now, reply.outdated, reply.in_place) == (2, 2, 2, True)
    wait_until(lambda: len(facts(resizing, EventKind.ROLLED_OUT)) == 1, what="the end of the rollout")
    given = {name: node.launch.resources for name, node in resizing.platform.nodes.items()}
    assert given == dict.fromkeys(("worker-0", "worker-1"), Resources(2.0, 100)), "memory stays as it was"
    assert {node.cpu_limit for node in resizing.status().nodes} == {2.0}
    [begun] = facts(resizing, EventKind.ROLLOUT)
    assert (begun["before"]["cpu"], begun["resources"]["cpu"], begun["nodes"], begun["reason"]) == (1.0, 2.0, 2, "slow")
    [change] = facts(resizing, EventKind.CHANGE)
    assert (change["source"], change["changes"]) == ("person", ["worker: 2 CPU, 100 MB for each node"])


def test_what_the_platform_cannot_resize_is_refused_with_its_numbers(resizing: RunningMaster) -> None:
    assert isinstance(resizing.platform, ResizingPlatform)
    resizing.platform.unresizable["worker-1"] = "50 MB asked for; its program holds 80 MB"
    with pytest.raises(
        InvalidRequest, match=r"worker-1 cannot .*50 MB asked for; its program holds 80 MB; use --rolling"
    ):
        scale(resizing, memory_mb=50)
    assert {node.memory_limit_mb for node in resizing.status().nodes} == {100}


def test_what_cannot_be_resized_any_more_is_tried_until_it_can(resizing: RunningMaster) -> None:
    platform = resizing.platform
    platform.checks_resize = False
    platform.unresizable["worker-1"] = "its program holds more"
    scale(resizing, cpu=2.0)
    wait_until(lambda: len(facts(resizing, EventKind.RESIZE_REFUSED)) == 1, what="the refusal")
    wait_until(lambda: rollout(resizing) == "in-place 1/2", what="the other one")
    resizing.restart()
    platform.unresizable.clear()
    wait_until(lambda: len(facts(resizing, EventKind.ROLLED_OUT)) == 1, what="the end of the rollout")


def test_in_place_is_refused_where_the_platform_cannot_with_what_to_do(replacing: RunningMaster) -> None:
    with pytest.raises(NotAvailable, match="cannot change the resources of a running node") as refusal:
        scale(replacing, cpu=2.0, rollout="in-place")
    assert "--rolling" in refusal.value.hint
    with pytest.raises(InvalidRequest, match="rollout 'sideways'"):
        scale(replacing, cpu=2.0, rollout="sideways")


def test_nodes_are_replaced_one_at_a_time_also_by_the_successor_of_a_killed_master(replacing: RunningMaster) -> None:
    platform, started = replacing.platform, {"worker-0", "worker-1"}
    reply = scale(replacing, memory_mb=200)
    assert (reply.outdated, reply.in_place) == (2, False)
    wait_until(lambda: platform.running() == ["worker-0", "worker-1", "worker-2"], what="the first successor")
    assert rollout(replacing) == "rolling 0/2"
    assert "worker: rolling 0/2 to 1 CPU, 200 MB" in replacing.status().message
    replacing.restart()
    run_what_is_launched(replacing, started)
    wait_until(lambda: platform.running() == ["worker-0", "worker-2", "worker-3"], what="the second successor")
    assert rollout(replacing) == "rolling 1/2"
    run_what_is_launched(replacing, started)
    wait_until(lambda: platform.running() == ["worker-2", "worker-3"], what="the last old one to leave")
    wait_until(lambda: len(facts(replacing, EventKind.ROLLED_OUT)) == 1, what="the end of the rollout")
    assert {platform.nodes[node].launch.resources for node in platform.running()} == {Resources(1.0, 200)}
    assert not any(node.restarts for node in replacing.status().nodes)


def test_a_second_change_and_another_number_in_the_middle_are_what_it_ends_with(replacing: RunningMaster) -> None:
    platform, started = replacing.platform, {"worker-0", "worker-1"}
    scale(replacing, memory_mb=200)
    wait_until(lambda: len(platform.running()) == 3, what="the first successor")
    run_what_is_launched(replacing, started)
    scale(replacing, memory_mb=300, replicas=1)

    def is_over() -> bool:
        run_what_is_launched(replacing, started)
        role = replacing.status().role("worker")
        return role is not None and not role.rollout and len(platform.running()) == 1

    wait_until(is_over, what="the end of both")
    [left] = platform.running()
    assert platform.nodes[left].launch.resources == Resources(1.0, 300)


def test_a_node_without_room_asks_for_what_the_person_gives_it(tmp_path: Path) -> None:
    with job(tmp_path, FakePlatform(room=1)) as master:
        wait_until(lambda: any("unschedulable" in master.status().message for _ in "1"), what="a node without room")
        [waiting] = [node.name for node in master.status().nodes if node.state == "Pending"]
        reply = scale(master, cpu=0.5, rollout="rolling")
        assert reply.outdated == 0, "none of them ran yet"
        nodes = {node.name: node for node in master.status().nodes}
        assert nodes[waiting].ended
        assert {node.cpu_limit for node in nodes.values() if not node.ended} == {0.5}
