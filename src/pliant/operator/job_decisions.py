"""What to do for one job, from its observed state: the life of its master, suspend and resume, cleaning up after its end.

``decide`` is a function of the observed state; called again, it returns what is still to do. The job's nodes are decided
by its master, whose plans are the subject of ``plan_decisions``.

A master whose journal lies in an ``emptyDir`` loses it with its Pod. If living workers know all that it said, its successor takes
them over (``core/takeover.py``). Else it starts from scratch, so the Pods and plans of the lost one are deleted first: names of
nodes are used once in a job's life, and this is another life.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pliant.core.errors import SpecError
from pliant.core.nodes.fault_policy import Backoff
from pliant.core.takeover import JOURNAL_LOST, RecoveryOutcome, Takeover
from pliant.core.takeover import decide as decide_takeover
from pliant.operator.actions import (
    Action,
    CreateMaster,
    Decision,
    DeletePlan,
    DeletePod,
    EmitEvent,
    ForceDeleteIfLost,
    PatchJob,
    PatchStatus,
)
from pliant.operator.job_spec import missing_replicas, spec_of
from pliant.operator.job_status import JournalState, master_state, status_patch
from pliant.operator.journal_volume import JournalVolume, durability, given_volume
from pliant.operator.known_brain import KnownBrain, default_mode, with_brain
from pliant.operator.observed import (
    ObservedJob,
    StatusReason,
    condition,
    container,
    is_deleting,
    is_over,
    last_termination,
    uid_of,
)
from pliant.operator.plan_events import SeenPlan, plan_events
from pliant.platforms.kubernetes.elastic_job_status import status_of_resource
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.machines import capacity_of
from pliant.platforms.kubernetes.names import node_of
from pliant.platforms.kubernetes.plans import status_of
from pliant.platforms.kubernetes.pod_policy import PodPolicy
from pliant.platforms.kubernetes.timestamps import seconds_of
from pliant.spec import JobSpec

UNRECOVERABLE = 5  # exit code of a master that no restart can help; see pliant.master.supervisor
MASTER_BACKOFF = Backoff(1.0, 2.0, 60.0)
OVERDUE_S = 5.0  # beyond a Pod's grace period, before we ask whether its machine is still there
RESYNC_S = 10.0  # for what can change without an event
RECHECK_OVERDUE_S = 9.0  # between two checks of an overdue Pod: one per resync
FINAL_STATUS_TIMEOUT_S = 30.0  # for the final status of a master that has ended
NODE_CLEANUP_AFTER_S = 60.0  # after the job's end, when nodes that still run are deleted
JOURNAL_GONE = "the master's journal was lost with its Pod"
STARTING_OVER = "StartingOver"  # the reason of an Event
IMAGE_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


@dataclass(slots=True)
class Memory:
    """What a reconciler remembers of its job: back-off and caches. Correctness never depends on it."""

    master_failures: int = 0  # consecutive
    master_not_before: float = 0.0
    last_spec: JobSpec | None = None  # the last valid one
    spec_problem: str = ""  # of the newest spec
    spec_generation: object = None  # of the newest spec: validating it takes milliseconds
    pods_refused: str = ""  # why the API server can never accept the Pods of the newest spec
    journal: JournalVolume | None = None  # where it lies; None: not decided yet
    ended_seen: dict[str, float] = field(default_factory=dict)  # uid of a Pod -> when its end was first observed
    machines: tuple[Object, ...] | None = None  # of the cluster; None: they cannot be read
    overdue_checked: dict[str, float] = field(default_factory=dict)  # uid -> when its machine was last checked
    planning: SeenPlan | None = None  # what was last seen of the job's plans


def decide(
    observed: ObservedJob,
    memory: Memory,
    now: float,
    policy: PodPolicy | None = None,
    brain: KnownBrain | None = None,
) -> Decision:
    job = observed.job
    if job is None or is_deleting(job):
        return Decision()  # Kubernetes garbage-collects what it owns
    if observed.ended:
        return _after_end(observed, memory, now)
    if observed.master is None and (mode := default_mode(job, brain)):
        return Decision((PatchJob(mode),))  # the rest follows from what the job says then
    actions: list[Action] = []
    if patch := missing_replicas(job):
        actions.append(PatchJob(patch))
    problem = read_spec(job, memory, policy or PodPolicy(), brain)
    if problem:
        actions.append(EmitEvent("InvalidSpec", problem, warning=True))
    requeue_after = RESYNC_S if any(is_deleting(pod) for pod in observed.own_pods) else None
    actions += _force_overdue(observed, memory, now)
    actions += _plan_events(job, memory, now)
    if failure := _unrecoverable(observed, memory, now):
        actions.append(EmitEvent("Failed", failure.message, warning=True))
        actions.append(PatchStatus(status_patch(observed, problem, nodes_left=False, now=now, failure=failure)))
        return Decision(tuple(actions), requeue_after=1.0)
    if observed.master is not None and is_over(observed.master):
        requeue_after = RESYNC_S
    steps, wait = (_suspend if observed.suspended else _ensure_master)(observed, memory, problem, now)
    actions += steps
    started_over = next((s.message for s in steps if isinstance(s, EmitEvent) and s.reason == STARTING_OVER), "")
    status = status_patch(
        observed,
        problem,
        nodes_left=nodes_left(observed),
        now=now,
        machines=_machines(memory),
        journal=_journal_state(observed, memory),
        started_over=started_over,
    )
    if started_over and observed.requested_plans:
        status["outbox"] = {"plans": None}  # of the lost master; nobody executes them any more
    if status:
        actions += [*_phase_events(observed, status), *_recovery_events(observed, status)]
        actions.append(PatchStatus(status))
    waits = [delay for delay in (requeue_after, wait) if delay is not None]
    return Decision(tuple(actions), requeue_after=min(waits) if waits else None)


def read_spec(job: Object, memory: Memory, policy: PodPolicy, brain: KnownBrain | None = None) -> str:
    """Validate a changed spec and cache it; returns what is wrong with it, by our own word or by the API server's."""
    generation = job["metadata"].get("generation")
    if generation is None or memory.spec_generation != generation:
        memory.spec_generation, memory.spec_problem, memory.pods_refused = generation, "", ""
        try:
            spec = spec_of(job)
            policy.check(spec, f"ElasticJob {job['metadata']['namespace']}/{job['metadata']['name']}")
            memory.last_spec = with_brain(job, spec, brain)
        except SpecError as error:
            memory.spec_problem = str(error)
    return memory.spec_problem or memory.pods_refused


