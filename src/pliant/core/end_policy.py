"""When a job is over, and how it ended: the one place that decides it, from the job's state alone.

It failed when a node was given up for good, or when records were lost with a worker and nobody does them again. It is done when
its workers are done *and* its shards are; it never succeeds with shards undone. A suspended job does not end by itself, nor does
one whose workers somebody scaled to zero before the work was done: it waits to be scaled up. Whether a job may succeed whose last
checkpoint could not be written is a matter of its ``core.checkpoints.policy``.

A master without nodes of its own is a service. One that only hands out shards ends when there are none left: at least one
dataset was created and all are finished. Programs that still ask get that answer before it goes (``after_settling``). Any other
service, and one that shall keep serving, is ended by a person.
"""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.job import Phase
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.states import NodeState
from pliant.core.plurals import counted
from pliant.core.shards.book import ShardBook
from pliant.core.shards.queue import ShardQueue

PARAMETER_SERVER = "ps"  # the role
SERVICE_ROLES = frozenset({PARAMETER_SERVER})  # these serve the others and never finish by themselves
MAX_LOST_PARTS = 5  # described in the reason of a failed job; a part is of one dataset and epoch
MAX_LOST_RANGES = 20  # of records, of one part


@dataclass(frozen=True, slots=True)
class JobEnd:
    phase: Phase
    reason: str
    after_settling: bool = False  # only once every component says that what is under way is finished


def end_of_job(state: JobState) -> JobEnd | None:
    """How the job ends now; None: it goes on."""
    nodes, shards = state.nodes, state.shards
    if state.job.over:
        return None
    if nodes is None:
        return _end_of_service(state)
    if nodes.failure is not None:
        return JobEnd(Phase.FAILED, nodes.failure.reason)
    if shards is not None and (records := lost_records(shards)):
        return JobEnd(Phase.FAILED, f"records were lost with their worker (task_fault_tolerance is off): {records}")
    if nodes.suspended:
        return None
    workers, optional = worker_roles(nodes), optional_datasets(state)
    if not nodes.started or not workers or not all(_is_done(nodes, shards, role, optional) for role in workers):
        return None
    waiting = roles_at_zero(nodes)
    if not any(nodes.counts(role).get(NodeState.SUCCEEDED) or nodes.role(role).succeeded for role in workers):
        lost = [nodes.role(role).note for role in workers if role not in waiting and nodes.role(role).given_up]
        if waiting and not lost:
            return None
        return JobEnd(Phase.FAILED, f"no workers left: {lost[0]}" if lost else "no workers left")
    if waiting and shards is not None and any(_may_continue(queue, optional) for queue in shards.queues()):
        return None
    if shards is not None and (problem := undone_work(shards, optional)):
        return JobEnd(Phase.FAILED, problem)
    has_shards = shards is not None and any(queue.spec.name not in optional for queue in shards.queues())
    if missing := _missing_checkpoint(state):
        return JobEnd(Phase.FAILED, missing, after_settling=True)  # a last dump may be under way
    reason = "all workers finished" + (", all shards done" if has_shards else "")
    return JobEnd(Phase.SUCCEEDED, reason, after_settling=True)


def _missing_checkpoint(state: JobState) -> str:
    """Why a job whose work is done fails all the same; empty: it does not."""
    book = state.checkpoints
    decisions = (book.policy.at_end(failing) for failing in book.failing())
    return next((decision.reason for decision in decisions if decision.fails_job), "")


def _end_of_service(state: JobState) -> JobEnd | None:
    shards = state.shards
    if shards is None or state.rendezvous is not None or state.job.keeps_serving:
        return None
    if not shards.queues() or not shards.complete():
        return None
    if problem := undone_work(shards):
        return JobEnd(Phase.FAILED, problem, after_settling=True)
    return JobEnd(Phase.SUCCEEDED, "all datasets are finished", after_settling=True)


def worker_roles(nodes: NodeBook) -> list[str]:
    return [role for role in nodes.roles() if role not in SERVICE_ROLES]


def roles_at_zero(nodes: NodeBook) -> list[str]:
    """Worker roles that have no nodes because somebody wants none, and that can be scaled up again; also those of a job that
    was described with no worker at all."""
    states = {role: nodes.role(role) for role in worker_roles(nodes)}
    if all(s.spec.replicas == 0 and not s.succeeded and not s.given_up for s in states.values()):
        return list(states)
    return [role for role, s in states.items() if s.at_zero_since is not None and s.succeeded < s.spec.max_replicas]


