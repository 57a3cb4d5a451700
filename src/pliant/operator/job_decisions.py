"""What to do for one job, from what is seen of it: its master's life, suspend and resume, what is left at its end.

``decide`` is a function of what is there; asked again, it gives what is still to do. The rest of a job's nodes is decided
by its master, whose plans ``plan_decisions`` looks at.

A master whose journal lies in an ``emptyDir`` loses it with its Pod. Its successor begins anew, so what the lost one
started is removed first: names of nodes are used once in a job's life, and this is another life.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pliant.core.errors import SpecError
from pliant.core.relaunch import Backoff
from pliant.operator.actions import (
    Action,
    CreateMaster,
    Decision,
    DeletePlan,
    DeletePod,
    ForceIfLost,
    PatchJob,
    PatchStatus,
    Tell,
)
from pliant.operator.job_spec import missing_replicas, spec_of
from pliant.operator.job_status import Why, master_state, status_patch
from pliant.operator.seen import Seen, container, is_deleting, is_over, last_end, seconds, uid_of
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.plans import status_of
from pliant.spec import JobSpec

HOPELESS = 5  # exit code of a master that no restart helps; see pliant.master.supervisor
MASTER_BACKOFF = Backoff(1.0, 2.0, 60.0)
OVERDUE = 5.0  # seconds beyond its grace, before we ask whether a Pod's machine is still there
LOOK_AGAIN = 10.0  # seconds, at what can change without an event
ASK_AGAIN = 9.0  # seconds, after a Pod that is overdue: once per such look
LAST_WORDS = 30.0  # seconds that a master which ended has told how
LEFT_AFTER_END = 60.0  # seconds after which nodes that run on after the end of their job are removed
IMAGE_TROUBLE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


@dataclass(slots=True)
class Memory:
    """What a keeper remembers of its job; only for politeness (back-off), never for being right."""

    master_failures: int = 0  # in a row
    master_not_before: float = 0.0
    last_spec: JobSpec | None = None  # that could be read
    spec_problem: str = ""  # of the newest one
    spec_generation: object = None  # which one that is: reading it costs milliseconds, and changes are few
    ended_seen: dict[str, float] = field(default_factory=dict)  # uid of a Pod -> when its end was first seen
    overdue_asked: dict[str, float] = field(default_factory=dict)  # uid -> when its machine was last asked after


def decide(seen: Seen, memory: Memory, now: float) -> Decision:
    job = seen.job
    if job is None or is_deleting(job):
        return Decision()  # the garbage collector removes what it owns
    if seen.ended:
        return _after_the_end(seen, memory, now)
    actions: list[Action] = []
    if patch := missing_replicas(job):
        actions.append(PatchJob(patch))
    problem = _read_spec(job, memory)
    if problem:
        actions.append(Tell("InvalidSpec", problem, warning=True))
    again = LOOK_AGAIN if any(is_deleting(pod) for pod in seen.own_pods) else None
    actions += _force_overdue(seen, memory, now)
    if failure := _hopeless(seen, memory, now):
        actions.append(Tell("Failed", failure.message, warning=True))
        actions.append(PatchStatus(status_patch(seen, problem, nodes_left=False, now=now, failure=failure)))
        return Decision(tuple(actions), again=1.0)
    if seen.master is not None and is_over(seen.master):
        again = LOOK_AGAIN
    steps, wait = (_suspend if seen.suspended else _run)(seen, memory, problem, now)
    actions += steps
    status = status_patch(seen, problem, nodes_left=nodes_left(seen), now=now)
    if status:
        actions += _worth_telling(seen, status)
        actions.append(PatchStatus(status))
    waits = [delay for delay in (again, wait) if delay is not None]
    return Decision(tuple(actions), again=min(waits) if waits else None)


def _read_spec(job: Object, memory: Memory) -> str:
    """Keep the job's spec in mind; gives what is wrong with it."""
    generation = job["metadata"].get("generation")
    if generation is None or memory.spec_generation != generation:
        memory.spec_generation, memory.spec_problem = generation, ""
        try:
            memory.last_spec = spec_of(job)
        except SpecError as error:
            memory.spec_problem = str(error)
    return memory.spec_problem


def nodes_left(seen: Seen) -> bool:
    return any(not is_over(pod) for pod in seen.nodes)


def uses_claim(seen: Seen, memory: Memory) -> bool:
    return memory.last_spec is not None and memory.last_spec.platform.kubernetes.journal.volume == "claim"


def _suspend(seen: Seen, memory: Memory, problem: str, now: float) -> tuple[list[Action], float | None]:
    """The master ends its nodes. Its own Pod goes too where its journal outlives it."""
    master = seen.master
    if master is None or is_deleting(master) or nodes_left(seen) or not uses_claim(seen, memory):
        return [], None
    return [DeletePod(master["metadata"]["name"], uid_of(master))], None