def _machines(memory: Memory) -> list[Object] | None:
    """Sizes of those that nodes of the job may run on, for its status."""
    if memory.machines is None or memory.last_spec is None:
        return None
    capacity = capacity_of(memory.machines, memory.last_spec.platform.kubernetes.node_selector)
    sizes = (machine.to_json() for machine in capacity.machines)
    return [{kind: amount for kind, amount in size.items() if amount is not None} for size in sizes]


def nodes_left(observed: ObservedJob) -> bool:
    return any(not is_over(pod) for pod in observed.nodes)


def uses_claim(memory: Memory) -> bool:
    volume = memory.journal or (given_volume(memory.last_spec) if memory.last_spec is not None else None)
    return volume is not None and volume.is_durable


def _journal_state(observed: ObservedJob, memory: Memory) -> JournalState | None:
    if memory.last_spec is None or memory.journal is None:
        return None
    why = durability(memory.last_spec, memory.journal, observed.datasets)
    return JournalState(memory.journal.is_durable, why)


def _suspend(observed: ObservedJob, memory: Memory, problem: str, now: float) -> tuple[list[Action], float | None]:
    """The master ends its nodes. Its own Pod is deleted too if its journal outlives the Pod."""
    master = observed.master
    if master is None or is_deleting(master) or nodes_left(observed) or not uses_claim(memory):
        return [], None
    return [DeletePod(master["metadata"]["name"], uid_of(master))], None


def _ensure_master(
    observed: ObservedJob, memory: Memory, problem: str, now: float
) -> tuple[list[Action], float | None]:
    master = observed.master
    if master is None:
        if memory.last_spec is None or memory.pods_refused:
            return [], None  # invalid from the start: it waits for an edit
        takeover: Takeover | None = None
        if not uses_claim(memory) and (observed.nodes or observed.master_plans or observed.requested_plans):
            takeover = _takeover(observed, memory.last_spec)
            if not takeover.adopt:
                return _restart_from_scratch(observed, takeover), RESYNC_S
        if now < memory.master_not_before:
            return [], memory.master_not_before - now
        if takeover is None:
            return [CreateMaster()], None
        lost = EmitEvent("TakingOver", f"{JOURNAL_GONE}; its successor takes over: {takeover.reason}", warning=True)
        return [lost, CreateMaster(takes_over=True, life=observed.life)], None
    if is_deleting(master):
        return [], RESYNC_S
    if (master.get("status") or {}).get("phase") == "Failed":
        event = EmitEvent("MasterLost", f"{master_state(master).message}; replacing it", warning=True)
        return [event, DeletePod(master["metadata"]["name"], uid_of(master), replaces_master=True)], None
    if master_state(master).reason in IMAGE_ERRORS and memory.last_spec is not None:
        image = memory.last_spec.platform.kubernetes.image
        if image and image != container(master).get("image") and image != _image(master):
            return [DeletePod(master["metadata"]["name"], uid_of(master))], None  # the spec names another image now
    return [], None


def _image(pod: Object) -> str:
    return str(pod["spec"]["containers"][0].get("image", ""))


def _takeover(observed: ObservedJob, spec: JobSpec) -> Takeover:
    known = [dataset.name for dataset in spec.datasets]
    return decide_takeover(
        strategy=spec.strategy,
        has_parameters=spec.components().parameters,
        datasets=known or observed.datasets,
        living=[node_of(pod) for pod in observed.living_nodes],
    )


