"""What people ask of the Brain's database: its jobs, one of them in whole, plans and what came of them, quotas and their use.

Plain values, read from the store; ``pliant brain`` shows them as tables or JSON, whether a Brain runs or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pliant.brain.executor.results import RunResult
from pliant.brain.store.database import Database
from pliant.brain.store.events import AlgorithmRun, StoredEvent, events_of, runs_of
from pliant.brain.store.jobs import StoredJob, history_of, jobs_named, nodes_of, periods_of, recorded_jobs, running_jobs
from pliant.brain.store.plans import StoredPlan, last_plans, plans_of, plans_since
from pliant.brain.store.quotas import QuotaUse, StoredGrant, StoredQuota, grants_of, list_quotas, use_by_quota
from pliant.core.decoding import plain
from pliant.core.errors import Conflict, NotFound
from pliant.core.planning.cluster.report import NodeFacts, NumberedPeriod
from pliant.core.planning.plan_statistics import AlgorithmStatistics, comparison_of, statistics_of
from pliant.core.planning.replay import RecordedJob

MAX_PLANS = 10  # of one job, and so on: the last ones
MAX_EVENTS = 20
MAX_PERIODS = 20
MAX_RUNS = 20
AMOUNTS = ("cpu", "memory_mb", "gpu", "nodes")  # that a quota limits
SOUND_RUNS = frozenset(result.value for result in RunResult if not result.is_failure)
OFFERED, NOT_TAKEN = "offered", "not taken"


@dataclass(frozen=True, slots=True)
class ListedJob:
    job: StoredJob
    last_plan: StoredPlan | None

    def to_json(self) -> dict[str, Any]:
        return {**job_json(self.job), "last_plan": plan_json(self.last_plan) if self.last_plan is not None else None}


@dataclass(frozen=True, slots=True)
class JobDetails:
    job: StoredJob
    nodes: tuple[NodeFacts, ...]
    grants: tuple[StoredGrant, ...]  # newest first, as all that follows
    periods: tuple[NumberedPeriod, ...]
    events: tuple[StoredEvent, ...]
    plans: tuple[StoredPlan, ...]
    failed_runs: tuple[AlgorithmRun, ...]
    earlier: int  # jobs of the same name that were replaced by this one

    def to_json(self) -> dict[str, Any]:
        return {
            **job_json(self.job),
            "description": plain(self.job.description),
            "nodes": plain(self.nodes),
            "grants": [{**plain(each.grant), "made_at": each.made_at} for each in self.grants],
            "periods": [{"number": each.number, **plain(each.period)} for each in self.periods],
            "events": [{**plain(each), "job": str(each.job)} for each in self.events],
            "plans": [plan_json(each) for each in self.plans],
            "failed_runs": [{**plain(each), "job": str(each.job)} for each in self.failed_runs],
            "earlier_jobs": self.earlier,
        }


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """``quota`` None: running jobs name it, and it does not exist; then nothing is limited."""

    name: str  # empty: jobs that name none
    quota: StoredQuota | None
    use: QuotaUse

    def to_json(self) -> dict[str, Any]:
        quota, use = self.quota, self.use
        limit = {name: getattr(quota, name, None) for name in AMOUNTS}
        used = {name: getattr(use, name) for name in AMOUNTS}
        return {"name": self.name, "exists": quota is not None, "limit": limit, "used": used, "jobs": use.jobs}


# --- jobs


def list_jobs(database: Database, *, since: float | None = None, quota: str = "", owner: str = "") -> list[ListedJob]:
    """Those that run; or, with ``since``, all that were heard of since then. Oldest first."""
    found = running_jobs(database) if since is None else recorded_jobs(database, since)
    chosen = [job for job in found if quota in ("", job.description.quota) and owner in ("", job.description.owner)]
    plans = last_plans(database, [job.id for job in chosen])
    return [ListedJob(job, plans.get(job.id)) for job in chosen]


def split_name(written: str) -> tuple[str, str]:
    """``NAME`` or ``NAMESPACE/NAME``, as namespace (empty: any) and name."""
    namespace, _, name = written.rpartition("/")
    return namespace, name


def find_one(database: Database, written: str) -> tuple[StoredJob, int]:
    """The newest job of that name, and how many earlier ones there are. Raises ``NotFound``, ``Conflict``."""
    namespace, name = split_name(written)
    found = jobs_named(database, name, namespace)
    if not found:
        raise NotFound(f"job {written} not found", hint="list all jobs with: pliant brain jobs --all")
    namespaces = sorted({job.identity.namespace for job in found})
    if len(namespaces) > 1:
        raise Conflict(
            f"there is a job {name} in {len(namespaces)} namespaces",
            hint=f"name one: {', '.join(f'{each}/{name}' for each in namespaces)}",
        )
    return found[-1], len(found) - 1


def job_details(database: Database, written: str) -> JobDetails:
    job, earlier = find_one(database, written)
    runs = runs_of(database, job.id, 200)
    return JobDetails(
        job,
        nodes_of(database, job.id),
        grants_of(database, job.id),
        periods_of(database, job.id, MAX_PERIODS)[::-1],
        events_of(database, job.id, MAX_EVENTS),
        plans_of(database, job.id, MAX_PLANS),
        tuple(run for run in runs if run.outcome not in SOUND_RUNS)[:MAX_RUNS],
        earlier,
    )


def replayable_jobs(database: Database, since: float, pattern: str = "") -> tuple[list[RecordedJob], int]:
    """Jobs heard of since then whose name, or NAMESPACE/NAME, matches the pattern (``digits-*``); oldest first. Second, how many of
    these were left out since nothing was measured of them, or is left of it."""
    found: list[RecordedJob] = []
    skipped = 0
    for job in recorded_jobs(database, since):
        names = (job.identity.name, str(job.identity))
        if pattern and not any(fnmatchcase(name, pattern) for name in names):
            continue
        history = history_of(database, job)
        if history is not None and history.periods:
            found.append(RecordedJob(str(job.identity), history))
        else:
            skipped += 1
    return found, skipped


def job_json(job: StoredJob) -> dict[str, Any]:
    described, sample = job.description, job.sample
    return {
        "namespace": job.identity.namespace,
        "name": job.identity.name,
        "uid": job.identity.uid,
        "phase": job.phase,
        "is_running": job.is_running,
        "owner": described.owner,
        "quota": described.quota,
        "priority": described.priority,
        "mode": described.mode,
        "nodes_running": sample.running,
        "nodes_waiting": sample.waiting,
        "records": sample.records,
        "step": sample.step,
        "records_per_second": sample.rate if job.is_running else 0.0,
        "granted": job.granted,
        "session": job.session,
        "reports_lost": job.reports_lost,
        "samples_lost": job.samples_lost,
        "first_heard_at": job.first_heard_at,
        "last_heard_at": job.last_heard_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
    }


# --- plans


def list_plans(database: Database, *, since: float, job: str = "", algorithm: str = "") -> tuple[StoredPlan, ...]:
    """Newest first. Raises ``NotFound`` for a job that was never heard of."""
    namespace, name = split_name(job)
    if job and not jobs_named(database, name, namespace):
        raise NotFound(f"job {job} not found", hint="list all jobs with: pliant brain jobs --all")
    return plans_since(database, since, namespace=namespace, name=name, algorithm=algorithm)


def statistics(plans: Iterable[StoredPlan]) -> tuple[AlgorithmStatistics, ...]:
    return statistics_of(plan.record for plan in plans if plan.record is not None)


def standing(plan: StoredPlan) -> str:
    """What became of it, in a word or two."""
    if plan.record is not None:
        return plan.record.standing
    return NOT_TAKEN if plan.closed else OFFERED


def plan_json(plan: StoredPlan) -> dict[str, Any]:
    record, prediction = plan.record, plan.proposal.prediction
    compared = comparison_of(record) if record is not None else None
    return {
        "job": str(plan.job),
        "plan": record.id if record is not None else "",
        "offer": plan.offer,
        "event": plan.event,
        "made_at": plan.made_at,
        "algorithm": plan.proposal.algorithm,
        "reason": plan.proposal.reason,
        "configuration": plain(plan.proposal.configuration),
        "before": plain(record.before) if record is not None else None,
        "before_rate": record.before_rate if record is not None else None,
        "predicted": plain(prediction) if prediction is not None else None,
        "achieved_rate": record.achieved_rate if record is not None else None,
        "achieved_error": record.achieved_error if record is not None else None,
        "error": compared.error if compared is not None else None,
        "is_inside": compared.is_inside if compared is not None else None,
        "outcome": standing(plan),
        "judgement": record.judgement if record is not None else plan.closed,
        "rolls_back": record.rolls_back if record is not None else "",
    }


# --- quotas


def quota_rows(database: Database) -> list[QuotaRow]:
    """All quotas by name, then those that are only named by jobs."""
    quotas = {quota.name: quota for quota in list_quotas(database)}
    used = use_by_quota(database)
    names = [*quotas, *sorted(name for name in used if name not in quotas)]
    return [QuotaRow(name, quotas.get(name), used.get(name, QuotaUse(name, 0.0, 0.0, 0, 0, 0))) for name in names]
