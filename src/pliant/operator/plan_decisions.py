"""What to do about the ScalePlans of one job.

Plans of the master are executed one after the other, by sequence number. A Pod that the cluster does not accept now (quota,
a missing permission, no response) is retried with back-off; what can never be accepted is refused at once. Retrying ends
after ``RETRY_TIMEOUT_S`` or when the master has written a later plan: then the plan is ``Failed`` and names what was refused,
and the master makes a new plan. So a plan that frees resources is never stuck behind one that waits for them.

Manual plans are answered by the master; here they only get their owner, and an answer where no master can give one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from pliant.core.nodes.fault_policy import Backoff
from pliant.core.plurals import counted
from pliant.operator.actions import Action, DeletePlan, PatchPlan
from pliant.operator.observed import ObservedJob, is_deleting, is_finished, made_by_master, owner_uid, uid_of
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import JOB_LABEL, MADE_BY_LABEL, MADE_BY_PERSON, owner_reference, pod_name
from pliant.platforms.kubernetes.plans import PodToCreate, PodToRemove, ScalePlanSpec
from pliant.platforms.kubernetes.timestamps import rfc3339, seconds_of

MAX_FINISHED_PLANS = 20  # of the master, kept per job
RETRY_TIMEOUT_S = 60.0  # for Pods that the cluster does not accept
RETRY_BACKOFF = Backoff(1.0, 2.0, 15.0)
PREDECESSOR_TIMEOUT_S = 1.0  # that a plan waits for its unknown predecessor
LARGE_PLAN = 20  # Pods: a larger plan reports when it starts, a smaller one is done before anybody looks
NOT_WRITTEN_BY_MASTER = (
    f"its label {MADE_BY_LABEL} marks it as written by a master, but no master wrote it: remove the label"
)
JOB_TIMEOUT_S = 30.0  # that a plan waits for the job it names


@dataclass(frozen=True, slots=True)
class Problem:
    """A Pod that the cluster did not accept."""

    node: str
    message: str
    is_transient: bool  # it may be accepted later


@dataclass(slots=True)
class Progress:
    """How far the execution of one plan is."""

    plan: str  # its uid
    started_at: float
    started: str = ""  # as an earlier operator wrote it into the status
    created: set[str] = field(default_factory=set)  # by this operator, or by an earlier one that was interrupted
    removed: set[str] = field(default_factory=set)
    problems: dict[str, Problem] = field(default_factory=dict)  # by node
    attempts: int = 0
    not_before: float = 0.0
    is_announced: bool = False  # the status says that it is being executed


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do of the next plan."""

    plan: Object
    create: tuple[PodToCreate, ...] = ()
    remove: tuple[PodToRemove, ...] = ()
    there: frozenset[str] = frozenset()  # nodes to create that have a Pod already
    wait: float = 0.0  # seconds before anything is done
    broken: str = ""  # why it cannot be read

    @property
    def size(self) -> int:
        return len(self.create) + len(self.remove)


def next_work(
    observed: ObservedJob, progress: Progress | None, first_seen: dict[str, float], now: float
) -> Work | None:
    """The next plan, and what is left of it; None: there is nothing to do."""
    plans = observed.master_plans
    plan = next((plan for plan in plans if not is_finished(plan) and not is_deleting(plan)), None)
    if plan is None or observed.job is None or is_deleting(observed.job):
        return None
    number = int(plan["spec"].get("sequence") or 0)
    known = {int(other["spec"].get("sequence") or 0) for other in plans}
    if number > 1 and number - 1 not in known and not progress:
        waited = now - first_seen.setdefault(uid_of(plan), now)
        if waited < PREDECESSOR_TIMEOUT_S:
            return Work(plan, wait=PREDECESSOR_TIMEOUT_S - waited)
    try:
        spec = ScalePlanSpec.model_validate(plan["spec"])
    except ValidationError as error:
        return Work(plan, broken=f"invalid plan: {error}")
    if progress is None or progress.plan != uid_of(plan):
        progress = Progress(uid_of(plan), now)
    if now < progress.not_before:
        return Work(plan, wait=progress.not_before - now)
    there = observed.pods_by_name
    made = frozenset(entry.node for entry in spec.create if pod_name(observed.name, entry.node) in there)
    settled = progress.created | {problem.node for problem in progress.problems.values() if not problem.is_transient}
    return Work(
        plan,
        create=tuple(entry for entry in spec.create if entry.node not in settled | made),
        there=made,
        remove=tuple(entry for entry in spec.remove if entry.node not in progress.removed),
    )