def _run(seen: Seen, memory: Memory, problem: str, now: float) -> tuple[list[Action], float | None]:
    master = seen.master
    if master is None:
        if memory.last_spec is None:
            return [], None  # invalid from the beginning: it waits for an edit
        if not uses_claim(seen, memory) and (seen.nodes or seen.masters_plans):
            return _start_over(seen), LOOK_AGAIN
        if now < memory.master_not_before:
            return [], memory.master_not_before - now
        return [CreateMaster()], None
    if is_deleting(master):
        return [], LOOK_AGAIN
    if (master.get("status") or {}).get("phase") == "Failed":
        told = Tell("MasterLost", f"{master_state(master).message}; it is replaced", warning=True)
        return [told, DeletePod(master["metadata"]["name"], uid_of(master), replaces_master=True)], None
    if master_state(master).reason in IMAGE_TROUBLE and memory.last_spec is not None:
        image = memory.last_spec.platform.kubernetes.image
        if image and image != container(master).get("image") and image != _image(master):
            return [DeletePod(master["metadata"]["name"], uid_of(master))], None  # the spec names another one now
    return [], None


def _image(pod: Object) -> str:
    return str(pod["spec"]["containers"][0].get("image", ""))


def _start_over(seen: Seen) -> list[Action]:
    actions: list[Action] = [
        Tell("StartingOver", "the master's journal was lost with its Pod; the job begins anew", warning=True)
    ]
    actions += [
        DeletePod(pod["metadata"]["name"], uid_of(pod), grace=0.0) for pod in seen.nodes if not is_deleting(pod)
    ]
    actions += [DeletePlan(plan["metadata"]["name"], uid_of(plan)) for plan in seen.masters_plans]
    return actions


def _hopeless(seen: Seen, memory: Memory, now: float) -> Why | None:
    """Whether no other master can help: why the job fails."""
    master = seen.master
    if master is None:
        return None
    end = last_end(master)
    if end.get("exitCode") == HOPELESS:
        return Why("MasterHopeless", f"the master cannot go on: {(end.get('message') or 'see its log').strip()}")
    if (master.get("status") or {}).get("phase") == "Succeeded":
        since = memory.ended_seen.setdefault(uid_of(master), now)
        if now - since > LAST_WORDS:
            return Why("NoLastWord", "the master ended without telling how the job ended")
    return None


def _force_overdue(seen: Seen, memory: Memory, now: float) -> list[Action]:
    """Each is asked after now and then, not in every round: each question is a call or two."""
    actions: list[Action] = []
    asked: dict[str, float] = {}
    for pod in seen.own_pods:
        if is_deleting(pod):
            uid, overdue = uid_of(pod), now - seconds(pod["metadata"]["deletionTimestamp"])
            machine, last = pod["spec"].get("nodeName", ""), memory.overdue_asked.get(uid)
            if overdue > OVERDUE and machine and (last is None or now - last > ASK_AGAIN):
                actions.append(ForceIfLost(pod["metadata"]["name"], uid, machine, overdue))
                asked[uid] = now
            elif last is not None:
                asked[uid] = last
    memory.overdue_asked = asked
    return actions


def _after_the_end(seen: Seen, memory: Memory, now: float) -> Decision:
    actions: list[Action] = _force_overdue(seen, memory, now)
    job = seen.job
    assert job is not None
    status = status_patch(seen, "", nodes_left=False, now=now)
    if status:
        kind = "Succeeded" if seen.phase == "Succeeded" else seen.phase
        told = str(status_of(job).get("message") or f"the job ended: {seen.phase}")
        actions += [Tell(kind, told, warning=seen.phase == "Failed"), PatchStatus(status)]
    since_end = now - seconds(status_of(job).get("finished"))
    left = [pod for pod in seen.nodes if not is_over(pod) and not is_deleting(pod)]
    hopeless = seen.master is not None and last_end(seen.master).get("exitCode") == HOPELESS
    if left and (since_end > LEFT_AFTER_END or hopeless):
        actions += [DeletePod(pod["metadata"]["name"], uid_of(pod)) for pod in left]
    if hopeless and seen.master is not None and not is_over(seen.master) and not is_deleting(seen.master):
        actions.append(DeletePod(seen.master["metadata"]["name"], uid_of(seen.master)))
    waiting = left or any(is_deleting(pod) for pod in seen.own_pods)
    return Decision(tuple(actions), again=LOOK_AGAIN if waiting else None)


def _worth_telling(seen: Seen, status: dict[str, object]) -> list[Action]:
    phase, before = status.get("phase"), seen.phase
    if phase == "Suspended":
        return [Tell("Suspended", "the job has no nodes until spec.suspend is false")]
    if phase == "Running" and before in ("Suspended", "Suspending"):
        return [Tell("Resumed", "the job goes on")]
    if phase == "Running":
        return [Tell("MasterReady", "the master serves")]
    return []
