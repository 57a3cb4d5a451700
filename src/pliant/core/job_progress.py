"""How far a job has got: whether an error at the start of a program can still be one of the whole job, and how many records it has.

Read from the journaled state alone, except for what programs report, which the caller adds.
"""

from __future__ import annotations

from pliant.core.job_state import JobState
from pliant.core.nodes.permanent import JobProgress
from pliant.core.progress import TrainingProgress


def job_progress(state: JobState, reported_step: int = 0) -> JobProgress:
    """``reported_step``: the newest that a program reported."""
    nodes, shards, training = state.nodes, state.shards, state.training
    trained = (
        reported_step > 0
        or (nodes is not None and any(nodes.role(role).succeeded for role in nodes.roles()))
        or (shards is not None and any(queue.finished_records for queue in shards.queues()))
        or (training is not None and training.version > 0)
        or (state.parameters is not None and state.parameters.contributions > 0)
    )
    if trained:
        return JobProgress.TRAINED
    roles = nodes.roles() if nodes is not None and state.groups is not None else []
    connected = any(state.groups.group(role).connected for role in roles) if state.groups is not None else False
    has_world = state.rendezvous is not None and state.rendezvous.world is not None
    return JobProgress.CONNECTED if connected or has_world else JobProgress.NONE


def accepted_records(state: JobState, reported: TrainingProgress) -> int:
    """Of training, since the job began. Those of shards are exact; a loop without shards says by itself how many it has done."""
    queues = [queue for queue in state.shards.queues() if queue.is_training] if state.shards is not None else []
    return sum(queue.finished_records for queue in queues) or reported.records_done
