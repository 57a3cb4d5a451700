"""Reading jobs: which run, what one of them is, and its history as algorithms want it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select

from pliant.brain.store.database import Database
from pliant.brain.store.past_jobs import similar_jobs
from pliant.brain.store.tables import jobs, nodes, periods
from pliant.core.errors import NotFound
from pliant.core.planning.cluster.report import JobDescription, JobIdentity, JobSample, NodeFacts, NumberedPeriod
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory, Period, StepParts
from pliant.core.planning.history_json import history_from_json
from pliant.core.planning.past_jobs import Fingerprint

MAX_PERIODS = 500  # of a history: the last ones
MAX_SIMILAR = 20
_COLUMNS = [column for column in jobs.c if column.name != "history"]


@dataclass(frozen=True, slots=True)
class StoredJob:
    """What is known of a job; ``id`` names it inside of this database."""

    id: int
    identity: JobIdentity
    description: JobDescription
    phase: str
    session: int
    sequence: int
    reports_lost: int
    samples_lost: int
    granted: int  # number of the last grant that it keeps to
    first_heard_at: float
    last_heard_at: float
    started_at: float
    ended_at: float  # 0: it runs
    sample: JobSample  # the last one

    @property
    def is_running(self) -> bool:
        return self.ended_at == 0


def running_jobs(database: Database) -> tuple[StoredJob, ...]:
    """All that have not ended, as far as the Brain heard; oldest first."""
    return _found(database, jobs.c.ended_at == 0)


def recorded_jobs(database: Database, since: float = 0.0) -> tuple[StoredJob, ...]:
    """All that were heard of since then; oldest first."""
    return _found(database, jobs.c.last_heard_at >= since)


def find_job(database: Database, namespace: str, name: str) -> StoredJob | None:
    """The newest of that name."""
    found = _found(database, jobs.c.namespace == namespace, jobs.c.name == name, jobs.c.is_replaced.is_(False))
    return found[-1] if found else None


def jobs_named(database: Database, name: str, namespace: str = "") -> tuple[StoredJob, ...]:
    """All of that name, of one namespace or of all of them; oldest first."""
    return _found(database, jobs.c.name == name, *([jobs.c.namespace == namespace] if namespace else ()))


def job(database: Database, namespace: str, name: str) -> StoredJob:
    found = find_job(database, namespace, name)
    if found is None:
        raise NotFound(f"job {namespace}/{name} not found", hint="list jobs with: pliant brain jobs")
    return found


def nodes_of(database: Database, job_id: int) -> tuple[NodeFacts, ...]:
    query = select(nodes).where(nodes.c.job_id == job_id).order_by(nodes.c.id)
    with database.reading() as connection:
        return tuple(
            NodeFacts(
                row.name,
                row.role,
                row.state,
                row.cpu,
                row.memory_mb,
                row.gpu,
                row.host,
                row.created_at,
                row.started_at,
                row.ended_at,
                row.exit_reason,
            )
            for row in connection.execute(query)
        )


def periods_of(database: Database, job_id: int, limit: int = MAX_PERIODS) -> tuple[NumberedPeriod, ...]:
    """The last ones, oldest first."""
    query = select(periods).where(periods.c.job_id == job_id).order_by(periods.c.number.desc()).limit(limit)
    with database.reading() as connection:
        rows = connection.execute(query).all()
    return tuple(NumberedPeriod(row.number, _period(row)) for row in reversed(rows))


def history_of(database: Database, stored: StoredJob) -> JobHistory | None:
    """With its periods, and with similar jobs that ended. None: the master has not reported any yet."""
    with database.reading() as connection:
        written = connection.scalar(select(jobs.c.history).where(jobs.c.id == stored.id))
    if written is None:
        return None
    return assembled(
        history_from_json(json.loads(written)),
        [each.period for each in periods_of(database, stored.id)],
        similar=similar_jobs(database, stored.description.fingerprint, MAX_SIMILAR),
    )


def assembled(reported: JobHistory, measured: Sequence[Period], **others: Any) -> JobHistory:
    """Of the report's part and what is stored as rows."""
    return replace(reported, periods=tuple(measured), **others)


def id_of(connection: Connection, identity: JobIdentity) -> int:
    """Raises ``NotFound``."""
    wanted = (jobs.c.namespace == identity.namespace, jobs.c.name == identity.name, jobs.c.uid == identity.uid)
    found = connection.scalar(select(jobs.c.id).where(*wanted))
    if found is None:
        raise NotFound(f"job {identity} with uid {identity.uid} has not reported yet")
    return int(found)


def _found(database: Database, *conditions: ColumnElement[bool]) -> tuple[StoredJob, ...]:
    with database.reading() as connection:
        rows = connection.execute(select(*_COLUMNS).where(*conditions).order_by(jobs.c.id)).all()
    return tuple(_stored(row) for row in rows)


def _stored(row: Row[Any]) -> StoredJob:
    description = JobDescription(
        row.owner,
        row.quota,
        row.priority,
        bool(row.is_preemptible),
        row.mode,
        row.platform,
        tuple(json.loads(row.algorithms or "[]")),
        Fingerprint(row.strategy, row.command, row.program, row.stem, row.dataset_records),
    )
    return StoredJob(
        row.id,
        JobIdentity(row.namespace, row.name, row.uid),
        description,
        row.phase,
        row.session,
        row.sequence,
        row.reports_lost,
        row.samples_lost,
        row.granted,
        row.first_heard_at,
        row.last_heard_at,
        row.started_at,
        row.ended_at,
        JobSample(row.sampled_at, row.records, row.step, row.rate, row.running, row.waiting),
    )


def _period(row: Row[Any]) -> Period:
    return Period(
        Configuration.from_json(json.loads(row.configuration)),
        row.began,
        row.ended,
        row.rate,
        row.error,
        row.samples,
        StepParts(row.data, row.compute, row.peers),
    )
