"""Whether several workers work together, and what is said if they do not.

Workers share records by leasing shards, and gradients by a world of the ``Trainer``, by torch.distributed (a *connected* group,
``core/rendezvous/groups.py``) or by parameter servers. Two mistakes look like success:

- *Separate models*: workers lease shards for training and each updates a model of its own.
- *Independent workers*: each runs the whole program; none requested a shard or met another.

Both are hints and change nothing in the job: conditions of its status, an event each, and a line of ``pliant run``.
"""

from __future__ import annotations

from pliant.core.end_policy import worker_roles
from pliant.core.job_state import JobState
from pliant.core.nodes.states import NodeState

MIN_RUN_S = 3.0  # of a worker: in a shorter one its agent may not have seen it connect to its peers


def is_combined(state: JobState) -> bool:
    """Whether there is a way by which workers exchange what they learn."""
    in_world = state.rendezvous is not None and (state.rendezvous.world is not None or bool(state.rendezvous.waiting))
    return state.parameters is not None or in_world or _has_connected(state)


def separate_models(state: JobState) -> str:
    """What to say if several workers train models of their own now; empty if they do not, as far as is known."""
    if state.nodes is None or is_combined(state):
        return ""
    running = [node for role in worker_roles(state.nodes) for node in state.nodes.active(role)]
    if sum(node.name in state.job.training_alone for node in running) < 2:
        return ""
    return (
        f"{len(running)} workers train without exchanging gradients: each has a model of its own. "
        "Use pliant.torch.Trainer (docs/elastic-allreduce.md), torch.distributed or parameter servers; "
        "job.combines = True in the program hides this line"
    )


def independent_workers(state: JobState) -> str:
    """What to say if several workers did the same work; empty if they did not, as far as is known."""
    if state.nodes is None or is_combined(state):
        return ""
    if state.shards is not None and not all(queue.is_untouched for queue in state.shards.queues()):
        return ""
    for role in worker_roles(state.nodes):
        ended = [node for node in state.nodes.nodes() if node.role == role and node.state is NodeState.SUCCEEDED]
        long = [n for n in ended if (n.ended_at or 0.0) - (n.started_at or 0.0) >= MIN_RUN_S]
        if len(long) > 1:
            return (
                f"{len(long)} workers ran the whole program each: none requested a shard, joined a world or connected to "
                "the others (MASTER_ADDR, MASTER_PORT). To share the work use job.shards (docs/guide.md), "
                "pliant.torch.Trainer or torch.distributed.init_process_group()"
            )
    return ""


def _has_connected(state: JobState) -> bool:
    if state.groups is None or state.nodes is None:
        return False
    return any(state.groups.group(role).connected for role in state.nodes.roles())
