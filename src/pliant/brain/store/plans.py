"""Plans: what the Brain offered, and what became of it. Masters' own plans are there too; ``outcomes.py`` writes what they say."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, select, update

from pliant.brain.store import bounded
from pliant.brain.store.database import Database
from pliant.brain.store.jobs import id_of
from pliant.brain.store.leases import check_term
from pliant.brain.store.report_rows import to_text
from pliant.brain.store.tables import jobs, plans
from pliant.brain.store.upserts import portions, upsert
from pliant.core.planning.cluster.offer import Offer
from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import Objective
from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.proposal import Proposal


@dataclass(frozen=True, slots=True)
class StoredPlan:
    job: JobIdentity
    offer: str  # its id; empty: the master planned it by itself
    event: str  # that the offer was made for
    proposal: Proposal
    base_version: int
    made_at: float
    sent_at: float  # 0: never, or not yet
    expires_at: float  # of the offer; 0 if there was none
    record: PlanRecord | None  # the master's; None: it has made no plan of the offer
    closed: str = ""  # why the Brain gave up on an offer of which no plan was made

    @property
    def is_open(self) -> bool:
        """Offered, and nothing came of it yet."""
        return self.record is None and not self.closed


def store_offer(
    database: Database, job: JobIdentity, offer: Offer, made_at: float, expires_at: float, *, term: int | None = None
) -> None:
    """Before it is sent. The same offer again changes nothing."""
    prediction = offer.proposal.prediction
    row = {
        "offer": bounded.checked_name(offer.id, "offer"),
        "event": bounded.name_or_none(offer.event, "optimize event"),
        "algorithm": bounded.label(offer.proposal.algorithm),
        "reason": bounded.sentence(offer.proposal.reason),
        "proposal": to_text(offer.proposal.to_json()),
        "predicted_rate": bounded.number(prediction.rate) if prediction is not None else None,
        "predicted_low": bounded.number(prediction.low) if prediction is not None else None,
        "predicted_high": bounded.number(prediction.high) if prediction is not None else None,
        "base_version": bounded.count(offer.base_version),
        "made_at": bounded.number(made_at),
        "expires_at": bounded.number(expires_at),
    }

    def store(connection: Connection) -> None:
        check_term(connection, term)
        upsert(connection, plans, [{"job_id": id_of(connection, job), **row}], keep=("job_id", *row))

    database.transaction(store)


def mark_sent(database: Database, offers: Iterable[str], sent_at: float, *, term: int | None = None) -> None:
    """When it went out for the first time."""
    ids = list(offers)

    def mark(connection: Connection) -> None:
        check_term(connection, term)
        for some in portions(ids):
            unsent = (plans.c.offer.in_(some), plans.c.sent_at == 0)
            connection.execute(update(plans).where(*unsent).values(sent_at=sent_at))

    database.transaction(mark)


def close_offer(database: Database, offer: str, why: str, *, term: int | None = None) -> bool:
    """The Brain expects nothing of it any more: it expired, or another one replaces it. False: a plan was made of it."""

    def close(connection: Connection) -> bool:
        check_term(connection, term)
        is_open = (plans.c.offer == offer, plans.c.plan.is_(None))
        return connection.execute(update(plans).where(*is_open).values(judgement=bounded.sentence(why))).rowcount > 0

    return database.transaction(close)


def open_offers(database: Database, now: float, job: JobIdentity | None = None) -> tuple[StoredPlan, ...]:
    """Those that hold, of which no plan was made yet; of one job or of all. Oldest first."""
    holds = [plans.c.plan.is_(None), plans.c.expires_at > now, plans.c.judgement == ""]
    if job is not None:
        holds += [jobs.c.namespace == job.namespace, jobs.c.name == job.name, jobs.c.uid == job.uid]
    return _found(database, *holds)[::-1]


def plans_of(database: Database, job_id: int, limit: int = 200) -> tuple[StoredPlan, ...]:
    """Newest first."""
    return _found(database, plans.c.job_id == job_id, limit=limit)


def plans_since(
    database: Database, since: float, *, namespace: str = "", name: str = "", algorithm: str = ""
) -> tuple[StoredPlan, ...]:
    """Made since then, of all jobs or of those that are named, by any algorithm or by one; newest first."""
    wanted = ((jobs.c.namespace, namespace), (jobs.c.name, name), (plans.c.algorithm, algorithm))
    return _found(database, plans.c.made_at >= since, *(column == value for column, value in wanted if value))


def last_plans(database: Database, job_ids: Iterable[int]) -> dict[int, StoredPlan]:
    """Of each of these jobs that has one, the one that was stored last."""
    found: dict[int, StoredPlan] = {}
    with database.reading() as connection:
        for some in portions(job_ids):
            newest = select(func.max(plans.c.id)).where(plans.c.job_id.in_(some)).group_by(plans.c.job_id)
            query = select(plans, jobs.c.namespace, jobs.c.name, jobs.c.uid).join(jobs, jobs.c.id == plans.c.job_id)
            found |= {row.job_id: _stored(row) for row in connection.execute(query.where(plans.c.id.in_(newest)))}
    return found


def _found(database: Database, *conditions: ColumnElement[bool], limit: int | None = None) -> tuple[StoredPlan, ...]:
    query = (
        select(plans, jobs.c.namespace, jobs.c.name, jobs.c.uid)
        .join(jobs, jobs.c.id == plans.c.job_id)
        .where(*conditions)
        .order_by(plans.c.made_at.desc(), plans.c.id.desc())
        .limit(limit)
    )
    with database.reading() as connection:
        return tuple(_stored(row) for row in connection.execute(query))


def _stored(row: Row[Any]) -> StoredPlan:
    proposal = Proposal.from_json(json.loads(row.proposal))
    return StoredPlan(
        JobIdentity(row.namespace, row.name, row.uid),
        row.offer or "",
        row.event,
        proposal,
        row.base_version,
        row.made_at,
        row.sent_at,
        row.expires_at,
        _record(row, proposal) if row.plan is not None else None,
        row.judgement if row.plan is None else "",
    )


def _record(row: Row[Any], proposal: Proposal) -> PlanRecord:
    return PlanRecord(
        row.plan,
        row.planned_at,
        proposal,
        Configuration.from_json(json.loads(row.before_configuration)),
        row.before_rate,
        row.before_error,
        Objective(row.objective),
        row.base_version,
        row.plan_expires_at,
        Outcome(row.outcome),
        row.accepted_at,
        row.ended_at,
        row.achieved_rate,
        row.achieved_error,
        row.judgement,
        row.rolls_back,
        row.offer or "",
    )
