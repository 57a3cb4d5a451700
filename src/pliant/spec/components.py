"""Which components of the master run: flags and strategy in, one of the seven combinations of the design out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from pliant.spec.base import Contradiction, Flag, Model, Problem

Strategy = Literal["none", "local", "allreduce", "ps-sync", "ps-async"]


class ComponentFlags(Model):
    """Components of the master to run; what is not given follows from the strategy."""

    need_pod_manager: Flag | None = Field(default=None, description="Create and watch nodes. Default: true.")
    need_task_manager: Flag | None = Field(default=None, description="Lease data shards. Default: true.")
    need_rendezvous: Flag | None = Field(
        default=None, description="Form worlds of workers. Default: true with the strategies local and allreduce."
    )
    need_training_service: Flag | None = Field(
        default=None,
        description="Run evaluation, model versions and checkpoints of native training. Default: by the strategy.",
    )
    task_fault_tolerance: Flag | None = Field(
        default=None,
        description="Requeue the shards of failed workers; if false, a worker that dies while it holds shards "
        "fails the job, and the message lists their records. Default: true with nodes and shards.",
    )
    keep_serving: Flag | None = Field(
        default=None,
        description="Keep a master that only leases shards running after all are done. Default: false.",
    )


@dataclass(frozen=True, slots=True)
class ComponentSet:
    """The components that a master runs."""

    nodes: bool
    shards: bool
    rendezvous: bool
    training: bool
    fault_tolerance: bool
    parameters: bool = False  # coordinates parameter servers; follows from the strategy
    keeps_serving: bool = False  # no end of its own, although there are no nodes whose end it could be

    @property
    def case(self) -> int:
        """The number of the combination, 1 to 7, in the table of the modular master; 0: a rendezvous without nodes."""
        if not self.nodes:
            return 0 if self.rendezvous else 1
        return 2 + self.rendezvous + 2 * self.shards + 2 * self.training


def _either(given: bool | None, default: bool) -> bool:
    return default if given is None else given


def resolve(flags: ComponentFlags, strategy: Strategy) -> ComponentSet:
    """Raises ``Contradiction`` for what is none of the seven, nor a rendezvous for nodes that others start."""
    nodes = _either(flags.need_pod_manager, True)
    shards = _either(flags.need_task_manager, True)
    training = _either(flags.need_training_service, nodes and shards and strategy != "none")
    tolerant = _either(flags.task_fault_tolerance, nodes and shards)
    rendezvous = _either(flags.need_rendezvous, nodes and strategy in ("local", "allreduce"))
    problems = []
    if not nodes and not shards and not rendezvous:
        path = ("components", "need_task_manager")
        problems.append(Problem(path, False, "true, since nothing would run without pods and tasks"))
    if not nodes and strategy != "none":
        problems.append(Problem(("strategy",), strategy, "none, since components.need_pod_manager is false"))
    if training and not (nodes and shards):
        path = ("components", "need_training_service")
        problems.append(Problem(path, True, "false, unless need_pod_manager and need_task_manager are true"))
    if tolerant and not shards:
        path = ("components", "task_fault_tolerance")
        problems.append(Problem(path, True, "false, since need_task_manager is false"))
    if flags.keep_serving and nodes:
        path = ("components", "keep_serving")
        problems.append(Problem(path, True, "false, unless need_pod_manager is false: a job with nodes ends with them"))
    if problems:
        raise Contradiction(problems)
    parameters = strategy in ("ps-sync", "ps-async") and shards
    return ComponentSet(nodes, shards, rendezvous, training, tolerant, parameters, bool(flags.keep_serving))
