"""What nodes use and how fast the job is."""

from __future__ import annotations

import pytest

from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.planning.samples import NodeUsage
from pliant.core.planning.time_spent import TimeSpent
from pliant.core.progress import StepReport, TrainingProgress
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
