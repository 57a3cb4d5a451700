"""What is kept for how long. ``roll_up`` is called every now and then, in small transactions that reports can run between.

It can be killed anywhere and called again, by any Brain. Of a job that ended long ago only what it taught is left
(``past_jobs.py``), and all its samples as one, so that ``accepted`` still adds up to its records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, Table, delete, exists, select, update

from pliant.brain.store.database import Database
from pliant.brain.store.leases import check_term
from pliant.brain.store.resolutions import EARLIER, HOUR, MINUTE, RAW
from pliant.brain.store.rollup import begin_of, merged_job_sample, roll_up_jobs, roll_up_nodes
from pliant.brain.store.tables import (
    algorithm_runs,
    grants,
    job_samples,
    jobs,
    journal_batches,
    journal_chunks,
    journals,
    node_samples,
    nodes,
    optimize_events,
    periods,
    plans,
)

DAY_S = 86_400.0
_PORTION = 200  # jobs, nodes or events of one query
_BATCHES = 20  # of a journal, of up to 16 MB each
_THEIRS = (periods, plans, optimize_events, algorithm_runs, grants)  # few rows each


@dataclass(frozen=True, slots=True)
class Retention:
    """Seconds; each is counted from now."""

    raw_s: float = DAY_S  # samples as they were reported
    minutes_s: float = 7 * DAY_S
    hours_s: float = 90 * DAY_S
    events_s: float = 90 * DAY_S  # optimize events and runs of algorithms, of jobs that run
    ended_s: float = 30 * DAY_S  # jobs that ended
    taught_s: float = 365 * DAY_S  # what they taught
    silent_s: float = 7 * DAY_S  # after which a job that reports nothing counts as ended


@dataclass(frozen=True, slots=True)
class RolledUp:
    job_samples: int
    node_samples: int
    silent_jobs: int
    pruned_jobs: int
    removed_jobs: int
    removed_journals: int


def roll_up(database: Database, now: float, settings: Retention | None = None, *, term: int | None = None) -> RolledUp:
    """How much was rolled up and removed; a second call finds nothing to do. Raises ``FencedOff``."""
    keep = settings if settings is not None else Retention()
    of_jobs = of_nodes = 0
    for resolution, into, age_s in (
        (RAW, MINUTE, keep.raw_s),
        (MINUTE, HOUR, keep.minutes_s),
        (HOUR, EARLIER, keep.hours_s),
    ):
        before = begin_of(now - age_s, max(into, MINUTE))  # whole minutes and hours only
        of_jobs += roll_up_jobs(database, resolution, into, before, term)
        of_nodes += roll_up_nodes(database, resolution, into if into != EARLIER else None, before, term)
    silent = _end_silent_jobs(database, now - keep.silent_s, term)
    _drop_old_events(database, now - keep.events_s, term)
    pruned = _prune_ended_jobs(database, now, keep, term)
    removed = _remove_old_jobs(database, now, keep, term)
    return RolledUp(of_jobs, of_nodes, silent, pruned, removed, _remove_journals(database, now - keep.ended_s, term))


def _end_silent_jobs(database: Database, before: float, term: int | None) -> int:
    def end(connection: Connection) -> int:
        check_term(connection, term)
        silent = (jobs.c.ended_at == 0, jobs.c.last_heard_at < before)
        return connection.execute(update(jobs).where(*silent).values(ended_at=jobs.c.last_heard_at)).rowcount

    return database.transaction(end)


def _drop_old_events(database: Database, before: float, term: int | None) -> None:
    def drop(connection: Connection, table: Table, time: str) -> int:
        check_term(connection, term)
        old = list(connection.scalars(select(table.c.id).where(table.c[time] < before).limit(_PORTION)))
        return connection.execute(delete(table).where(table.c.id.in_(old))).rowcount if old else 0

    for table, time in ((algorithm_runs, "began_at"), (optimize_events, "raised_at")):
        while database.transaction(partial(drop, table=table, time=time)):
            pass


def _prune_ended_jobs(database: Database, now: float, keep: Retention, term: int | None) -> int:
    """Everything of jobs that ended long ago goes, but not their own rows."""
    before = now - keep.ended_s
    query = (
        select(jobs.c.id).where(jobs.c.ended_at > 0, jobs.c.ended_at < before, jobs.c.pruned_at == 0).limit(_PORTION)
    )
    pruned = 0
    while True:
        with database.reading() as connection:
            found = list(connection.scalars(query))
        if not found:
            return pruned
        for job in found:
            portion = partial(_prune, job=job, before=before, now=now, term=term)
            while (has_more := database.transaction(portion)) is True:
                pass
            pruned += has_more is False


def _prune(connection: Connection, job: int, before: float, now: float, term: int | None) -> bool | None:
    """Whether there is more to do; None: the job runs again."""
    check_term(connection, term)
    is_old = (jobs.c.id == job, jobs.c.ended_at > 0, jobs.c.ended_at < before)
    if connection.execute(select(jobs.c.id).where(*is_old).with_for_update()).one_or_none() is None:
        return None
    some = list(connection.scalars(select(nodes.c.id).where(nodes.c.job_id == job).limit(_PORTION)))
    if some:
        connection.execute(delete(node_samples).where(node_samples.c.node_id.in_(some)))
        connection.execute(delete(nodes).where(nodes.c.id.in_(some)))
        return True
    for table in _THEIRS:
        connection.execute(delete(table).where(table.c.job_id == job))
    query = select(job_samples).where(job_samples.c.job_id == job).order_by(job_samples.c.time)
    samples = [dict(row) for row in connection.execute(query).mappings()]
    if samples:
        connection.execute(delete(job_samples).where(job_samples.c.job_id == job))
        connection.execute(job_samples.insert().values(**merged_job_sample(0.0, EARLIER, samples)))
    connection.execute(update(jobs).where(jobs.c.id == job).values(pruned_at=now, history=None))
    return False


def _remove_old_jobs(database: Database, now: float, keep: Retention, term: int | None) -> int:
    """The rows of jobs that were pruned and taught nothing, or taught it too long ago."""
    is_over = (
        jobs.c.pruned_at > 0,
        jobs.c.ended_at > 0,
        jobs.c.taught_configuration.is_(None) | (jobs.c.taught_ended < now - keep.taught_s),
    )

    def remove(connection: Connection) -> int:
        check_term(connection, term)
        found = list(connection.scalars(select(jobs.c.id).where(*is_over).limit(_PORTION).with_for_update()))
        if found:
            connection.execute(delete(job_samples).where(job_samples.c.job_id.in_(found)))
            connection.execute(delete(jobs).where(jobs.c.id.in_(found)))
        return len(found)

    total = 0
    while done := database.transaction(remove):
        total += done
    return total


def _remove_journals(database: Database, before: float, term: int | None) -> int:
    """Those that nobody wrote to for that long, unless their job runs."""
    is_running = exists().where(
        jobs.c.namespace == journals.c.namespace,
        jobs.c.name == journals.c.name,
        jobs.c.uid == journals.c.uid,
        (jobs.c.ended_at == 0) | (jobs.c.ended_at >= before),
    )
    is_old = (journals.c.written_at < before, journals.c.opened_at < before, ~is_running)

    def remove(connection: Connection) -> tuple[bool, int]:
        """Whether there was something to do, and how many journals are gone."""
        check_term(connection, term)
        journal = connection.scalar(select(journals.c.id).where(*is_old).limit(1).with_for_update())
        if journal is None:
            return False, 0
        of_journal = select(journal_batches.c.number).where(journal_batches.c.journal_id == journal).limit(_BATCHES)
        numbers = list(connection.scalars(of_journal))
        for table in (journal_chunks, journal_batches):
            connection.execute(delete(table).where(table.c.journal_id == journal, table.c.number.in_(numbers)))
        if len(numbers) == _BATCHES:
            return True, 0
        connection.execute(delete(journals).where(journals.c.id == journal))
        return True, 1

    total = 0
    while True:
        has_more, gone = database.transaction(remove)
        total += gone
        if not has_more:
            return total
