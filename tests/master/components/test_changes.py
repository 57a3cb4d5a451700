"""Requests for changes reach a real master, by every way; what they ask of parameter servers takes nothing that others need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tests.master.components.test_parameters import SPEC, begin

from pliant.core.changes import Answer, Change, ChangeRequest, RemoveNode, RequestSource, Scale, plan_request
from pliant.core.errors import Conflict, InvalidRequest
from pliant.core.events import EventKind
from pliant.core.planning.plan import JobStage, Replacement, RolePlan
from pliant.core.resources import Resources
from pliant.core.status import JobStatus
from pliant.master.components.changes import ChangeHandler
from pliant.master.components.scaling import ManualGenerator, ManualPlan, PlanningConfig
from pliant.platforms.base import ControlChannel
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.events import event_from
from pliant.testing import FakePlatform, RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S


class QueueChannel(ControlChannel):
    """Sends what a test puts into it, and returns the answers."""

    def __init__(self) -> None:
        self.asked: Queue[ChangeRequest] = Queue()
        self.answers: Queue[str] = Queue()

    async def requests(self) -> AsyncIterator[ChangeRequest]:
        while True:
            if self.asked.empty():
                await asyncio.sleep(0.01)
            else:
                yield self.asked.get()

    async def answer(self, request: ChangeRequest, refusal: str) -> None:
        self.answers.put(refusal)

    async def report(self, status: JobStatus) -> None:
        return

    async def finish(self, status: JobStatus, summary: Mapping[str, Any]) -> None:
        return


class PlatformWithChannel(FakePlatform):
    def __init__(self) -> None:
        super().__init__()
        self.channel = QueueChannel()

    def control_channel(self) -> ControlChannel:
        return self.channel

    def ask(self, name: str, *changes: Change) -> str:
        """By a ScalePlan; returns the refusal."""
        return self.send(ChangeRequest(name, RequestSource.SCALE_PLAN, changes))

    def send(self, request: ChangeRequest) -> str:
        self.channel.asked.put(request)
        return self.channel.answers.get(timeout=MAX_WAIT_S)


@pytest.fixture
def platform() -> PlatformWithChannel:
    return PlatformWithChannel()


@pytest.fixture
def master(tmp_path: Path, platform: PlatformWithChannel) -> Iterator[RunningMaster]:
    servers = {"replicas": {"min": 1, "max": 3, "wanted": 2}, "command": "serve"}
    spec = {**SPEC, "roles": {"worker": {"command": "train"}, "ps": servers}}
    with RunningMaster(tmp_path, spec, platform=platform) as running:
        wait_until(lambda: {"ps-0", "ps-1"} <= set(platform.launched), what="the servers")
        begin(running)
        yield running


def seats(master: RunningMaster) -> dict[str, bool]:
    """By node, whether it is to go."""
    status = master.client.call(master.client.stubs.job.GetStatus, pb.Empty())
    return {seat.node: seat.leaving for seat in status.parameters.seats}


def test_a_server_that_a_request_takes_away_gives_its_parameters_to_the_others_before_its_node_goes(
    master: RunningMaster, platform: PlatformWithChannel
) -> None:
    assert platform.ask("less", Scale("ps", 1)) == ""
    assert seats(master) == {"ps-0": False, "ps-1": True}
    assert not platform.removed, "its node went with its parameters"
    assert platform.ask("more", Scale("ps", 3)) == ""
    wait_until(lambda: "ps-2" in platform.launched, what="the third")
    assert seats(master) == {"ps-0": False, "ps-1": False, "": False}


def test_a_request_that_would_lose_parameters_is_refused(master: RunningMaster, platform: PlatformWithChannel) -> None:
    assert "ps-1 holds parameters" in platform.ask("that one", RemoveNode("ps-1"))
    assert "allowed: 1 to 3" in platform.ask("none", Scale("ps", 0))
    desired = master.spec.desired()
    ps = replace(desired.roles["ps"], max_replicas=1, replicas=1)
    edited = replace(desired, roles={**desired.roles, "ps": ps})
    refusal = platform.send(ChangeRequest("edited", RequestSource.EDIT, desired=edited))
    assert "role ps has 2 nodes now" in refusal
    assert seats(master) == {"ps-0": False, "ps-1": False}
    assert not platform.removed


# --- every way of asking, on one role of workers

WORKERS = {"worker": {"command": "train", "replicas": {"min": 1, "max": 5, "wanted": 2}, "resources": {"cpu": 1}}}


@pytest.fixture
def job(tmp_path: Path, platform: PlatformWithChannel) -> Iterator[RunningMaster]:
    with RunningMaster(tmp_path, {"roles": WORKERS}, platform=platform) as running:
        wait_until(lambda: {"worker-0", "worker-1"} <= set(platform.launched), what="the workers")
        yield running


def handle(job: RunningMaster, request: ChangeRequest) -> Answer:
    return job.run_inside(lambda controller: controller.require(ChangeHandler).handle(request))


def plan_by_hand(manual: ManualPlan, base_version: int | None = None) -> ChangeRequest:
    plan = ManualGenerator().generate_plan(JobStage.RUNNING, PlanningConfig(base_version, manual=manual))
    assert plan is not None
    return plan_request(plan)


def events(job: RunningMaster, kind: EventKind) -> list[dict[str, Any]]:
    reply = job.client.call(job.client.stubs.job.GetEvents, pb.EventsRequest())
    return [event_from(event).facts for event in reply.events if event.kind == kind]


def test_every_field_of_a_plan_is_carried_out(job: RunningMaster, platform: PlatformWithChannel) -> None:
    large, huge = Resources(2.0, 512), Resources(4.0, 1024)
    manual = ManualPlan(
        {"worker": RolePlan(3, large)}, (Replacement("worker-0"), Replacement("worker-1", huge)), "it is slow", "plan-1"
    )
    assert not handle(job, plan_by_hand(manual)).refusal
    wait_until(lambda: {"worker-2", "worker-3", "worker-4"} <= set(platform.launched), what="what the plan asks for")
    asked = {name: node.launch.resources for name, node in platform.nodes.items()}
    assert [asked[name] for name in ("worker-2", "worker-3", "worker-4")] == [large, large, huge]
    wait_until(lambda: {removal.node for removal in platform.removed} == {"worker-0", "worker-1"}, what="the old ones")
    [event] = events(job, EventKind.CHANGE)
    assert (event["request"], event["source"], event["reason"]) == ("plan-1", "generator", "it is slow")


def test_a_plan_made_for_an_older_state_is_refused(job: RunningMaster, platform: PlatformWithChannel) -> None:
    assert platform.ask("more", Scale("worker", 3)) == ""
    before = job.state()
    late = handle(job, plan_by_hand(ManualPlan({"worker": RolePlan(1)}, id="late"), base_version=1))
    assert "based on version 1 of the job, but the job is at version 2" in late.refusal
    assert job.state()["nodes"] == before["nodes"]
    assert handle(job, plan_by_hand(ManualPlan({"worker": RolePlan(1)}, id="now"), base_version=2)).version == 3


def test_a_request_is_refused_as_a_whole(job: RunningMaster, platform: PlatformWithChannel) -> None:
    before = job.state()["nodes"]
    assert "allowed: 1 to 5" in platform.ask("half", RemoveNode("worker-0"), Scale("worker", 9))
    assert job.state()["nodes"] == before
    assert [event["request"] for event in events(job, EventKind.CHANGE_REFUSED)] == ["half"]


def test_a_call_that_is_sent_again_gets_its_first_answer_also_after_a_restart(job: RunningMaster) -> None:
    call, stubs = job.client.call, job.client.stubs.job
    first = call(stubs.Scale, pb.ScaleRequest(replicas=4, id="mine"))
    assert (first.before, first.now, first.version) == (2, 4, 2)
    call(stubs.Scale, pb.ScaleRequest(replicas=3, id="another"))
    assert call(stubs.Scale, pb.ScaleRequest(replicas=4, id="mine")) == first
    with pytest.raises(InvalidRequest, match="allowed: 1 to 5"):
        call(stubs.Scale, pb.ScaleRequest(replicas=9, id="wrong"))
    job.restart()
    call, stubs = job.client.call, job.client.stubs.job
    assert call(stubs.Scale, pb.ScaleRequest(replicas=4, id="mine")) == first
    with pytest.raises(InvalidRequest, match="allowed: 1 to 5"):
        call(stubs.Scale, pb.ScaleRequest(replicas=2, id="wrong"))
    assert [event["replicas"] for event in events(job, EventKind.SCALE)] == [4, 3]


def test_the_last_plan_and_its_reason_are_in_the_status_also_after_a_restart(job: RunningMaster) -> None:
    job.client.call(job.client.stubs.job.Scale, pb.ScaleRequest(replicas=4, id="mine", reason="more data came"))
    with pytest.raises(InvalidRequest):
        job.client.call(job.client.stubs.job.Scale, pb.ScaleRequest(replicas=9, id="refused"))
    job.restart()
    plan = job.client.call(job.client.stubs.job.GetStatus, pb.Empty()).last_plan
    assert (plan.name, plan.reason) == ("mine", "more data came")
    assert plan.time.endswith("Z")


def test_one_call_scales_several_roles_or_none(tmp_path: Path) -> None:
    role = {"command": ["true"], "replicas": "1:5"}
    with RunningMaster(tmp_path, {"roles": {"worker": role, "helper": role}}) as job:
        call, stubs = job.client.call, job.client.stubs.job
        for wrong in (pb.ScaleRequest(role="helper", replicas=9), pb.ScaleRequest(role="worker", replicas=3)):
            with pytest.raises(InvalidRequest, match=r"allowed: 1 to 5|named twice"):
                call(stubs.Scale, pb.ScaleRequest(replicas=4, others=[wrong]))
        wanted = {role.name: role.wanted for role in call(stubs.GetStatus, pb.Empty()).roles}
        assert wanted == {"worker": 5, "helper": 5}
        reply = call(stubs.Scale, pb.ScaleRequest(replicas=4, others=[pb.ScaleRequest(role="helper", replicas=3)]))
        assert [(one.now, one.version) for one in (reply, *reply.others)] == [(4, 2), (3, 2)]


def test_a_call_for_another_version_is_refused(job: RunningMaster) -> None:
    call, stubs = job.client.call, job.client.stubs.job
    version = call(stubs.Scale, pb.ScaleRequest(replicas=3)).version
    call(stubs.Scale, pb.ScaleRequest(replicas=4, base_version=version))
    with pytest.raises(Conflict, match="but the job is at version"):
        call(stubs.Scale, pb.ScaleRequest(replicas=5, base_version=version))
