"""Writing reports: those of many jobs in one transaction, each of them once, in the order of its session.

Of a job the database has the newest session and its last number. A report of an older session, or of a job that was replaced by
another of the same name, is refused; one with a number that was there changes nothing; a number that is skipped counts as lost,
and the master is asked for everything. What is answered is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, select, tuple_, update

from pliant.brain.store.bounded import MAX_COUNT
from pliant.brain.store.database import Database
from pliant.brain.store.leases import check_term
from pliant.brain.store.outcomes import store_outcomes
from pliant.brain.store.report_rows import ReportRows, Row, rows_of
from pliant.brain.store.resolutions import RAW
from pliant.brain.store.tables import job_samples, jobs, node_samples, nodes, owners, periods
from pliant.brain.store.upserts import portions, upsert
from pliant.core.errors import InvalidRequest
from pliant.core.planning.cluster.report import JobIdentity, JobReport

_JOB_UPDATE = update(jobs).where(jobs.c.id == bindparam("job"))


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The answer to one report: the newest session of its job, with all reports up to ``sequence``."""

    session: int
    sequence: int
    wants_all: bool
    refused: str = ""  # why nothing of it was stored: it makes no sense, or its job was replaced


@dataclass(slots=True)
class _Job:
    """What the database has of a job, and will have at the end of the transaction."""

    id: int
    session: int
    sequence: int
    records: int
    reports_lost: int
    wants_all: bool  # until a report says everything, with the job's description
    is_replaced: bool
    last: ReportRows | None = None  # that was accepted in this transaction


@dataclass(slots=True)
class _Rows:
    """Of all reports of the transaction, by table."""

    samples: list[Row] = field(default_factory=list)
    nodes: list[Row] = field(default_factory=list)
    node_samples: list[tuple[int, str, Row]] = field(default_factory=list)  # job, node, values
    periods: list[Row] = field(default_factory=list)
    plans: list[Row] = field(default_factory=list)
    descriptions: list[Row] = field(default_factory=list)
    histories: list[Row] = field(default_factory=list)
    taught: list[Row] = field(default_factory=list)


def write_reports(
    database: Database, reports: Sequence[JobReport], heard_at: float, *, term: int | None = None
) -> list[Acknowledged]:
    """One answer per report, in order. One that makes no sense is refused and the others are written.

    Raises ``FencedOff`` if ``term`` is not that of the active Brain.
    """
    parsed = [_parsed(report) for report in reports]
    return database.transaction(lambda connection: _write(connection, parsed, heard_at, term))


def _parsed(report: JobReport) -> ReportRows | str:
    try:
        return rows_of(report)
    except InvalidRequest as error:
        return error.message


def _write(
    connection: Connection, parsed: Sequence[ReportRows | str], heard_at: float, term: int | None
) -> list[Acknowledged]:
    check_term(connection, term)
    sound = [rows for rows in parsed if not isinstance(rows, str)]
    known = _known_jobs(connection, sound)
    if _add_new_jobs(connection, sound, known, heard_at):
        known = _known_jobs(connection, sound)
    rows = _Rows()
    for each in sound:
        job = known.get(each.report.job)
        if job is not None and not job.is_replaced:
            _take(job, each, rows)
    _store(connection, rows, known, heard_at)
    return [
        Acknowledged(0, 0, False, each) if isinstance(each, str) else _answer(each.report.job, known) for each in parsed
    ]


def _answer(identity: JobIdentity, known: dict[JobIdentity, _Job]) -> Acknowledged:
    job = known.get(identity)
    if job is None:  # it does not say what it is
        return Acknowledged(0, 0, True)
    if job.is_replaced:
        return Acknowledged(job.session, job.sequence, False, f"job {identity} was replaced by another of that name")
    return Acknowledged(job.session, job.sequence, job.wants_all)


def _known_jobs(connection: Connection, sound: Iterable[ReportRows]) -> dict[JobIdentity, _Job]:
    """Those of the reports. Their rows are locked, in the same order everywhere."""
    names = ("id", "session", "sequence", "records", "reports_lost", "wants_all", "is_replaced")
    key = (jobs.c.namespace, jobs.c.name, jobs.c.uid)
    known: dict[JobIdentity, _Job] = {}
    for wanted in portions(sorted({(job.namespace, job.name, job.uid) for job in (rows.report.job for rows in sound)})):
        query = select(*key, *(jobs.c[name] for name in names)).where(tuple_(*key).in_(wanted))
        for row in connection.execute(query.order_by(jobs.c.id).with_for_update()):
            known[JobIdentity(*row[:3])] = _Job(*row[3:])
    return known


