"""The contract of a platform, on a real API server with its scheduler and controllers; machines only pretend.

And what only this platform has: plans that are written once, and a watch that survives whatever happens to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import Space, Testbed
from tests.kubernetes.plan_executor import PlanExecutor
from tests.platforms.conformance import SLEEP, SMALL, PlatformConformance, Site, opened

from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.resources import Resources
from pliant.platforms.base import JobContext, NodeLaunch, NodeWatcher, Platform, Scaler
from pliant.platforms.kubernetes.api import Follower, KubeApi
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, PODS, SCALE_PLANS, Object
from pliant.platforms.kubernetes.outbox import requested_plans
from pliant.platforms.kubernetes.platform import KubernetesPlatform
from pliant.spec import JobSpec
from pliant.testing.waiting import MAX_WAIT_S


class KubernetesSite(Site):
    def __init__(self, space: Space, kubelet: FakeKubelet, folder: Path) -> None:
        self.space = space
        self.kubelet = kubelet
        options = {"node_selector": {"kubernetes.io/hostname": kubelet.nodes[0]}}
        self.spec = JobSpec.from_dict(
            {
                "name": "tested",
                "platform": {"kind": "kubernetes", "kubernetes": options},
                "roles": {"worker": {"command": list(SLEEP), "replicas": {"min": 1, "max": 8, "wanted": 2}}},
            }
        )
        self.job = space.create(ELASTIC_JOBS, {"metadata": {"name": "tested"}, "spec": self.spec.to_json()})
        platform = self.spec.platform.model_dump()
        self.context = JobContext("tested", folder, "192.0.2.1:7777", folder / "token", None, platform)

    def open(self) -> tuple[Platform, Scaler, NodeWatcher]:
        platform = KubernetesPlatform(namespace=self.space.name)
        return (platform, *platform.open(self.context))

    def pod(self, node: str) -> Object:
        return self.space.wait_for(lambda: self.space.find(PODS, f"tested-{node}"), f"the Pod of {node}")

    async def kill(self, node: str) -> None:
        await asyncio.to_thread(lambda: self.kubelet.kill(self.pod(node)))

    def launch(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", SMALL, SLEEP)

    def too_large(self, node: str) -> NodeLaunch:
        return NodeLaunch(node, "worker", Resources(cpu=1000), SLEEP)


@pytest.fixture
def place(
    control_plane: Testbed, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesSite]:
    """Without anybody who executes plans."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    with FakeKubelet(control_plane.kube, prefix=f"fake-{space.name[-6:]}") as kubelet:
        kubelet.obey_deletions(space.name)
        yield KubernetesSite(space, kubelet, tmp_path)


@pytest.fixture
def executing(place: KubernetesSite) -> Iterator[KubernetesSite]:
    with PlanExecutor(place.space, place.job):
        yield place


class TestKubernetesPlatform(PlatformConformance):
    @pytest.fixture
    def site(self, executing: KubernetesSite) -> KubernetesSite:
        return executing


def test_what_is_asked_for_again_is_planned_once(place: KubernetesSite) -> None:
    async def scenario() -> None:
        for _ in range(2):  # also by the next master
            async with opened(place) as there:
                assert [event.node for event in await there.watcher.list()] in ([], ["worker-0"])
                for _ in range(3):
                    await there.launch(place.launch("worker-0"))

    asyncio.run(scenario())
    (request,) = requested_plans(place.space.get(ELASTIC_JOBS, "tested")).values()
    assert [entry["node"] for entry in request["create"]] == ["worker-0"]
    assert "command" not in str(request), "a plan carries no command"


