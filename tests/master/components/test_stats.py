"""What nodes use and how fast the job is."""

from __future__ import annotations

import asyncio

import pytest

from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.states import RoleSpec
from pliant.core.planning.samples import NodeUsage
from pliant.core.planning.time_spent import TimeSpent
from pliant.core.planning.usage_book import UsageBook
from pliant.core.progress import StepReport, TrainingProgress
from pliant.core.shards.book import ShardBook
from pliant.core.shards.datasets import DatasetSpec
from pliant.core.status import ServerStats
from pliant.master.components.signals import ServerMeasured
from pliant.master.components.stats import AGENT_SILENT, HISTORY, MemoryStats, Rate
from pliant.testing import ManualClock


def test_a_rate_is_that_of_the_last_seconds_and_falls_to_nothing() -> None:
    rate = Rate()
    assert rate.per_second(0.0) == 0.0
    for second in range(20):
        rate.add(float(second), 50)
    assert rate.per_second(19.0) == pytest.approx(50, rel=0.15)
    assert rate.per_second(100.0) == 0.0
    assert rate.total == 1000


def test_a_rate_right_after_the_first_records_is_not_absurd() -> None:
    rate = Rate()
    rate.add(5.0, 10)
    assert rate.per_second(5.0) == 20.0, "as if half a second had passed"


def test_what_the_platform_measured_counts_where_the_agent_is_silent() -> None:
    stats = MemoryStats(ManualClock(0.0), JobState(job=JobBook()))
    stats.collect_measured_usage("worker-0", NodeUsage(0.0, cpu=1.0))
    assert stats.report_resource_usage()["worker-0"].cpu == 1.0, "no agent has told anything yet"
    stats.collect_node_resource_usage("worker-0", NodeUsage(10.0, cpu=2.0))
    stats.collect_measured_usage("worker-0", NodeUsage(15.0, cpu=1.0))
    assert stats.report_resource_usage()["worker-0"].cpu == 2.0
    stats.collect_measured_usage("worker-0", NodeUsage(10.0 + AGENT_SILENT + 1, cpu=3.0))
    assert stats.report_resource_usage()["worker-0"].cpu == 3.0


def test_statistics_keep_a_history_of_each_node_and_the_newest_step_of_all() -> None:
    clock = ManualClock(0.0)
    stats = MemoryStats(clock, JobState(job=JobBook()))
    for second in range(HISTORY + 50):
        stats.collect_node_resource_usage("worker-0", NodeUsage(float(second), cpu=second))
    assert len(stats.node("worker-0").usage) == HISTORY
    assert stats.report_resource_usage()["worker-0"].cpu == HISTORY + 49
    stats.report_step(StepReport("worker-0", TrainingProgress(7)))
    stats.report_step(StepReport("worker-1", TrainingProgress(5)))
    assert (stats.throughput().step, stats.throughput("worker-1").step) == (7, 5)
    stats.add_records("worker-0", 30)
    clock.advance(1.0)
    assert stats.records_per_second() == stats.records_per_second("worker-0") == 30.0
    assert stats.records_per_second("worker-1") == 0.0
    stats.forget("worker-0")
    assert list(stats.report_resource_usage()) == []


def test_the_shares_of_a_programs_time_are_of_its_last_run_and_of_the_window() -> None:
    stats = MemoryStats(ManualClock(0.0), JobState(job=JobBook()))
    assert stats.time_shares("worker-0") is None
    readings = [(0.0, 0.0, 1.0), (10.0, 9.0, 1.0), (20.0, 1.0, 2.0), (30.0, 2.0, 2.0), (40.0, 7.0, 2.0)]
    for time, data, began in readings:
        spent = TimeSpent(data_s=data, began=began, read_at=time)
        stats.collect_node_resource_usage("worker-0", NodeUsage(time, time_spent=spent))
    whole, last = stats.time_shares("worker-0"), stats.time_shares("worker-0", window_s=10.0)
    assert whole is not None
    assert last is not None
    assert (whole.seconds, whole.data) == (20.0, 0.3)
    assert (last.seconds, last.data) == (10.0, 0.5)


