"""Quotas: what the jobs of a group may have together, what they use of it, and what each of them was granted.

Nodes of a job count as its master reports them. Nobody plans for a job in manual mode: its nodes count as its cluster shows them.
A node without a limit of CPU counts as one core, as in a ``Configuration``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, case, delete, func, literal, select, union_all

from pliant.brain.store import bounded
from pliant.brain.store.database import Database
from pliant.brain.store.jobs import id_of
from pliant.brain.store.leases import check_term
from pliant.brain.store.report_rows import to_text
from pliant.brain.store.tables import grants, jobs, nodes, observed_nodes, quotas
from pliant.brain.store.upserts import upsert
from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.planning.configuration import Configuration

MANUAL = "manual"
_PRESENT = ("Pending", "Running")  # phases of an observed node that takes room


@dataclass(frozen=True, slots=True)
class StoredQuota:
    """None: no limit."""

    name: str
    cpu: float | None = None
    memory_mb: float | None = None
    gpu: int | None = None
    nodes: int | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class StoredGrant:
    grant: Grant
    made_at: float


@dataclass(frozen=True, slots=True)
class QuotaUse:
    quota: str
    cpu: float
    memory_mb: float
    gpu: int
    nodes: int
    jobs: int


def set_quota(database: Database, quota: StoredQuota, changed_at: float, *, term: int | None = None) -> None:
    row = _quota_row(quota, changed_at)

    def store(connection: Connection) -> None:
        check_term(connection, term)
        upsert(connection, quotas, [row])

    database.transaction(store)


def change_quota(database: Database, name: str, changes: Mapping[str, float | None], changed_at: float) -> StoredQuota:
    """Some limits of it; the others stay as they are. One that does not exist is created."""

    def change(connection: Connection) -> StoredQuota:
        new = _quota_row(StoredQuota(name), changed_at)
        upsert(connection, quotas, [new], keep=tuple(new))  # a row to lock
        row = connection.execute(select(quotas).where(quotas.c.name == name).with_for_update()).one()
        changed = replace(_quota(row), **changes)  # type: ignore[arg-type]
        upsert(connection, quotas, [_quota_row(changed, changed_at)])
        return changed

    return database.transaction(change)


def list_quotas(database: Database) -> tuple[StoredQuota, ...]:
    with database.reading() as connection:
        rows = connection.execute(select(quotas).order_by(quotas.c.name)).all()
    return tuple(_quota(row) for row in rows)


def remove_quota(database: Database, name: str, *, term: int | None = None) -> bool:
    """False: there was none. Jobs that name it are without a limit from now on."""

    def remove(connection: Connection) -> bool:
        check_term(connection, term)
        return connection.execute(delete(quotas).where(quotas.c.name == name)).rowcount > 0

    return database.transaction(remove)


def use_by_quota(database: Database) -> dict[str, QuotaUse]:
    """Of all quotas that running jobs name, whether there is such a quota or not; those without one are under ''."""
    reported = (
        select(jobs.c.quota, jobs.c.id, _cores(nodes.c.cpu).label("cpu"), nodes.c.memory_mb, nodes.c.gpu)
        .join(nodes, nodes.c.job_id == jobs.c.id)
        .where(jobs.c.ended_at == 0, nodes.c.ended_at == 0, jobs.c.mode != MANUAL)
    )
    is_same = (observed_nodes.c.namespace == jobs.c.namespace) & (observed_nodes.c.job == jobs.c.name)
    seen = (
        select(
            jobs.c.quota,
            jobs.c.id,
            _cores(observed_nodes.c.cpu).label("cpu"),
            observed_nodes.c.memory_mb,
            observed_nodes.c.gpu,
        )
        .join(observed_nodes, is_same)
        .where(jobs.c.ended_at == 0, jobs.c.mode == MANUAL, observed_nodes.c.phase.in_(_PRESENT))
    )
    used = union_all(reported, seen).subquery()
    query = select(
        used.c.quota,
        func.sum(used.c.cpu).label("cpu"),
        func.sum(used.c.memory_mb).label("memory_mb"),
        func.sum(used.c.gpu).label("gpu"),
        func.count().label("nodes"),
        func.count(used.c.id.distinct()).label("jobs"),
    ).group_by(used.c.quota)
    with database.reading() as connection:
        rows = connection.execute(query).all()
    return {row.quota: _use(row) for row in rows}


def store_grant(database: Database, job: JobIdentity, grant: Grant, made_at: float, *, term: int | None = None) -> None:
    """The same number again changes nothing: what a job was told stays."""
    row = {
        "number": bounded.count(grant.number),
        "limit_configuration": to_text(grant.limit.to_json()) if grant.limit is not None else None,
        "is_unlimited": grant.is_unlimited,
        "reason": bounded.sentence(grant.reason),
        "grace_s": bounded.number(grant.grace_s),
        "made_at": bounded.number(made_at),
    }

    def store(connection: Connection) -> None:
        check_term(connection, term)
        upsert(connection, grants, [{"job_id": id_of(connection, job), **row}], keep=tuple(row))

    database.transaction(store)


def last_grants(database: Database) -> dict[JobIdentity, Grant]:
    """Of each job that runs and was ever granted something."""
    newest = select(grants.c.job_id, func.max(grants.c.number).label("number")).group_by(grants.c.job_id).subquery()
    query = (
        select(grants, jobs.c.namespace, jobs.c.name, jobs.c.uid)
        .join(newest, (grants.c.job_id == newest.c.job_id) & (grants.c.number == newest.c.number))
        .join(jobs, jobs.c.id == grants.c.job_id)
        .where(jobs.c.ended_at == 0)
    )
    with database.reading() as connection:
        rows = connection.execute(query).all()
    return {JobIdentity(row.namespace, row.name, row.uid): _grant(row) for row in rows}


def grants_of(database: Database, job_id: int, limit: int = 20) -> tuple[StoredGrant, ...]:
    """Newest first."""
    query = (
        select(grants, jobs.c.name)
        .join(jobs, jobs.c.id == grants.c.job_id)
        .where(grants.c.job_id == job_id)
        .order_by(grants.c.number.desc())
        .limit(limit)
    )
    with database.reading() as connection:
        return tuple(StoredGrant(_grant(row), row.made_at) for row in connection.execute(query))


def _quota_row(quota: StoredQuota, changed_at: float) -> dict[str, Any]:
    return {
        "name": bounded.checked_name(quota.name, "quota"),
        "cpu": bounded.maybe_number(quota.cpu),
        "memory_mb": bounded.maybe_number(quota.memory_mb),
        "gpu": quota.gpu,
        "nodes": quota.nodes,
        "weight": bounded.number(quota.weight),
        "changed_at": bounded.number(changed_at),
    }


def _quota(row: Row[Any]) -> StoredQuota:
    return StoredQuota(row.name, row.cpu, row.memory_mb, row.gpu, row.nodes, row.weight)


def _cores(cpu: Any) -> ColumnElement[float]:
    return case((cpu > 0, cpu), else_=literal(1.0))


def _use(row: Row[Any]) -> QuotaUse:
    return QuotaUse(row.quota, float(row.cpu), float(row.memory_mb), int(row.gpu), row.nodes, row.jobs)


def _grant(row: Row[Any]) -> Grant:
    limit = Configuration.from_json(json.loads(row.limit_configuration)) if row.limit_configuration else None
    return Grant(row.name, row.number, limit, row.reason, row.grace_s, bool(row.is_unlimited))