def test_a_removal_is_planned_once_and_again_only_if_it_shall_be_quicker(executing: KubernetesSite) -> None:
    async def scenario() -> None:
        async with opened(executing) as there:
            await there.launch(executing.launch("worker-0"))
            await asyncio.to_thread(executing.pod, "worker-0")
            await there.news_of("worker-0", lambda event: event.alive)
            executing.kubelet.fall_silent(executing.kubelet.nodes[0])  # so that it does not go
            for grace in (60.0, 60.0, 30.0, 60.0):
                await there.remove("worker-0", grace)

    asyncio.run(scenario())
    executing.space.wait_for(lambda: len(executing.space.list(SCALE_PLANS)) >= 3, "the plans")
    plans = sorted(executing.space.list(SCALE_PLANS), key=lambda plan: int(plan["spec"]["sequence"]))
    assert [plan["spec"].get("remove", []) for plan in plans] == [
        [],
        [{"node": "worker-0", "grace": 60}],
        [{"node": "worker-0", "grace": 30}],
    ]


@pytest.mark.parametrize(
    ("verb", "reason"),
    [
        ("run_out_of_memory", ExitReason.OOM),
        ("evict", ExitReason.PREEMPTED),
        ("fail", ExitReason.ERROR),
        ("succeed", ExitReason.COMPLETED),
        ("remove", ExitReason.PREEMPTED),
    ],
)
def test_an_end_is_told_with_its_reason(executing: KubernetesSite, verb: str, reason: ExitReason) -> None:
    async def scenario() -> None:
        async with opened(executing) as there:
            await there.launch(executing.launch("worker-0"))
            pod = await asyncio.to_thread(executing.pod, "worker-0")
            await asyncio.to_thread(getattr(executing.kubelet, verb), pod)
            event = await there.end_of("worker-0")
            assert (event.exit_reason, bool(event.message)) == (reason, True)

    asyncio.run(scenario())


def test_a_pod_deleted_while_the_watch_was_cut_off_is_told(executing: KubernetesSite) -> None:
    """The version it would go on from is too old (410): it lists again and compares."""

    async def scenario() -> None:
        async with opened(executing) as there:
            await there.watcher.list()
            await there.launch(executing.launch("worker-0"), executing.launch("worker-1"))
            pod = await asyncio.to_thread(executing.pod, "worker-0")
            await there.news_of("worker-0", lambda event: event.alive)
            await there.news_of("worker-1", lambda event: event.alive)
            known = there.watcher._pods  # type: ignore[attr-defined]
        await asyncio.to_thread(executing.kubelet.remove, pod)
        known.version = ""  # as after 410 Gone
        api = KubeApi.load()
        try:
            labels = "pliant.dev/job=tested,pliant.dev/node"
            async with asyncio.timeout(MAX_WAIT_S):
                async for change in api.follow(PODS, executing.space.name, labels=labels, follower=known):
                    if change.gone:
                        assert change.object["metadata"]["name"] == "tested-worker-0"
                        break
        finally:
            await api.close()

    asyncio.run(scenario())


def test_a_watch_from_a_compacted_version_lists_again(control_plane: Testbed, place: KubernetesSite) -> None:
    async def scenario() -> None:
        api = KubeApi.load()
        follower = Follower(version="1")  # long compacted, or before the server's own cache
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                async for change in api.follow(ELASTIC_JOBS, place.space.name, follower=follower):
                    assert change.object["metadata"]["name"] == "tested"
                    break
        finally:
            await api.close()

    asyncio.run(scenario())


def test_a_watch_goes_on_from_its_bookmark_without_listing_again(place: KubernetesSite) -> None:
    async def scenario() -> None:
        api = KubeApi.load()
        follower = Follower()
        seen: list[str] = []
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                # every watch ends after a second: the next goes on where it ended
                async for change in api.follow(ELASTIC_JOBS, place.space.name, follower=follower, seconds=1):
                    seen.append(change.object["metadata"].get("labels", {}).get("n", ""))
                    if len(seen) == 4:
                        break
                    label = {"metadata": {"labels": {"n": str(len(seen))}}}
                    await asyncio.to_thread(place.space.patch, ELASTIC_JOBS, "tested", label)
        finally:
            await api.close()
        assert (seen, follower.relists) == (["", "1", "2", "3"], 1)

    asyncio.run(scenario())
