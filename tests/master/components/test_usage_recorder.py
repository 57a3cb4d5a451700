"""What a successor still knows of the memory of nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.states import RoleSpec
from pliant.core.planning.algorithms.memory_forecast import forecast
from pliant.core.planning.samples import NodeUsage
from pliant.core.planning.usage_book import UsageBook
from pliant.core.progress import TrainingProgress
from pliant.master.components.signals import JobOver
from pliant.master.components.stats import MemoryStats
from pliant.master.components.usage_recorder import NOTE_INTERVAL_S, UsageRecorder
from pliant.master.journal.journal import Journal
from pliant.master.journal.store import SqliteStore
from pliant.testing import ManualClock


class Master:
    """The parts of a master that measure, over the journal of a job with two workers whose memory grows with its records."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.clock = clock
        nodes, usage = NodeBook({"worker": RoleSpec("worker", 1, 4, 2)}, FaultPolicy()), UsageBook()
        state = JobState(job=JobBook(), nodes=nodes, usage=usage)
        store = SqliteStore(path)
        recovered = store.load()
        state.replay(recovered.snapshot, recovered.operations, source="the journal")
        self.nodes, self.usage = nodes, usage
        self.journal = Journal(store, clock, state)
        self.stats = MemoryStats(clock, state)
        self.recorder = UsageRecorder(usage, nodes, self.stats, self.journal, clock)
        if not nodes.nodes():
            self.journal.do(nodes.start)

    def sample(self, records: int) -> None:
        self.stats.training.resume(TrainingProgress(records_done=records))
        for node in ("worker-0", "worker-1", "guest"):
            self.stats.collect_node_resource_usage(node, NodeUsage(self.clock.now(), memory_mb=100.0 + records / 100))

    async def run(self, records: range) -> None:
        for number in records:
            self.sample(number)
            await self.recorder.tick()
            self.clock.advance(1.0)

    async def close(self) -> None:
        await self.journal.close()


def test_a_successor_of_a_killed_master_forecasts_memory_as_it_did(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(1000.0)
        first = Master(tmp_path / "journal.db", clock)
        await first.run(range(0, 60_000, 100))
        await first.close()
        second = Master(tmp_path / "journal.db", clock)
        assert second.usage.nodes() == {"worker-0", "worker-1"}, "only nodes of the job"
        assert second.stats.peak_memory("worker-0") >= 660.0, "that of the last note, half a minute ago"
        second.sample(60_100)
        view = second.stats.view("worker-0").view("worker-0", "worker")
        expected = forecast(first.stats.view("worker-0").view("worker-0", "worker"), 10_000)
        found = forecast(view, 10_000)
        assert expected is not None
        assert found is not None
        assert abs(found - expected) < 0.02 * expected
        await second.close()

    asyncio.run(scenario())


def test_nothing_is_written_when_nothing_is_new_and_nodes_that_ended_are_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(1000.0)
        master = Master(tmp_path / "journal.db", clock)
        master.sample(10)
        await master.recorder.tick()
        before = master.usage.snapshot()
        master.sample(20)
        await master.recorder.tick()
        assert master.usage.snapshot() == before, "too soon"
        master.recorder.on_event(JobOver("done"))
        assert master.usage.snapshot() != before
        written = master.journal._noted
        clock.advance(NOTE_INTERVAL_S)
        await master.recorder.tick()
        assert master.journal._noted == written
        master.journal.do(master.nodes.node_ended, node="worker-1", exit_reason="Completed", message="")
        clock.advance(NOTE_INTERVAL_S)
        await master.recorder.tick()
        assert master.usage.nodes() == {"worker-0"}
        await master.close()

    asyncio.run(scenario())
