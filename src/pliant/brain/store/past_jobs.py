"""What ended jobs taught: where ``create_from_history`` begins a new one. Over all jobs of the cluster."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row, or_, select

from pliant.brain.store.database import Database
from pliant.brain.store.report_rows import fingerprint_row
from pliant.brain.store.tables import jobs
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import FinishedJob
from pliant.core.planning.past_jobs import Fingerprint, PastJob

MAX_CANDIDATES = 500  # that are compared: the last ones to end


def similar_jobs(database: Database, fingerprint: Fingerprint, limit: int) -> tuple[FinishedJob, ...]:
    """The most alike first, of equally alike ones the last to end; none that is not alike at all."""
    wanted = fingerprint_row(fingerprint)
    query = (
        select(jobs)
        .where(
            jobs.c.strategy == wanted["strategy"],
            or_(jobs.c.command == wanted["command"], jobs.c.program == wanted["program"]),
            jobs.c.taught_configuration.is_not(None),
        )
        .order_by(jobs.c.taught_ended.desc())
        .limit(MAX_CANDIDATES)
    )
    with database.reading() as connection:
        found = [past_job(row).seen_from(fingerprint) for row in connection.execute(query)]
    alike = [job for job in found if job.similarity > 0]
    return tuple(sorted(alike, key=lambda job: (-job.similarity, -job.ended))[:limit])


def past_job(row: Row[Any]) -> PastJob:
    """Of a row of ``jobs`` that taught something."""
    return PastJob(
        Fingerprint(row.strategy, row.command, row.program, row.stem, row.dataset_records),
        row.taught_ended,
        bool(row.taught_succeeded),
        Configuration.from_json(json.loads(row.taught_configuration)),
        row.taught_rate,
        row.taught_worker_memory_mb,
        row.taught_server_memory_mb,
    )
