"""What to do about the ScalePlans of one job.

Plans of the master are executed one after the other, by their numbers. A Pod that the cluster does not accept now (quota,
a missing right, no answer) is tried again with back-off; what can never be accepted is refused at once. The waiting ends
after ``PATIENCE`` or when the master has made a later plan: then the plan is ``Failed`` and names what was refused, and
the master plans anew. So a plan that frees room is never stuck behind one that waits for it.

Plans of people are the master's to answer; here they only get their owner, and an answer where no master can give one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from pliant.core.relaunch import Backoff
from pliant.operator.actions import Action, DeletePlan, PatchPlan
from pliant.operator.seen import Seen, is_deleting, is_finished, made_by_master, owner_uid, rfc3339, seconds, uid_of
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import JOB_LABEL, MADE_BY_LABEL, MADE_BY_PERSON, owner_reference, pod_name
from pliant.platforms.kubernetes.plans import PodToCreate, PodToRemove, ScalePlanSpec

KEPT_PLANS = 20  # finished ones of the master, per job
PATIENCE = 60.0  # seconds that Pods which the cluster does not accept are tried again
RETRIES = Backoff(1.0, 2.0, 15.0)
EARLIER_MAY_COME = 1.0  # seconds: a plan whose forerunner is unknown waits so long for it
LARGE = 20  # Pods: a plan of more tells when it begins, a smaller one is done before anybody looks
NO_MASTER_MADE_IT = f"its label {MADE_BY_LABEL} says that a master made it, and none did: leave the label out"
JOB_MAY_COME = 30.0  # seconds that a plan waits for the job it names


@dataclass(frozen=True, slots=True)
class Problem:
    """A Pod that the cluster did not accept."""

    node: str
    message: str
    passing: bool  # it may be accepted later


@dataclass(slots=True)
class Progress:
    """How far the execution of one plan is."""

    plan: str  # its uid
    began: float
    started: str = ""  # what an operator before this one told of when it began
    created: set[str] = field(default_factory=set)  # by whomever: this operator, or one before it that was interrupted
    removed: set[str] = field(default_factory=set)
    problems: dict[str, Problem] = field(default_factory=dict)  # by node
    rounds: int = 0
    not_before: float = 0.0
    told: bool = False  # that it is being executed


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do of the plan that is next."""

    plan: Object
    create: tuple[PodToCreate, ...] = ()
    remove: tuple[PodToRemove, ...] = ()
    there: frozenset[str] = frozenset()  # nodes that it asks for and that have a Pod already
    wait: float = 0.0  # seconds, before anything is done
    broken: str = ""  # why it cannot be read

    @property
    def size(self) -> int:
        return len(self.create) + len(self.remove)


def next_work(seen: Seen, progress: Progress | None, first_seen: dict[str, float], now: float) -> Work | None:
    """The plan to go on with; None: there is nothing to do."""
    plans = seen.masters_plans
    plan = next((plan for plan in plans if not is_finished(plan) and not is_deleting(plan)), None)
    if plan is None or seen.job is None or is_deleting(seen.job):
        return None
    number = int(plan["spec"].get("sequence") or 0)
    known = {int(other["spec"].get("sequence") or 0) for other in plans}
    if number > 1 and number - 1 not in known and not progress:
        waited = now - first_seen.setdefault(uid_of(plan), now)
        if waited < EARLIER_MAY_COME:
            return Work(plan, wait=EARLIER_MAY_COME - waited)
    try:
        spec = ScalePlanSpec.model_validate(plan["spec"])
    except ValidationError as error:
        return Work(plan, broken=f"this plan cannot be read: {error}")
    if progress is None or progress.plan != uid_of(plan):
        progress = Progress(uid_of(plan), now)
    if now < progress.not_before:
        return Work(plan, wait=progress.not_before - now)
    there = seen.pods_by_name
    made = frozenset(entry.node for entry in spec.create if pod_name(seen.name, entry.node) in there)
    settled = progress.created | {problem.node for problem in progress.problems.values() if not problem.passing}
    return Work(
        plan,
        create=tuple(entry for entry in spec.create if entry.node not in settled | made),
        there=made,
        remove=tuple(entry for entry in spec.remove if entry.node not in progress.removed),
    )