def _restart_from_scratch(observed: ObservedJob, takeover: Takeover) -> list[Action]:
    message = f"{JOURNAL_GONE}; the job restarts from scratch: {takeover.reason}"
    actions: list[Action] = [EmitEvent(STARTING_OVER, message, warning=True)]
    actions += [
        DeletePod(pod["metadata"]["name"], uid_of(pod), grace=0.0) for pod in observed.nodes if not is_deleting(pod)
    ]
    actions += [DeletePlan(plan["metadata"]["name"], uid_of(plan)) for plan in observed.master_plans]
    return actions


def _unrecoverable(observed: ObservedJob, memory: Memory, now: float) -> StatusReason | None:
    """Why the job fails because no restart of the master can help; None: it does not."""
    master = observed.master
    if master is None:
        return None
    end = last_termination(master)
    if end.get("exitCode") == UNRECOVERABLE:
        return StatusReason(
            "MasterUnrecoverable", f"the master cannot continue: {(end.get('message') or 'check its log').strip()}"
        )
    if (master.get("status") or {}).get("phase") == "Succeeded":
        since = memory.ended_seen.setdefault(uid_of(master), now)
        if now - since > FINAL_STATUS_TIMEOUT_S:
            return StatusReason("NoFinalStatus", "the master ended without reporting how the job ended")
    return None


def _force_overdue(observed: ObservedJob, memory: Memory, now: float) -> list[Action]:
    """Check overdue Pods, each now and then and not in every round: a check is a call or two."""
    actions: list[Action] = []
    checked: dict[str, float] = {}
    for pod in observed.own_pods:
        if is_deleting(pod):
            uid, overdue = uid_of(pod), now - seconds_of(pod["metadata"]["deletionTimestamp"])
            machine, last = pod["spec"].get("nodeName", ""), memory.overdue_checked.get(uid)
            if overdue > OVERDUE_S and machine and (last is None or now - last > RECHECK_OVERDUE_S):
                actions.append(ForceDeleteIfLost(pod["metadata"]["name"], uid, machine, overdue))
                checked[uid] = now
            elif last is not None:
                checked[uid] = last
    memory.overdue_checked = checked
    return actions


def _after_end(observed: ObservedJob, memory: Memory, now: float) -> Decision:
    actions: list[Action] = _force_overdue(observed, memory, now)
    job = observed.job
    assert job is not None
    status = status_patch(observed, "", nodes_left=False, now=now)
    if status:
        kind = "Succeeded" if observed.phase == "Succeeded" else observed.phase
        message = str(status_of(job).get("message") or f"the job ended: {observed.phase}")
        actions += [EmitEvent(kind, message, warning=observed.phase == "Failed"), PatchStatus(status)]
    since_end = now - seconds_of(status_of(job).get("finished"))
    left = [pod for pod in observed.nodes if not is_over(pod) and not is_deleting(pod)]
    unrecoverable = observed.master is not None and last_termination(observed.master).get("exitCode") == UNRECOVERABLE
    if left and (since_end > NODE_CLEANUP_AFTER_S or unrecoverable):
        actions += [DeletePod(pod["metadata"]["name"], uid_of(pod)) for pod in left]
    if (
        unrecoverable
        and observed.master is not None
        and not is_over(observed.master)
        and not is_deleting(observed.master)
    ):
        actions.append(DeletePod(observed.master["metadata"]["name"], uid_of(observed.master)))
    waiting = left or any(is_deleting(pod) for pod in observed.own_pods)
    return Decision(tuple(actions), requeue_after=RESYNC_S if waiting else None)


def _plan_events(job: Object, memory: Memory, now: float) -> list[EmitEvent]:
    if not status_of(job).get("planner"):
        return []
    status = status_of_resource(job, now)
    events = plan_events(status, memory.planning, now)
    memory.planning = SeenPlan(status.last_plan, status.planner)
    return events


def _recovery_events(observed: ObservedJob, status: dict[str, object]) -> list[Action]:
    """When the master has reported that it took over."""
    recovery = status_of(observed.job or {}).get("recovery") or {}
    since = condition(observed.job or {}, JOURNAL_LOST).get("lastTransitionTime")
    if recovery.get("outcome") != RecoveryOutcome.TAKEN_OVER or recovery.get("time") == since:
        return []
    return [EmitEvent(RecoveryOutcome.TAKEN_OVER.value, str(recovery.get("message") or ""))]


def _phase_events(observed: ObservedJob, status: dict[str, object]) -> list[Action]:
    phase, before = status.get("phase"), observed.phase
    if phase == "Suspended":
        return [EmitEvent("Suspended", "the job has no Pods until spec.suspend is false")]
    if phase == "Running" and before in ("Suspended", "Suspending"):
        return [EmitEvent("Resumed", "the job continues")]
    if phase == "Running":
        return [EmitEvent("MasterReady", "the master is serving")]
    return []