def is_gone(state: JobState) -> bool:
    """Whether nothing is left of a job that is over."""
    nodes = state.nodes.nodes() if state.nodes is not None else []
    return state.job.over and all(node.gone for node in nodes if node.accepted_at is not None)


def undone_work(shards: ShardBook, optional: frozenset[str] = frozenset()) -> str:
    """What forbids success although all workers finished; empty if nothing does. ``optional``: datasets that may be undone."""
    if parked := parked_shards(shards):
        more = f" (and {len(parked) - 1} more)" if len(parked) > 1 else ""
        return f"a shard could not be processed: {parked[0]}{more}"
    for queue in shards.queues():
        if not queue.complete and queue.spec.name not in optional:
            total = queue.records_per_epoch * queue.spec.epochs
            return (
                f"all workers finished, but dataset {queue.spec.name} is incomplete: "
                f"{queue.finished_records:,} of {total:,} records"
            )
    return ""


def _may_continue(queue: ShardQueue, optional: frozenset[str]) -> bool:
    """Whether there are records for workers that are still to come."""
    return not queue.complete and queue.spec.name not in optional


def optional_datasets(state: JobState) -> frozenset[str]:
    """Datasets that nobody asked for, and nobody had to: the job is complete without them, and its audit too.

    The train-end shard of a job that trains nothing; and where rounds of evaluation are made from a dataset of the job's
    description, that dataset itself and a round that the program takes no part in.
    """
    if state.shards is None:
        return frozenset()
    rounds = state.training.datasets_of_rounds() if state.training is not None else frozenset[str]()
    return frozenset(
        queue.spec.name
        for queue in state.shards.queues()
        if queue.never_requested or (queue.is_untouched and queue.spec.name in rounds)
    )


def parked_shards(shards: ShardBook) -> list[str]:
    """Those that kept failing and may not be skipped, each as a sentence."""
    return [
        f"dataset {queue.spec.name}, epoch {p.shard.epoch}, records [{p.extent.start}, {p.extent.end})"
        + (f" of {p.extent.name}" if p.extent.name != queue.spec.name else "")
        + f": failed {counted(p.shard.failures + p.shard.timeouts, 'time')}, last: {p.message}"
        for queue in shards.queues()
        if not queue.spec.skip_parked
        for p in queue.parked
    ]


def lost_records(shards: ShardBook) -> str:
    """Those that nobody does again since the program that had them is gone, and what became of it; empty if there are none."""
    parts: dict[tuple[str, int, str, str], list[list[int]]] = {}
    for queue in shards.queues():
        for lost in queue.lost:
            shard, extent = lost.shard, lost.extent
            begin = extent.start if queue.spec.shuffle_records else extent.start + shard.offset
            parts.setdefault((queue.spec.name, shard.epoch, extent.name, lost.message), []).append([begin, extent.end])
    sentences = [
        f"dataset {dataset}, epoch {epoch}, records {_ranges(found)}"
        + (f" of {name}" if name != dataset else "")
        + f": {why}"
        for (dataset, epoch, name, why), found in parts.items()
    ]
    return "; ".join(sentences[:MAX_LOST_PARTS]) + ("; …" if len(sentences) > MAX_LOST_PARTS else "")


def _ranges(found: list[list[int]]) -> str:
    """Neighbours as one."""
    joined: list[list[int]] = []
    for begin, end in sorted(found):
        if joined and joined[-1][1] == begin:
            joined[-1][1] = end
        else:
            joined.append([begin, end])
    shown = ", ".join(f"[{begin}, {end})" for begin, end in joined[:MAX_LOST_RANGES])
    return shown + (f" and {len(joined) - MAX_LOST_RANGES} more ranges" if len(joined) > MAX_LOST_RANGES else "")


def _is_done(nodes: NodeBook, shards: ShardBook | None, role: str, optional: frozenset[str]) -> bool:
    """All of its nodes ended; or enough did, the work is done, and the others are only waiting to be scheduled."""
    state = nodes.role(role)
    if nodes.all_done(role):
        return True
    enough = state.succeeded >= max(1, state.spec.min_replicas)
    if not enough or not nodes.all_blocked(role) or shards is None or not shards.queues():
        return False
    return all(queue.complete or queue.spec.name in optional for queue in shards.queues())