def status_after_attempt(work: Work, progress: Progress, *, later: bool, now: float) -> dict[str, Any]:
    """The plan's status after an attempt. Either it ended, or ``progress.not_before`` says when the next attempt is due."""
    progress.created |= work.there
    waiting = [problem for problem in progress.problems.values() if problem.is_transient]
    counts = {"created": len(progress.created), "removed": len(progress.removed)}
    times = {"started": progress.started or rfc3339(progress.started_at)}
    if work.broken:
        return {"phase": "Failed", "message": work.broken, **times, "finished": rfc3339(now)}
    if waiting and not later and now - progress.started_at < RETRY_TIMEOUT_S:
        progress.attempts += 1
        progress.not_before = now + RETRY_BACKOFF.delay(progress.attempts - 1)
        message = f"{counted(len(waiting), 'Pod')} not accepted, retrying: {waiting[0].message}"
        retried = {"attempts": progress.attempts, "refused": refused_entries(progress.problems.values())}
        return {"phase": "Executing", "message": message, **times, **counts, **retried}
    ended = {**times, **counts, "finished": rfc3339(now)}
    if progress.problems:
        found = list(progress.problems.values())
        message = f"{counted(len(found), 'Pod')} not accepted: {found[0].message}"
        return {"phase": "Failed", "message": message, **ended, "refused": refused_entries(found)}
    return {"phase": "Succeeded", "message": None, **ended, "refused": None}


def refused_entries(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    return [
        {"node": problem.node, "message": problem.message[:500], "passing": problem.is_transient}
        for problem in problems
    ]


def has_later_plan(observed: ObservedJob, plan: Object) -> bool:
    """Whether the master has written another one since."""
    number = int(plan["spec"].get("sequence") or 0)
    return any(
        int(other["spec"].get("sequence") or 0) > number and not is_finished(other) for other in observed.master_plans
    )


def surplus_plans(observed: ObservedJob) -> list[Action]:
    """Finished plans of the master beyond the number that is kept."""
    finished = [plan for plan in observed.master_plans if is_finished(plan) and not is_deleting(plan)]
    surplus = finished[: max(0, len(finished) - MAX_FINISHED_PLANS)]
    return [DeletePlan(plan["metadata"]["name"], uid_of(plan)) for plan in surplus]


def answer_manual_plans(observed: ObservedJob, now: float) -> tuple[list[Action], float | None]:
    """Manual plans: an owner, so that they are deleted with the job, and an answer where no master can give one."""
    actions: list[Action] = []
    requeue_after: float | None = None
    for plan in observed.plans:
        if made_by_master(plan) and not owner_uid(plan) and not is_finished(plan):
            actions.append(_refused(plan, NOT_WRITTEN_BY_MASTER, now))
    for plan in observed.manual_plans:
        if is_deleting(plan):
            continue
        if is_finished(plan):  # its master may have answered before we observed it
            if observed.job is not None and not is_deleting(observed.job) and not owner_uid(plan):
                actions.append(_owned(plan, observed))
            continue
        if observed.job is None or is_deleting(observed.job):
            age = now - seconds_of(plan["metadata"]["creationTimestamp"])
            if age < JOB_TIMEOUT_S:
                requeue_after = min(requeue_after or JOB_TIMEOUT_S, JOB_TIMEOUT_S - age + 1.0)
            else:
                actions.append(
                    _refused(plan, f"ElasticJob {observed.name} not found in namespace {observed.key[0]}", now)
                )
        elif owner_uid(plan) not in ("", uid_of(observed.job)):
            actions.append(_refused(plan, f"it belongs to a previous ElasticJob {observed.name}", now))
        elif observed.ended:
            actions.append(_refused(plan, f"the job has ended: {observed.phase}", now))
        elif not owner_uid(plan):
            actions.append(_owned(plan, observed))
    return actions, requeue_after


def _owned(plan: Object, observed: ObservedJob) -> PatchPlan:
    assert observed.job is not None
    labels = {JOB_LABEL: observed.name, MADE_BY_LABEL: MADE_BY_PERSON}
    owners = [*(plan["metadata"].get("ownerReferences") or ()), owner_reference(observed.job, controller=False)]
    return PatchPlan(plan, {"metadata": {"labels": labels, "ownerReferences": owners}}, status=False)


def _refused(plan: Object, message: str, now: float) -> PatchPlan:
    status = {"phase": "Refused", "message": message, "finished": rfc3339(now)}
    return PatchPlan(plan, {"status": status}, status=True)