def _add_new_jobs(
    connection: Connection, sound: Iterable[ReportRows], known: dict[JobIdentity, _Job], heard_at: float
) -> bool:
    """Jobs that say what they are and are not there yet. They replace an earlier one of the same name, which has ended."""
    new: dict[JobIdentity, Row] = {}
    for rows in sound:
        job = rows.report.job
        if rows.description is not None and job not in known and job not in new:
            new[job] = {
                "namespace": job.namespace,
                "name": job.name,
                "uid": job.uid,
                "first_heard_at": heard_at,
                "started_at": rows.started_at or heard_at,
            }
    upsert(connection, jobs, list(new.values()), keep=("first_heard_at", "started_at"))
    last = {(job.namespace, job.name): job.uid for job in new}  # of several that are new, the last one stays
    for (namespace, name), uid in last.items():
        others = (jobs.c.namespace == namespace, jobs.c.name == name, jobs.c.uid != uid)
        connection.execute(update(jobs).where(*others, jobs.c.ended_at == 0).values(ended_at=heard_at))
        connection.execute(update(jobs).where(*others, jobs.c.is_replaced.is_(False)).values(is_replaced=True))
    return bool(new)


def _take(job: _Job, rows: ReportRows, into: _Rows) -> None:
    """The report counts, unless it did before or belongs to an older session."""
    report = rows.report
    if (report.session, report.sequence) <= (job.session, job.sequence):
        return
    is_new_session = report.session > job.session
    skipped = report.sequence - 1 if is_new_session else report.sequence - job.sequence - 1
    job.reports_lost = min(MAX_COUNT, job.reports_lost + skipped)
    job.wants_all = (skipped > 0 or job.wants_all or is_new_session) and rows.description is None
    into.samples.append(
        {"job_id": job.id, "resolution": RAW, "accepted": rows.sample["records"] - job.records, **rows.sample}
    )
    job.session, job.sequence, job.records, job.last = report.session, report.sequence, rows.sample["records"], rows
    into.nodes += [{"job_id": job.id, **node} for node in rows.nodes]
    into.node_samples += [(job.id, name, values) for name, values in rows.node_samples]
    into.periods += [{"job_id": job.id, **period} for period in rows.periods]
    into.plans += [{"job_id": job.id, **plan} for plan in rows.plans]
    if rows.description is not None:
        into.descriptions.append({"job": job.id, **rows.description})
    if rows.history is not None:
        into.histories.append({"job": job.id, "history": rows.history})
    if rows.taught is not None:
        into.taught.append({"job": job.id, **rows.taught})


def _store(connection: Connection, rows: _Rows, known: dict[JobIdentity, _Job], heard_at: float) -> None:
    upsert(connection, job_samples, rows.samples, add=("accepted",))
    upsert(connection, nodes, rows.nodes)
    incomplete = _store_node_samples(connection, rows.node_samples)
    upsert(connection, periods, rows.periods)
    store_outcomes(connection, rows.plans)
    owned = sorted({row["owner"] for row in rows.descriptions if row["owner"]})
    heard = [{"name": owner, "first_heard_at": heard_at, "last_heard_at": heard_at} for owner in owned]
    upsert(connection, owners, heard, keep=("first_heard_at",))
    for job in known.values():
        job.wants_all = job.wants_all or job.id in incomplete
    changed = [_job_row(job, job.last, heard_at) for job in known.values() if job.last is not None]
    for changes in (changed, rows.descriptions, rows.histories, rows.taught):
        if changes:
            columns: Row = {name: bindparam(f"new_{name}") for name in changes[0] if name != "job"}
            values = [{name if name == "job" else f"new_{name}": row[name] for name in row} for row in changes]
            connection.execute(_JOB_UPDATE.values(**columns), values)


def _job_row(job: _Job, rows: ReportRows, heard_at: float) -> Row:
    report, sample = rows.report, dict(rows.sample)
    return {
        "job": job.id,
        "phase": rows.phase,
        "session": job.session,
        "sequence": job.sequence,
        "reports_lost": job.reports_lost,
        "wants_all": job.wants_all,
        "samples_lost": report.lost,
        "granted": report.granted,
        "last_heard_at": heard_at,
        "ended_at": heard_at if rows.is_final else 0.0,
        "pruned_at": 0.0,
        "sampled_at": sample.pop("time"),
        **sample,
    }


def _store_node_samples(connection: Connection, samples: Sequence[tuple[int, str, Row]]) -> set[int]:
    """Returns the jobs that sampled a node which was not known; it is from now on, by its name alone."""
    wanted = sorted({(job, name) for job, name, _ in samples})
    ids = _node_ids(connection, wanted)
    missing = [pair for pair in wanted if pair not in ids]
    if missing:
        upsert(connection, nodes, [{"job_id": job, "name": name} for job, name in missing])
        ids |= _node_ids(connection, missing)
    rows = [{"node_id": ids[job, name], "resolution": RAW, **values} for job, name, values in samples]
    upsert(connection, node_samples, rows)
    return {job for job, _ in missing}


def _node_ids(connection: Connection, wanted: Iterable[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """And perhaps of others: jobs name their nodes alike, so a few jobs and names say less than all pairs of them."""
    found: dict[tuple[int, str], int] = {}
    for pairs in portions(wanted):
        of_jobs, names = sorted({job for job, _ in pairs}), sorted({name for _, name in pairs})
        query = select(nodes.c.id, nodes.c.job_id, nodes.c.name).where(
            nodes.c.job_id.in_(of_jobs), nodes.c.name.in_(names)
        )
        found |= {(row.job_id, row.name): row.id for row in connection.execute(query)}
    return found
