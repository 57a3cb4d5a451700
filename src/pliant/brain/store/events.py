"""Optimize events, and the runs of algorithms that they led to: why the Brain did, or did not, plan something."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from pliant.brain.store import bounded
from pliant.brain.store.database import Database
from pliant.brain.store.jobs import id_of
from pliant.brain.store.leases import check_term
from pliant.brain.store.tables import algorithm_runs, jobs, optimize_events
from pliant.brain.store.upserts import upsert
from pliant.core.planning.cluster.report import JobIdentity


@dataclass(frozen=True, slots=True)
class StoredEvent:
    id: str
    job: JobIdentity
    kind: str
    reason: str
    raised_at: float
    ended_at: float = 0.0  # 0: it is being worked on
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class AlgorithmRun:
    job: JobIdentity
    event: str
    algorithm: str
    began_at: float
    took_s: float
    outcome: str  # proposed, nothing, failed, timed out, refused
    detail: str = ""
    offer: str = ""  # that was made of its proposal


def store_event(database: Database, event: StoredEvent, *, term: int | None = None) -> None:
    """The same event again changes nothing but how it ended."""
    row = {
        "id": bounded.checked_name(event.id, "optimize event"),
        "kind": bounded.word(event.kind),
        "reason": bounded.sentence(event.reason),
        "raised_at": bounded.number(event.raised_at),
        "ended_at": bounded.number(event.ended_at),
        "outcome": bounded.word(event.outcome),
    }

    def store(connection: Connection) -> None:
        check_term(connection, term)
        first = ("job_id", "kind", "reason", "raised_at")
        upsert(connection, optimize_events, [{"job_id": id_of(connection, event.job), **row}], keep=first)

    database.transaction(store)


def end_event(database: Database, event: str, outcome: str, ended_at: float, *, term: int | None = None) -> None:
    def end(connection: Connection) -> None:
        check_term(connection, term)
        unended = (optimize_events.c.id == event, optimize_events.c.ended_at == 0)
        ended = {"ended_at": ended_at, "outcome": bounded.word(outcome)}
        connection.execute(update(optimize_events).where(*unended).values(**ended))

    database.transaction(end)


def events_of(database: Database, job_id: int, limit: int = 200) -> tuple[StoredEvent, ...]:
    """Newest first."""
    query = (
        select(optimize_events, jobs.c.namespace, jobs.c.name, jobs.c.uid)
        .join(jobs, jobs.c.id == optimize_events.c.job_id)
        .where(optimize_events.c.job_id == job_id)
        .order_by(optimize_events.c.raised_at.desc())
        .limit(limit)
    )
    with database.reading() as connection:
        return tuple(
            StoredEvent(
                row.id,
                JobIdentity(row.namespace, row.name, row.uid),
                row.kind,
                row.reason,
                row.raised_at,
                row.ended_at,
                row.outcome,
            )
            for row in connection.execute(query)
        )


def store_run(database: Database, run: AlgorithmRun, *, term: int | None = None) -> None:
    row = {
        "event": bounded.name_or_none(run.event, "optimize event"),
        "algorithm": bounded.label(run.algorithm),
        "began_at": bounded.number(run.began_at),
        "took_s": bounded.number(run.took_s),
        "outcome": bounded.word(run.outcome),
        "detail": bounded.sentence(run.detail),
        "offer": bounded.name_or_none(run.offer, "offer"),
    }

    def store(connection: Connection) -> None:
        check_term(connection, term)
        connection.execute(insert(algorithm_runs).values(job_id=id_of(connection, run.job), **row))

    database.transaction(store)


def runs_of(database: Database, job_id: int, limit: int = 200) -> tuple[AlgorithmRun, ...]:
    """Newest first."""
    query = (
        select(algorithm_runs, jobs.c.namespace, jobs.c.name, jobs.c.uid)
        .join(jobs, jobs.c.id == algorithm_runs.c.job_id)
        .where(algorithm_runs.c.job_id == job_id)
        .order_by(algorithm_runs.c.began_at.desc(), algorithm_runs.c.id.desc())
        .limit(limit)
    )
    with database.reading() as connection:
        return tuple(
            AlgorithmRun(
                JobIdentity(row.namespace, row.name, row.uid),
                row.event,
                row.algorithm,
                row.began_at,
                row.took_s,
                row.outcome,
                row.detail,
                row.offer,
            )
            for row in connection.execute(query)
        )