def after_round(work: Work, progress: Progress, *, later: bool, now: float) -> dict[str, Any]:
    """The plan's status after a round of tries. It ends, or ``progress.not_before`` says when the next round is."""
    progress.created |= work.there
    waiting = [problem for problem in progress.problems.values() if problem.passing]
    counts = {"created": len(progress.created), "removed": len(progress.removed)}
    times = {"started": progress.started or rfc3339(progress.began)}
    if work.broken:
        return {"phase": "Failed", "message": work.broken, **times, "finished": rfc3339(now)}
    if waiting and not later and now - progress.began < PATIENCE:
        progress.rounds += 1
        progress.not_before = now + RETRIES.delay(progress.rounds - 1)
        message = f"{len(waiting)} of the Pods are not accepted, tried again: {waiting[0].message}"
        told = {"attempts": progress.rounds, "refused": told_problems(progress.problems.values())}
        return {"phase": "Executing", "message": message, **times, **counts, **told}
    ended = {**times, **counts, "finished": rfc3339(now)}
    if progress.problems:
        found = list(progress.problems.values())
        message = f"{len(found)} of the Pods were not accepted: {found[0].message}"
        return {"phase": "Failed", "message": message, **ended, "refused": told_problems(found)}
    return {"phase": "Succeeded", "message": None, **ended, "refused": None}


def told_problems(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    return [
        {"node": problem.node, "message": problem.message[:500], "passing": problem.passing} for problem in problems
    ]


def later_plan(seen: Seen, plan: Object) -> bool:
    """Whether the master has made another one since."""
    number = int(plan["spec"].get("sequence") or 0)
    return any(
        int(other["spec"].get("sequence") or 0) > number and not is_finished(other) for other in seen.masters_plans
    )


def old_plans(seen: Seen) -> list[Action]:
    """Finished plans of the master beyond the number that is kept; in batches, since each costs a call."""
    finished = [plan for plan in seen.masters_plans if is_finished(plan) and not is_deleting(plan)]
    surplus = finished[: max(0, len(finished) - KEPT_PLANS)]
    return [DeletePlan(plan["metadata"]["name"], uid_of(plan)) for plan in surplus]


def for_people(seen: Seen, now: float) -> tuple[list[Action], float | None]:
    """Plans of people: an owner, so that they go with the job, and an answer where there is no master to give one."""
    actions: list[Action] = []
    again: float | None = None
    for plan in seen.plans:
        if made_by_master(plan) and not owner_uid(plan) and not is_finished(plan):
            actions.append(_refused(plan, NO_MASTER_MADE_IT, now))
    for plan in seen.peoples_plans:
        if is_deleting(plan):
            continue
        if is_finished(plan):  # its master may have answered sooner than we looked
            if seen.job is not None and not is_deleting(seen.job) and not owner_uid(plan):
                actions.append(_owned(plan, seen))
            continue
        if seen.job is None or is_deleting(seen.job):
            age = now - seconds(plan["metadata"]["creationTimestamp"])
            if age < JOB_MAY_COME:
                again = min(again or JOB_MAY_COME, JOB_MAY_COME - age + 1.0)
            else:
                actions.append(_refused(plan, f"there is no ElasticJob {seen.name} in namespace {seen.key[0]}", now))
        elif owner_uid(plan) not in ("", uid_of(seen.job)):
            actions.append(_refused(plan, f"it was made for an earlier ElasticJob {seen.name}", now))
        elif seen.ended:
            actions.append(_refused(plan, f"the job has ended: {seen.phase}", now))
        elif not owner_uid(plan):
            actions.append(_owned(plan, seen))
    return actions, again


def _owned(plan: Object, seen: Seen) -> PatchPlan:
    assert seen.job is not None
    labels = {JOB_LABEL: seen.name, MADE_BY_LABEL: MADE_BY_PERSON}
    owners = [*(plan["metadata"].get("ownerReferences") or ()), owner_reference(seen.job, controller=False)]
    return PatchPlan(plan, {"metadata": {"labels": labels, "ownerReferences": owners}}, status=False)


def _refused(plan: Object, message: str, now: float) -> PatchPlan:
    status = {"phase": "Refused", "message": message, "finished": rfc3339(now)}
    return PatchPlan(plan, {"status": status}, status=True)
