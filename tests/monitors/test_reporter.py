from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.monitors.recording_brain import RecordingBrain

from pliant.core.errors import InvalidRequest, NotFound, RetryableError, Unauthenticated
from pliant.monitors.base import Amounts, ClusterMonitor, Observation, ObservedMachine, ObservedNode
from pliant.monitors.registry import make_monitor, monitor_names
from pliant.monitors.reporter import ObservationReporter
from pliant.rpc.brain.identity import PROTOCOL, Caller, job_token
from pliant.testing.waiting import MAX_WAIT_S, wait_until

SEEN = Observation(
    (
        ObservedMachine("m-0", Amounts(8.0, 1024.0, 2), Amounts(3.0, 24.0, 1), Amounts(0.5, 100.0)),
        ObservedMachine("m-1", Amounts(4.0, 512.0), Amounts(4.0, 512.0), is_ready=False),
    ),
    (
        ObservedNode(
            "team", "digits", "worker-0", "worker", "Running", "m-0", Amounts(5.0, 1000.0, 1), Amounts(0.4, 90.0)
        ),
    ),
)


class Scripted(ClusterMonitor):
    """Sees the same again and again, unless it is told to fail."""

    platform = "scripted"

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.observations = 0
        self.is_closed = False

    async def observe(self) -> Observation:
        self.observations += 1
        if self.failure is not None:
            raise self.failure
        return SEEN

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[RecordingBrain]:
    with RecordingBrain(tmp_path) as running:
        yield running


def while_reporting(reporter: ObservationReporter, story: Callable[[], object]) -> None:
    """Run the reporter, and meanwhile what happens to it; then it is told to end."""

    async def main() -> None:
        task = asyncio.create_task(reporter.run())
        told = asyncio.create_task(asyncio.to_thread(story))
        await asyncio.wait((task, told), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, MAX_WAIT_S)
        await told

    asyncio.run(main())


def test_an_observation_arrives_whole_with_the_clusters_token(brain: RecordingBrain) -> None:
    reporter = ObservationReporter(Scripted(), brain.access, cluster="east", interval=0.01)
    while_reporting(reporter, lambda: wait_until(lambda: len(brain.observed) > 1))
    found = brain.observed[0]
    assert (found.protocol, found.cluster) == (PROTOCOL, "east")
    assert found.monitor.startswith("scripted monitor on ")
    assert 0 < found.time <= brain.observed[1].time
    first, second = found.machines
    assert (first.name, first.cpu, first.memory_mb, first.gpu) == ("m-0", 8.0, 1024.0, 2)
    assert (first.free_cpu, first.free_memory_mb, first.free_gpu) == (3.0, 24.0, 1)
    assert (first.used_cpu, first.used_memory_mb, first.is_ready) == (0.5, 100.0, True)
    assert (second.name, second.is_ready) == ("m-1", False)
    [node] = found.nodes
    assert (node.namespace, node.job, node.name, node.role) == ("team", "digits", "worker-0", "worker")
    assert (node.phase, node.machine, node.cpu, node.memory_mb, node.gpu) == ("Running", "m-0", 5.0, 1000.0, 1)
    assert (node.used_cpu, node.used_memory_mb) == (0.4, 90.0)


def test_an_outage_of_the_brain_is_logged_once_and_outlived(
    brain: RecordingBrain, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = Scripted()

    def story() -> None:
        wait_until(lambda: brain.observed)
        brain.stop()
        seen, before = monitor.observations, len(brain.observed)
        wait_until(lambda: monitor.observations > seen + 2, what="tries while it is away")
        brain.start()
        wait_until(lambda: len(brain.observed) > before)

    with caplog.at_level(logging.INFO, "pliant.monitors.reporter"):
        while_reporting(ObservationReporter(monitor, brain.access, interval=0.01), story)
    away, back = [record.levelname for record in caplog.records]
    assert (away, back) == ("WARNING", "INFO")
    assert monitor.is_closed


def test_while_the_platform_cannot_be_seen_nothing_is_sent(brain: RecordingBrain) -> None:
    monitor = Scripted()
    monitor.failure = RetryableError("the API server does not answer")

    def story() -> None:
        wait_until(lambda: monitor.observations > 2)
        assert not brain.observed
        monitor.failure = None
        wait_until(lambda: brain.observed)

    while_reporting(ObservationReporter(monitor, brain.access, interval=0.01), story)


@pytest.mark.parametrize("stranger", ["f" * 64, "a job"])
def test_whoever_has_another_token_than_the_clusters_ends(brain: RecordingBrain, stranger: str) -> None:
    access = replace(brain.access, token=stranger)
    if stranger == "a job":
        access = replace(access, token=job_token(brain.token, "team", "digits"), caller=Caller("team", "digits"))
    monitor = Scripted()
    with pytest.raises(Unauthenticated):
        asyncio.run(ObservationReporter(monitor, access, interval=0.01).run())
    assert (brain.observed, brain.refused, monitor.is_closed) == ([], 1, True)


def test_a_cluster_has_a_proper_name(brain: RecordingBrain) -> None:
    with pytest.raises(InvalidRequest):
        ObservationReporter(Scripted(), brain.access, cluster="east\nwest")


def test_monitors_are_found_by_the_name_of_their_platform() -> None:
    assert {"local", "kubernetes"} <= set(monitor_names())
    assert make_monitor("local").platform == "local"
    with pytest.raises(NotFound, match="abacus"):
        make_monitor("abacus")
