"""What to do about the ScalePlans of one job.

The master requests plans in its outbox (``platforms/kubernetes/plans.py``). Each becomes a ScalePlan, once, which has its status
and is kept as a record; what is executed is the master's request, never what a ScalePlan says, since others may write those too.
Requests are executed one after the other, by sequence number. A Pod that the cluster does not accept now (quota,
a missing permission, no response) is retried with back-off; what can never be accepted is refused at once. Retrying ends
after ``RETRY_TIMEOUT_S`` or when the master has written a later plan: then the plan is ``Failed`` and names what was refused,
and the master makes a new plan. So a plan that frees resources is never stuck behind one that waits for them.

Manual plans are answered by the master; here they get their owner, the master's answer, and one where no master can give it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from pliant.core.nodes.fault_policy import Backoff
from pliant.core.plurals import counted
from pliant.operator.actions import Action, DeletePlan, PatchPlan, RecordPlans
from pliant.operator.observed import (
    ObservedJob,
    is_deleting,
    is_finished,
    made_by_master,
    owner_uid,
    sequence_of,
    uid_of,
)
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import JOB_LABEL, MADE_BY_LABEL, MADE_BY_PERSON, owner_reference, pod_name
from pliant.platforms.kubernetes.outbox import as_plan
from pliant.platforms.kubernetes.plans import PlanRequest, PodToCreate, PodToRemove
from pliant.platforms.kubernetes.timestamps import rfc3339, seconds_of

MAX_FINISHED_PLANS = 20  # of the master, kept per job
RETRY_TIMEOUT_S = 60.0  # for Pods that the cluster does not accept
RETRY_BACKOFF = Backoff(1.0, 2.0, 15.0)
LARGE_PLAN = 20  # Pods: a larger plan reports when it starts, a smaller one is done before anybody looks
NOT_WRITTEN_BY_MASTER = (
    f"its label {MADE_BY_LABEL} marks it as made by the job's master, which did not request it: remove the label"
)
ACCEPTED = "accepted by the master; its own plans follow"
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


def unrecorded_plans(observed: ObservedJob) -> list[Action]:
    """Requests of the master that are no ScalePlans yet."""
    job = observed.job
    new = [number for number in observed.requested_plans if number > observed.recorded]
    if job is None or is_deleting(job) or not new:
        return []
    plans = [as_plan(observed.name, number, observed.requested_plans[number]) for number in new]
    for plan in plans:
        plan["metadata"]["ownerReferences"] = [owner_reference(job)]
    return [RecordPlans(tuple(plans), max(new))]


def next_work(observed: ObservedJob, progress: Progress | None, now: float) -> Work | None:
    """The next plan, and what is left of it; None: there is nothing to do."""
    plan = next((plan for plan in observed.master_plans if _is_due(plan, observed)), None)
    if plan is None or observed.job is None or is_deleting(observed.job):
        return None
    try:
        spec = PlanRequest.model_validate(observed.requested_plans[sequence_of(plan)])
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


def _is_due(plan: Object, observed: ObservedJob) -> bool:
    number = sequence_of(plan)
    is_requested = number in observed.requested_plans and number <= observed.recorded
    return is_requested and not is_finished(plan) and not is_deleting(plan)


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
    later = (other for other in observed.master_plans if sequence_of(other) > sequence_of(plan))
    return any(sequence_of(other) in observed.requested_plans and not is_finished(other) for other in later)


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
        if made_by_master(plan) and not is_finished(plan) and not is_deleting(plan) and _is_forged(plan, observed):
            actions.append(_refused(plan, NOT_WRITTEN_BY_MASTER, now))
    for plan in observed.manual_plans:
        if is_deleting(plan):
            continue
        if is_finished(plan):  # its master may have answered before we observed it
            if observed.job is not None and not is_deleting(observed.job) and not owner_uid(plan):
                actions.append(_owned(plan, observed))
            continue
        answer = observed.answers.get(uid_of(plan))
        if answer is not None:
            refusal = str(answer.get("refusal") or "")
            actions.append(_refused(plan, refusal, now) if refusal else _succeeded(plan, now))
        elif observed.job is None or is_deleting(observed.job):
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


def _is_forged(plan: Object, observed: ObservedJob) -> bool:
    """Whether no master requested what says to be a master's plan. Of a job that is gone nobody knows any more."""
    if not owner_uid(plan):
        return True
    is_of_this_job = observed.job is not None and owner_uid(plan) == uid_of(observed.job)
    return is_of_this_job and sequence_of(plan) not in observed.requested_plans


def _refused(plan: Object, message: str, now: float) -> PatchPlan:
    return _answered(plan, "Refused", message, now)


def _succeeded(plan: Object, now: float) -> PatchPlan:
    return _answered(plan, "Succeeded", ACCEPTED, now)


def _answered(plan: Object, phase: str, message: str, now: float) -> PatchPlan:
    status = {"phase": phase, "message": message, "finished": rfc3339(now)}
    return PatchPlan(plan, {"status": status}, status=True)
