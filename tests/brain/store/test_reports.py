"""Reports count once and in order, whatever is repeated, lost, late or hostile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.brain.store.reporting import (
    DESCRIPTION,
    HISTORY,
    TAUGHT,
    identity,
    node,
    node_sample,
    period,
    plan,
    report,
)

from pliant.brain.store.database import Database
from pliant.brain.store.errors import FencedOff
from pliant.brain.store.jobs import find_job, history_of, job, nodes_of, periods_of, recorded_jobs, running_jobs
from pliant.brain.store.leases import ACTIVE_BRAIN, acquire
from pliant.brain.store.plans import plans_of
from pliant.brain.store.reports import Acknowledged, write_reports
from pliant.brain.store.tables import job_samples, jobs, metadata, node_samples, owners


def everything(database: Database) -> dict[str, list[Any]]:
    with database.reading() as connection:
        return {table.name: sorted(map(repr, connection.execute(select(table)))) for table in metadata.sorted_tables}


def accepted(database: Database, job_id: int) -> int:
    with database.reading() as connection:
        query = select(func.coalesce(func.sum(job_samples.c.accepted), 0)).where(job_samples.c.job_id == job_id)
        return int(connection.scalar(query) or 0)


def full_report() -> Any:
    return report(
        1,
        100,
        nodes=(node("worker-0"), node("worker-1")),
        samples=(node_sample("worker-0", 1005.0, 60), node_sample("worker-1", 1005.0, 40)),
        periods=(period(1), period(2, 12.0)),
        plans=(plan("p1"),),
        history=HISTORY,
        granted=4,
        lost=2,
    )


def test_what_was_reported_is_read_back(database: Database) -> None:
    assert write_reports(database, [full_report()], 2000.0) == [Acknowledged(1, 1, False)]
    [stored] = running_jobs(database)
    assert (stored.identity, stored.description, stored.phase) == (identity(), DESCRIPTION, "Running")
    assert (stored.session, stored.sequence, stored.granted, stored.samples_lost) == (1, 1, 4, 2)
    assert (stored.first_heard_at, stored.last_heard_at, stored.started_at) == (2000.0, 2000.0, 900.0)
    assert stored.sample == full_report().sample
    assert nodes_of(database, stored.id) == (node("worker-0"), node("worker-1"))
    assert periods_of(database, stored.id) == (period(1), period(2, 12.0))
    assert history_of(database, stored) == replace(HISTORY, periods=(period(1).period, period(2, 12.0).period))
    assert [each.record for each in plans_of(database, stored.id)] == [plan("p1")]
    assert job(database, "team", "resnet-1") == stored
    assert recorded_jobs(database, since=2000.0) == (stored,)
    assert recorded_jobs(database, since=2000.5) == ()


def test_a_repeated_report_changes_nothing(database: Database) -> None:
    write_reports(database, [full_report(), report(2, 150)], 2000.0)
    before = everything(database)
    assert write_reports(database, [full_report()], 3000.0) == [Acknowledged(1, 2, False)]
    assert write_reports(database, [report(2, 150), report(2, 999)], 3000.0) == [Acknowledged(1, 2, False)] * 2
    assert everything(database) == before


def test_accepted_records_of_samples_add_up_to_those_of_the_job(database: Database) -> None:
    write_reports(database, [report(1, 100), report(2, 250)], 2000.0)
    write_reports(database, [report(3, 240), report(4, 900)], 2010.0)  # some were taken back
    [stored] = running_jobs(database)
    assert stored.sample.records == accepted(database, stored.id) == 900


def test_two_samples_of_the_same_moment_both_count(database: Database) -> None:
    second = replace(report(2, 70), sample=replace(report(1).sample, records=70))
    write_reports(database, [report(1, 50), second], 2000.0)
    [stored] = running_jobs(database)
    assert accepted(database, stored.id) == 70


def test_a_gap_is_counted_and_everything_is_asked_for_until_it_comes(database: Database) -> None:
    write_reports(database, [report(1)], 2000.0)
    assert write_reports(database, [report(5, 10)], 2001.0) == [Acknowledged(1, 5, True)]
    assert write_reports(database, [report(5, 10)], 2002.0) == [Acknowledged(1, 5, True)]  # the answer was lost
    assert write_reports(database, [report(6, 10)], 2003.0) == [Acknowledged(1, 6, True)]
    assert write_reports(database, [report(7, 10, description=DESCRIPTION)], 2004.0) == [Acknowledged(1, 7, False)]
    assert running_jobs(database)[0].reports_lost == 3


def test_an_older_session_is_refused(database: Database) -> None:
    write_reports(database, [report(1, 10, session=2)], 2000.0)
    before = everything(database)
    assert write_reports(database, [report(9, 500, session=1)], 2001.0) == [Acknowledged(2, 1, False)]
    assert everything(database) == before


def test_a_new_session_without_a_description_goes_on_and_is_asked_for_everything(database: Database) -> None:
    write_reports(database, [report(1, 10)], 2000.0)
    later = report(1, 30, session=2, description=None)
    assert write_reports(database, [later], 2001.0) == [Acknowledged(2, 1, True)]
    [stored] = running_jobs(database)
    assert (stored.description, stored.sample.records, stored.reports_lost) == (DESCRIPTION, 30, 0)


def test_a_job_that_does_not_say_what_it_is_is_asked_to(database: Database) -> None:
    assert write_reports(database, [report(2, 10)], 2000.0) == [Acknowledged(0, 0, True)]
    assert running_jobs(database) == ()
    assert write_reports(database, [report(3, 10, description=DESCRIPTION)], 2001.0) == [Acknowledged(1, 3, False)]


def test_another_uid_under_the_same_name_is_another_job(database: Database) -> None:
    write_reports(database, [report(1, 500)], 2000.0)
    again = identity(uid="u2")
    assert write_reports(database, [report(1, 7, job=again)], 2100.0) == [Acknowledged(1, 1, False)]
    assert [each.identity for each in running_jobs(database)] == [again]
    assert [each.identity.uid for each in recorded_jobs(database)] == ["u1", "u2"]
    found = find_job(database, "team", "resnet-1")
    assert found is not None
    assert accepted(database, found.id) == 7
    [late] = write_reports(database, [report(2, 600)], 2200.0)
    assert "replaced" in late.refused
    assert [each.identity for each in running_jobs(database)] == [again]


def test_both_uids_in_one_batch_are_two_jobs_and_the_later_one_runs(database: Database) -> None:
    write_reports(database, [report(1, 500)], 2000.0)
    answers = write_reports(database, [report(2, 510), report(1, 7, job=identity(uid="u2"))], 2100.0)
    assert bool(answers[0].refused)
    assert answers[1] == Acknowledged(1, 1, False)
    assert [each.identity.uid for each in running_jobs(database)] == ["u2"]


def test_a_sample_of_an_unknown_node_is_kept_and_its_facts_are_asked_for(database: Database) -> None:
    [answer] = write_reports(database, [report(1, 1, samples=(node_sample("worker-7", 1005.0),))], 2000.0)
    assert answer == Acknowledged(1, 1, True)
    [stored] = running_jobs(database)
    assert [each.name for each in nodes_of(database, stored.id)] == ["worker-7"]
    write_reports(database, [report(2, 1, nodes=(node("worker-7"),), description=DESCRIPTION)], 2001.0)
    assert nodes_of(database, stored.id) == (node("worker-7"),)
    with database.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(node_samples)) == 1


def test_an_open_period_grows_and_a_node_ends(database: Database) -> None:
    write_reports(database, [full_report()], 2000.0)
    ended = node("worker-1", state="Failed", ended_at=1500.0, exit_reason="OOM")
    write_reports(database, [report(2, 200, nodes=(ended,), periods=(period(2, 14.0), period(3)))], 2010.0)
    [stored] = running_jobs(database)
    assert nodes_of(database, stored.id) == (node("worker-0"), ended)
    assert periods_of(database, stored.id) == (period(1), period(2, 14.0), period(3))
    assert periods_of(database, stored.id, limit=1) == (period(3),)


def test_a_job_that_ended_teaches_and_does_not_run(database: Database) -> None:
    write_reports(database, [report(1), report(2, 9, phase="Succeeded", taught=TAUGHT)], 2000.0)
    assert running_jobs(database) == ()
    found = find_job(database, "team", "resnet-1")
    assert found is not None
    assert found.ended_at == 2000.0
    write_reports(database, [report(1, 9, session=2)], 2500.0)  # it was resumed
    assert [each.identity for each in running_jobs(database)] == [identity()]


def test_many_jobs_are_written_together(database: Database) -> None:
    names = [f"job-{number}" for number in range(60)]
    first = [report(1, 5, job=identity(name), nodes=(node("w"),)) for name in names]
    second = [report(2, 9, job=identity(name), samples=(node_sample("w", 1010.0),)) for name in names]
    assert write_reports(database, [*first, *second], 2000.0) == [Acknowledged(1, 2, False)] * 120
    assert [each.sample.records for each in running_jobs(database)] == [9] * 60
    with database.reading() as connection:
        assert connection.execute(select(owners.c.name)).scalars().all() == ["ann"]


def test_names_that_differ_by_case_are_different_jobs(database: Database) -> None:
    write_reports(database, [report(1, 1, job=identity("Job")), report(1, 2, job=identity("job"))], 2000.0)
    assert {each.identity.name: each.sample.records for each in running_jobs(database)} == {"Job": 1, "job": 2}
    assert find_job(database, "TEAM", "job") is None


@pytest.mark.parametrize(
    "name", ["", "a\0b", "x" * 10_000, "trailing ", "line\nbreak", "\ud800", "\x1b[31m"], ids=ascii
)
def test_a_hostile_name_is_refused_and_the_other_reports_are_written(database: Database, name: str) -> None:
    hostile_job = report(1, 1, job=identity(name))
    hostile_node = report(1, 1, job=identity("b"), nodes=(node(name),))
    hostile_sample = report(1, 1, job=identity("c"), samples=(node_sample(name, 5.0),))
    answers = write_reports(database, [hostile_job, report(1, 1), hostile_node, hostile_sample], 2000.0)
    assert [bool(answer.refused) for answer in answers] == [True, False, True, True]
    assert [each.identity for each in running_jobs(database)] == [identity()]


def test_names_in_any_script_are_kept_and_texts_are_cut(database: Database) -> None:
    named = identity("тест-💥-訓練")
    long = node("𝕨orker", host="h" * 10_000, exit_reason="\0" * 5000, ended_at=1.0)
    assert write_reports(database, [report(1, 1, job=named, nodes=(long,), phase="💥" * 500)], 2000.0)[0].refused == ""
    [stored] = running_jobs(database)
    [found] = nodes_of(database, stored.id)
    assert (stored.identity, found.name, len(found.host), len(stored.phase)) == (named, "𝕨orker", 253, 64)
    assert "\0" not in found.exit_reason
    assert len(found.exit_reason) <= 1000


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e308])
def test_numbers_that_mean_nothing_are_refused(database: Database, value: float) -> None:
    sample = replace(report(1).sample, rate=value)
    [answer] = write_reports(database, [report(1, sample=sample)], 2000.0)
    assert answer.refused
    assert running_jobs(database) == ()


def test_counts_beyond_any_column_are_refused(database: Database) -> None:
    [answer] = write_reports(database, [report(1, 1 << 64)], 2000.0)
    assert answer.refused


def test_a_brain_that_is_not_active_any_more_writes_nothing(database: Database) -> None:
    mine = acquire(database, ACTIVE_BRAIN, "a", 60.0)
    assert mine is not None
    write_reports(database, [report(1)], 2000.0, term=mine.term)
    with pytest.raises(FencedOff):
        write_reports(database, [report(2, 50)], 2001.0, term=mine.term + 1)
    with database.reading() as connection:
        assert connection.scalar(select(jobs.c.sequence)) == 1
