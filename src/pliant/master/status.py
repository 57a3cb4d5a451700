"""The state of a job as one message, for ``pliant status``, the progress display and the summary."""

from __future__ import annotations

from pliant.core.node_states import Node, NodeState
from pliant.core.rendezvous import World
from pliant.core.shard_queue import ShardQueue
from pliant.master.components import Components
from pliant.master.training import result_message
from pliant.rpc import pliant_pb2 as pb


def job_status(master: Components) -> pb.JobStatus:
    job = master.job
    status = pb.JobStatus(
        name=master.name,
        phase=job.phase.value,
        reason=job.reason,
        started_at=job.started_at,
        ended_at=job.ended_at,
        global_step=master.stats.global_step,
        records_per_second=master.stats.records_per_second(),
        master_starts=job.master_starts,
        components=master.component_names(),
        time=master.clock.now(),
    )
    if job.first_failure is not None:
        f = job.first_failure
        status.first_failure.CopyFrom(
            pb.Failure(node=f.node, kind=f.kind, message=f.message, traceback=f.traceback, time=f.time, log=f.log)
        )
    if master.shards is not None:
        status.datasets.extend(dataset_status(queue) for queue in master.shards.book.queues())
        status.stalled_seconds = master.shards.book.pace.stalled
    if master.training is not None:
        training = master.training.book
        status.evaluations.extend(result_message(result) for result in training.results.values())
        if training.best is not None:
            status.best.CopyFrom(result_message(training.best))
    if master.nodes is not None:
        book = master.nodes.book
        status.nodes.extend(node_status(node, master) for node in book.nodes())
        for name in book.roles():
            role = book.role(name).spec
            running = book.counts(name).get(NodeState.RUNNING, 0)
            status.roles.append(
                pb.RoleStatus(
                    name=name, min=role.min_replicas, max=role.max_replicas, target=role.replicas, running=running
                )
            )
    if master.parameters is not None:
        status.parameters.CopyFrom(master.parameters.status())
    if master.rendezvous is not None and master.rendezvous.machine.world is not None:
        status.world.CopyFrom(world_message(master.rendezvous.machine.world))
    return status


def node_status(node: Node, master: Components) -> pb.NodeStatus:
    stats = master.stats.node(node.name)
    usage = stats.usage[-1] if stats.usage and not node.ended else None
    return pb.NodeStatus(
        name=node.name,
        role=node.role,
        state=node.state.value,
        exit_reason=node.exit_reason.value if node.exit_reason else "",
        message=node.message,
        pid=node.pid or 0,
        agent_pid=node.agent_pid or 0,
        host=node.host,
        restarts=node.restarts,
        replaces=node.replaces or "",
        cpu=usage.cpu if usage else 0.0,
        memory_mb=usage.memory_mb if usage else 0.0,
        memory_limit_mb=(usage.memory_limit_mb if usage else 0.0) or node.resources.memory_mb,
        records_per_second=master.stats.records_per_second(node.name) if not node.ended else 0.0,
        created_at=node.created_at,
        ended_at=node.ended_at or 0.0,
        records=stats.records.total,
    )


def dataset_status(queue: ShardQueue) -> pb.DatasetStatus:
    spec = queue.spec
    return pb.DatasetStatus(
        name=spec.name,
        type=spec.type.value,
        records_per_epoch=queue.records_per_epoch,
        records_done=queue.finished_records,
        records_total=queue.records_per_epoch * spec.epochs,
        epochs=spec.epochs,
        epochs_done=queue.epochs_done,
        shards_done=queue.finished_shards,
        shards_total=queue.shards_per_epoch * spec.epochs,
        shards_in_work=queue.out,
        shards_waiting=len(queue.returned),
        parked=[
            pb.ParkedShard(
                name=p.extent.name,
                start=p.extent.start,
                end=p.extent.end,
                epoch=p.piece.epoch,
                failures=p.piece.failures + p.piece.timeouts,
                message=p.message,
            )
            for p in queue.parked
        ],
        complete=queue.complete,
        lease_timeout=queue.lease_timeout(),
    )


def world_message(world: World) -> pb.World:
    members = [
        pb.Member(name=m.name, incarnation=m.incarnation, attrs=dict(m.attrs), step=m.step) for m in world.members
    ]
    return pb.World(round=world.round, members=members)
