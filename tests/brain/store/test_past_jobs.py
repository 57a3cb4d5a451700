"""What a job taught is found by those that are like it, whoever ran it and however long ago."""

from __future__ import annotations

from dataclasses import replace

from tests.brain.store.reporting import HISTORY, MARK, TAUGHT, identity, report

from pliant.brain.store.database import Database
from pliant.brain.store.jobs import history_of, job
from pliant.brain.store.past_jobs import similar_jobs
from pliant.brain.store.reports import write_reports


def teach(database: Database, name: str, **changes: object) -> None:
    taught = replace(TAUGHT, **changes)  # type: ignore[arg-type]
    ended = report(2, phase="Succeeded", job=identity(name), taught=taught)
    write_reports(database, [report(1, job=identity(name)), ended], 2000.0)


def test_the_most_alike_come_first(database: Database) -> None:
    teach(database, "other-arguments", fingerprint=replace(MARK, command="x", stem="y"))
    teach(database, "same")
    teach(database, "same-later", ended=6000.0)
    teach(database, "other-strategy", fingerprint=replace(MARK, strategy="ps"))
    teach(database, "other-program", fingerprint=replace(MARK, command="x", program="other.py"))
    found = similar_jobs(database, MARK, 10)
    assert found == (
        replace(TAUGHT, ended=6000.0).seen_from(MARK),
        TAUGHT.seen_from(MARK),
        replace(TAUGHT, fingerprint=replace(MARK, command="x", stem="y")).seen_from(MARK),
    )
    assert similar_jobs(database, MARK, 1) == found[:1]


def test_jobs_that_run_or_taught_nothing_are_not_found(database: Database) -> None:
    write_reports(
        database, [report(1), report(1, job=identity("b")), report(2, job=identity("b"), phase="Failed")], 1.0
    )
    assert similar_jobs(database, MARK, 10) == ()


def test_a_history_has_similar_jobs(database: Database) -> None:
    teach(database, "earlier")
    write_reports(database, [report(1, history=HISTORY)], 2000.0)
    found = history_of(database, job(database, "team", "resnet-1"))
    assert found == replace(HISTORY, similar=(TAUGHT.seen_from(MARK),))


def test_a_job_that_reported_no_history_has_none(database: Database) -> None:
    write_reports(database, [report(1)], 2000.0)
    assert history_of(database, job(database, "team", "resnet-1")) is None
