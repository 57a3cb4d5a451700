"""Old data gets coarser and then goes, in steps that can be interrupted, and what was accepted still adds up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from tests.brain.store.reporting import (
    HISTORY,
    MARK,
    TAUGHT,
    identity,
    node,
    node_sample,
    period,
    plan,
    proposal,
    report,
)
from tests.databases import Databases

from pliant.brain.store import rollup
from pliant.brain.store.database import Database
from pliant.brain.store.errors import FencedOff
from pliant.brain.store.events import AlgorithmRun, StoredEvent, store_event, store_run
from pliant.brain.store.jobs import find_job, running_jobs
from pliant.brain.store.journals import commit, open_journal
from pliant.brain.store.leases import ACTIVE_BRAIN, acquire
from pliant.brain.store.past_jobs import similar_jobs
from pliant.brain.store.plans import store_offer
from pliant.brain.store.quotas import store_grant
from pliant.brain.store.reports import write_reports
from pliant.brain.store.resolutions import EARLIER, HOUR, MINUTE, RAW
from pliant.brain.store.retention import Retention, RolledUp, roll_up
from pliant.brain.store.tables import job_samples, jobs, metadata, node_samples
from pliant.core.planning.cluster.offer import Grant, Offer
from pliant.core.planning.cluster.report import JobReport

NOTHING = RolledUp(0, 0, 0, 0, 0, 0)
KEEP = Retention(raw_s=100, minutes_s=1000, hours_s=20_000, ended_s=50_000, taught_s=90_000, silent_s=1e9, events_s=1e9)


def at(time: float, sequence: int, records: int, **others: Any) -> JobReport:
    made = report(sequence, records, **others)
    return replace(made, time=time, sample=replace(made.sample, time=time, records=records))


def counts(database: Database) -> dict[str, int]:
    """Of the tables that have rows."""
    with database.reading() as connection:
        found = {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in metadata.sorted_tables
        }
    return {name: rows for name, rows in found.items() if rows}


def sums(database: Database) -> list[tuple[int, int]]:
    """Of each job: its records, and what its samples add up to."""
    query = select(jobs.c.id, jobs.c.records, func.coalesce(func.sum(job_samples.c.accepted), 0)).join(
        job_samples, isouter=True
    )
    with database.reading() as connection:
        rows = connection.execute(query.group_by(jobs.c.id, jobs.c.records).order_by(jobs.c.id))
        return [(records, int(accepted)) for _, records, accepted in rows]


def samples(database: Database, resolution: int) -> list[Any]:
    query = (
        select(job_samples)
        .where(job_samples.c.resolution == resolution)
        .order_by(job_samples.c.time, job_samples.c.job_id)
    )
    with database.reading() as connection:
        return list(connection.execute(query))


def fill(database: Database, name: str = "resnet-1", **others: Any) -> None:
    """A row of everything that a job can have."""
    job = identity(name)
    full = at(
        0.0,
        1,
        50,
        job=job,
        nodes=(node("w0"), node("w1")),
        samples=(node_sample("w0", 0.0), node_sample("w1", 0.0)),
        periods=(period(1),),
        plans=(plan("p1"),),
        history=HISTORY,
    )
    write_reports(database, [full], 0.0)
    store_offer(database, job, Offer(f"offer-{name}", proposal(), 1, 1.0), 0.0, 1.0)
    store_grant(database, job, Grant(name, 1, None, "it"), 0.0)
    store_event(database, StoredEvent(f"event-{name}", job, "slow", "it", 0.0))
    store_run(database, AlgorithmRun(job, "event", "probe", 0.0, 1.0, "nothing"))
    fence = open_journal(database, job, "master", 0.0).fence
    for number in range(1, 45):
        commit(database, job, fence, number, b"operations", b"lasting", is_snapshot=number == 3, now=0.0)
    write_reports(database, [at(5.0, 2, 60, job=job, **others)], 5.0)


def test_raw_samples_become_minutes_then_hours_then_one(database: Database) -> None:
    nodes = {"nodes": (node("w"),)}
    reports = [at(10.0 * n, n + 1, 100 * n, **(nodes if n == 0 else {})) for n in range(30)]
    with_nodes = [replace(each, samples=(node_sample("w", each.time, n),)) for n, each in enumerate(reports)]
    write_reports(database, with_nodes, 300.0)
    assert roll_up(database, 340.0, KEEP) == RolledUp(24, 24, 0, 0, 0, 0)  # up to second 240
    assert roll_up(database, 340.0, KEEP) == NOTHING
    minutes = samples(database, MINUTE)
    assert [(row.time, row.accepted, row.records, row.samples) for row in minutes] == [
        (0.0, 500, 500, 6),
        (60.0, 600, 1100, 6),
        (120.0, 600, 1700, 6),
        (180.0, 600, 2300, 6),
    ]
    assert {(row.rate, row.running) for row in minutes} == {(12.5, 2.0)}
    assert len(samples(database, RAW)) == 6
    roll_up(database, 10_000.0, KEEP)
    [hour] = samples(database, HOUR)
    assert (hour.time, hour.accepted, hour.samples, hour.rate) == (0.0, 2900, 30, 12.5)
    with database.reading() as connection:
        [of_node] = connection.execute(select(node_samples))
        assert (of_node.resolution, of_node.cpu, of_node.memory_mb, of_node.records) == (HOUR, 1.5, 512.25, 29)
    roll_up(database, 40_000.0, KEEP)
    [earlier] = samples(database, EARLIER)
    assert (earlier.accepted, earlier.records) == (2900, 2900)
    assert "node_samples" not in counts(database)
    assert sums(database) == [(2900, 2900)]


def test_a_sample_that_comes_late_is_added_to_its_minute(database: Database) -> None:
    write_reports(database, [at(10.0, 1, 100), at(20.0, 2, 200)], 30.0)
    roll_up(database, 1000.0, KEEP)
    write_reports(database, [at(15.0, 3, 250), at(500.0, 4, 300)], 1000.0)
    roll_up(database, 1000.0, KEEP)
    assert [(row.time, row.accepted, row.samples) for row in samples(database, MINUTE)] == [
        (0.0, 250, 3),
        (480.0, 50, 1),
    ]


def test_means_are_weighted_by_how_many_samples_they_stand_for(database: Database) -> None:
    for number, (time, rate) in enumerate([(0.0, 10.0), (1.0, 10.0), (2.0, 10.0), (60.0, 50.0)], 1):
        each = at(time, number, number)
        write_reports(database, [replace(each, sample=replace(each.sample, rate=rate))], time)
    roll_up(database, 10_000.0, KEEP)
    assert [row.rate for row in samples(database, HOUR)] == [20.0]


def test_of_an_ended_job_only_what_it_taught_is_left(database: Database) -> None:
    fill(database, "a", phase="Succeeded", taught=TAUGHT)
    fill(database, "b", phase="Failed")
    fill(database, "c")
    before = counts(database)
    assert {name for name, rows in before.items() if rows % 3 and name != "owners"} == set()
    assert roll_up(database, 40_000.0, KEEP).pruned_jobs == 0
    done = roll_up(database, 60_000.0, KEEP)
    assert (done.pruned_jobs, done.removed_jobs, done.removed_journals) == (2, 1, 2)
    left = counts(database)
    assert left.pop("jobs") == 2
    assert left.pop("job_samples") == 2
    assert left == {
        name: rows // 3
        for name, rows in before.items()
        if name not in ("jobs", "job_samples", "owners", "node_samples")
    } | {"owners": 1}
    assert [each.identity.name for each in running_jobs(database)] == ["c"]
    assert similar_jobs(database, MARK, 5) == (TAUGHT.seen_from(MARK),)
    assert sums(database) == [(60, 60), (60, 60)]
    assert roll_up(database, 60_000.0, KEEP) == NOTHING
    roll_up(database, 5000.0 + 90_001.0, KEEP)
    assert similar_jobs(database, MARK, 5) == ()


def test_a_job_that_was_pruned_can_report_again(database: Database) -> None:
    fill(database, phase="Succeeded", taught=TAUGHT)
    roll_up(database, 60_000.0, KEEP)
    again = at(60_001.0, 1, 80, session=2, samples=(node_sample("w0", 60_001.0),))
    assert write_reports(database, [again], 60_001.0)[0].wants_all
    assert [each.identity for each in running_jobs(database)] == [identity()]
    assert sums(database) == [(80, 80)]
    write_reports(database, [at(60_002.0, 2, 81, session=2, phase="Failed")], 60_002.0)
    assert roll_up(database, 160_000.0, KEEP).pruned_jobs == 1


def test_a_job_that_is_silent_for_long_counts_as_ended_until_it_reports(database: Database) -> None:
    keep = replace(KEEP, silent_s=500.0)
    write_reports(database, [at(10.0, 1, 1)], 10.0)
    assert roll_up(database, 400.0, keep).silent_jobs == 0
    assert roll_up(database, 600.0, keep).silent_jobs == 1
    found = find_job(database, "team", "resnet-1")
    assert found is not None
    assert found.ended_at == 10.0
    write_reports(database, [at(700.0, 2, 2)], 700.0)
    assert len(running_jobs(database)) == 1


def test_old_events_and_runs_of_a_running_job_go(database: Database) -> None:
    fill(database)
    store_event(database, StoredEvent("late", identity(), "slow", "it", 900.0))
    roll_up(database, 1000.0, replace(KEEP, events_s=500.0))
    left = counts(database)
    assert left["optimize_events"] == 1
    assert "algorithm_runs" not in left
    assert left["plans"] == 2


def test_a_brain_that_is_not_active_any_more_removes_nothing(database: Database) -> None:
    fill(database, phase="Succeeded")
    lease = acquire(database, ACTIVE_BRAIN, "a", 600.0)
    assert lease is not None
    before = counts(database)
    with pytest.raises(FencedOff):
        roll_up(database, 60_000.0, KEEP, term=lease.term + 1)
    assert counts(database) == before
    roll_up(database, 60_000.0, KEEP, term=lease.term)
    assert "jobs" not in counts(database)


class Stopped(Exception):
    """The Brain was killed here."""


@pytest.mark.parametrize("allowed", range(12))
def test_a_roll_up_that_was_killed_can_be_repeated(
    database: Database, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    monkeypatch.setattr(rollup, "SAMPLES_AT_A_TIME", 7)
    fill(database, "a", phase="Succeeded", taught=TAUGHT)
    reports = [at(10.0 * n, n + 1, 100 * n) for n in range(30)]
    write_reports(database, reports, 300.0)
    left = [allowed]
    transaction = Database.transaction

    def limited(self: Database, work: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        return transaction(self, work)

    with monkeypatch.context() as patched:
        patched.setattr(Database, "transaction", limited)
        with pytest.raises(Stopped):
            roll_up(database, 60_000.0, KEEP)
    assert sums(database) == [(60, 60), (2900, 2900)]
    roll_up(database, 60_000.0, KEEP)
    assert sums(database) == [(60, 60), (2900, 2900)]
    assert [row.samples for row in samples(database, EARLIER)] == [2, 30]
    assert roll_up(database, 60_000.0, KEEP) == NOTHING


steps = st.lists(
    st.one_of(
        st.tuples(st.just("report"), st.integers(0, 2), st.floats(0, 40_000, allow_nan=False), st.integers(0, 1 << 40)),
        st.tuples(st.just("end"), st.integers(0, 2), st.floats(0, 40_000), st.integers(0, 100)),
        st.tuples(st.just("roll up"), st.integers(0, 0), st.floats(0, 150_000), st.integers(1, 9)),
    ),
    max_size=25,
)


@given(done=steps)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_accepted_records_add_up_through_any_history(databases: Databases, done: list[tuple[Any, ...]]) -> None:
    portion = rollup.SAMPLES_AT_A_TIME
    sequence = 0
    with databases.migrated("sqlite") as database:
        try:
            for kind, number, time, amount in done:
                if kind == "roll up":
                    rollup.SAMPLES_AT_A_TIME = amount
                    roll_up(database, time, KEEP)
                else:
                    sequence += 1
                    phase = "Succeeded" if kind == "end" else "Running"
                    taught = TAUGHT if kind == "end" and amount % 2 else None
                    made = at(time, sequence, amount, job=identity(f"job-{number}"), phase=phase, taught=taught)
                    described = replace(made, description=report(1).description)
                    assert write_reports(database, [described], time)[0].refused == ""
                assert all(records == accepted for records, accepted in sums(database))
        finally:
            rollup.SAMPLES_AT_A_TIME = portion


def test_an_unfinished_minute_stays_raw(database: Database) -> None:
    write_reports(database, [at(130.0, 1, 5)], 130.0)
    assert roll_up(database, 279.0, KEEP) == NOTHING  # of minute 2 one second is missing
    assert roll_up(database, 280.0, KEEP).job_samples == 1
