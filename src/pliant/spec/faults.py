"""What the job says about failures; becomes a ``core.nodes.fault_policy.FaultPolicy``, whose defaults are also these."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from pliant.core.nodes.fault_policy import Backoff, Budget, ExitReason, FaultPolicy, MemoryGrowth
from pliant.core.nodes.permanent import PermanentErrors
from pliant.spec.base import Count, Flag, Limit, Model, Seconds
from pliant.spec.quantities import Memory
from pliant.spec.roles import RestartLimits

Factor = Annotated[float, Field(strict=True, ge=1, le=1000, allow_inf_nan=False)]
MoreThanNothing = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]

KINDS = {
    "error": ExitReason.ERROR,
    "killed": ExitReason.KILLED,
    "oom": ExitReason.OOM,
    "preempted": ExitReason.PREEMPTED,
    "hang": ExitReason.HANG,
    "unknown": ExitReason.UNKNOWN,
}
DEFAULT = FaultPolicy()


class BackoffSpec(Model):
    """Exponential waiting."""

    first: Seconds = Field(default=1.0, description="Seconds before the first attempt.")
    factor: Factor = Field(default=2.0, description="Factor that multiplies the delay after each attempt.")
    longest: Seconds = Field(default=60.0, description="Maximum delay in seconds.")

    def to_core(self) -> Backoff:
        return Backoff(self.first, self.factor, self.longest)


def _backoff(core: Backoff) -> BackoffSpec:
    return BackoffSpec(first=core.first, factor=core.factor, longest=core.max_delay)


class BudgetSpec(Model):
    """How often one kind of failure is forgiven, and how."""

    limit: Limit = Field(
        default=10,
        description="Maximum number of restarts of a node and its replacements after this kind of failure; -1: no limit.",
    )
    backoff: BackoffSpec = Field(default=BackoffSpec(), description="Delay before the next attempt.")
    in_place: Flag = Field(
        default=False,
        description="Whether the agent restarts the program on the same node while the node is alive.",
    )

    def to_core(self) -> Budget:
        return Budget(self.limit, self.backoff.to_core(), self.in_place)


def _budget(kind: str) -> BudgetSpec:
    core = DEFAULT.budgets[KINDS[kind]]
    return BudgetSpec(limit=core.limit, backoff=_backoff(core.backoff), in_place=core.in_place)


class MemorySpec(Model):
    """What the replacement of a node that ran out of memory is given."""

    factor: Factor = Field(default=DEFAULT.memory.factor, description="Factor by which memory grows.")
    add: Memory = Field(default=DEFAULT.memory.add_mb, description="Minimum increase of memory.")
    ceiling: Memory = Field(
        default=DEFAULT.memory.ceiling_mb,
        description="Maximum memory, besides the size of the largest machine; 0: only the latter.",
    )

    def to_core(self) -> MemoryGrowth:
        return MemoryGrowth(self.factor, self.add, self.ceiling)


class UnschedulableSpec(Model):
    """What happens to a node that the platform has no room for."""

    backoff: BackoffSpec = Field(default=_backoff(DEFAULT.unschedulable_backoff), description="Delay between attempts.")
    shrink_after: Seconds = Field(
        default=DEFAULT.unschedulable_shrink_after,
        description="Seconds before requesting less, down to min_resources.",
    )
    give_up_after: Seconds = Field(
        default=DEFAULT.unschedulable_give_up_after,
        description="Seconds before giving up on a node that fits no machine of the platform; 0: never.",
    )


class FaultSpec(Model):
    """Limits and back-off by kind of failure, and how long to wait for what."""

    error: BudgetSpec = Field(default=_budget("error"), description="The program ended with an error.")
    killed: BudgetSpec = Field(default=_budget("killed"), description="The program was killed by a signal.")
    oom: BudgetSpec = Field(default=_budget("oom"), description="The node ran out of memory.")
    preempted: BudgetSpec = Field(default=_budget("preempted"), description="The platform preempted the node.")
    hang: BudgetSpec = Field(default=_budget("hang"), description="The node sent no heartbeat or made no progress.")
    unknown: BudgetSpec = Field(default=_budget("unknown"), description="The node ended for an unknown reason.")
    memory: MemorySpec = Field(default=MemorySpec(), description="How memory grows after a node ran out of memory.")
    heartbeat_timeout: MoreThanNothing = Field(
        default=DEFAULT.heartbeat_timeout, description="Seconds without a heartbeat before giving up on a node."
    )
    start_timeout: MoreThanNothing = Field(
        default=DEFAULT.start_timeout, description="Seconds from the launch of a node until its agent registers."
    )
    progress_timeout: Seconds = Field(
        default=DEFAULT.progress_timeout,
        description="Seconds without progress (a record or a step) before a worker is replaced, counted from "
        "the start of its program; 0: never.",
    )
    session_timeout: MoreThanNothing = Field(
        default=30.0, description="Seconds without a message from a program before its shards are requeued."
    )
    orphan_timeout: MoreThanNothing = Field(
        default=600.0, description="Seconds an agent keeps its program running without a master."
    )
    grace: Seconds = Field(default=DEFAULT.grace, description="Seconds between SIGTERM and SIGKILL.")
    permanent_errors: Literal["fail", "retry"] = Field(
        default="fail",
        description="Reaction to an error that a restart would repeat (a missing module, a syntax error, wrong arguments) before"
        " the job made progress: fail the job, or retry as after any other error.",
    )
    warm_standby: Flag = Field(
        default=False,
        description="Keep a process beside each worker that has imported its libraries and succeeds it if it is killed.",
    )
    unschedulable: UnschedulableSpec = Field(
        default=UnschedulableSpec(), description="What happens to an unschedulable node."
    )

    def budget(self, kind: str) -> BudgetSpec:
        budgets = (self.error, self.killed, self.oom, self.preempted, self.hang, self.unknown)
        return dict(zip(KINDS, budgets, strict=True))[kind]

    def to_policy(self, restarts: RestartLimits | None = None) -> FaultPolicy:
        """The policy for a role with these limits of its own (None: the job's)."""
        own: dict[str, Count | None] = restarts.entries() if restarts else {}
        budgets = {}
        for kind, reason in KINDS.items():
            budget, limit = self.budget(kind).to_core(), own.get(kind)
            budgets[reason] = budget if limit is None else replace(budget, limit=limit)
        return FaultPolicy(
            budgets=budgets,
            memory=self.memory.to_core(),
            heartbeat_timeout=self.heartbeat_timeout,
            start_timeout=self.start_timeout,
            progress_timeout=self.progress_timeout,
            unschedulable_backoff=self.unschedulable.backoff.to_core(),
            unschedulable_shrink_after=self.unschedulable.shrink_after,
            unschedulable_give_up_after=self.unschedulable.give_up_after,
            grace=self.grace,
            permanent_errors=PermanentErrors(self.permanent_errors),
        )