def test_a_view_has_the_cpu_of_the_last_minutes_and_the_memory_of_a_whole_life() -> None:
    clock = ManualClock(0.0)
    stats = MemoryStats(clock, JobState(job=JobBook()))
    for second in range(0, 3600, 5):
        is_early = second < 1800
        usage = NodeUsage(float(second), 8.0 if is_early else 2.0, 900.0 if second == 100 else 300.0, 1000.0, 4.0, 0.25)
        stats.collect_node_resource_usage("worker-0", usage)
        stats.add_records("worker-0", 50)
        clock.advance(5.0)
    view = stats.view("worker-0")
    assert (view.cpu, view.cpu_p95, view.cpu_limit, view.throttled) == (2.0, 2.0, 4.0, 0.25)
    assert (view.memory_mb, view.memory_peak_mb, view.memory_limit_mb) == (300.0, 900.0, 1000.0)
    assert stats.peak_memory("worker-0") == 900.0, "much older than what is kept as it came"
    assert view.records_per_second == 10.0
    assert view.samples == 60
    assert stats.view("worker-7").samples == 0
    assert "worker-7" not in stats.report_resource_usage()


def test_memory_is_followed_against_the_records_that_were_accepted() -> None:
    shards = ShardBook()
    shards.create(0.0, dataset=DatasetSpec("train", 10, size=1000).to_json())
    stats = MemoryStats(ManualClock(0.0), JobState(job=JobBook(), shards=shards))
    stats.training.resume(TrainingProgress(records_done=77))
    assert stats.accepted_records() == 77, "as the program says, while no record of a shard was accepted"
    stats.collect_node_resource_usage("worker-0", NodeUsage(0.0, memory_mb=100.0))
    stats.training.resume(TrainingProgress(records_done=90))
    stats.collect_node_resource_usage("worker-0", NodeUsage(1.0, memory_mb=0.0))
    stats.collect_node_resource_usage("worker-0", NodeUsage(2.0, memory_mb=120.0))
    assert stats.view("worker-0").memory_points == ((77, 100.0), (90, 120.0)), (
        "a program that does not run holds nothing"
    )


def test_a_new_master_goes_on_with_the_memory_that_the_journal_has() -> None:
    book = UsageBook()
    book.note(0.0, records=50.0, memory={"worker-0": [100.0, 400.0]}, gone=[])
    stats = MemoryStats(ManualClock(0.0), JobState(job=JobBook(), usage=book))
    assert stats.peak_memory("worker-0") == 400.0
    stats.training.resume(TrainingProgress(records_done=80))
    stats.collect_node_resource_usage("worker-0", NodeUsage(0.0, memory_mb=130.0))
    view = stats.view("worker-0")
    assert view.memory_points == ((50.0, 100.0), (80, 130.0))
    assert view.memory_peak_mb == 400.0
    noted = book.memory_of("worker-0")
    assert noted is not None
    assert noted.points == ((50.0, 100.0),), "the book changes by its operation alone"


def test_a_view_of_a_server_has_its_rows_its_bytes_and_its_heaviest_partitions() -> None:
    clock = ManualClock(0.0)
    stats = MemoryStats(clock, JobState(job=JobBook()))
    for second in range(3):
        told = ServerStats(rows=7, bytes_in=1000 * second, bytes_out=3000 * second, requests=5 * second, queue=1)
        stats.on_event(ServerMeasured("ps-0", told, {3: 0.25, 9: 0.5}))
        clock.advance(1.0)
    view = stats.view("ps-0")
    assert (view.rows, view.bytes_per_second, view.requests_per_second, view.queue) == (7, 4000.0, 5.0, 1)
    assert view.partition_load == ((9, 0.5), (3, 0.25))


def test_of_a_node_that_ended_little_is_kept() -> None:
    nodes = NodeBook({"worker": RoleSpec("worker", 1, 1, 1)}, FaultPolicy())
    nodes.start(0.0)
    stats = MemoryStats(ManualClock(0.0), JobState(job=JobBook(), nodes=nodes))
    for second in range(100):
        stats.collect_node_resource_usage("worker-0", NodeUsage(float(second), cpu=1.0, memory_mb=500.0 - second))
    asyncio.run(stats.tick())
    assert len(stats.usage_of("worker-0")) == 100
    nodes.node_ended(100.0, node="worker-0", exit_reason="Completed", message="")
    asyncio.run(stats.tick())
    assert [usage.memory_mb for usage in stats.usage_of("worker-0")] == [401.0]
    assert stats.peak_memory("worker-0") == 500.0
    assert stats.view("worker-0").memory_points == ()
