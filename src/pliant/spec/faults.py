"""What the job says about failures; becomes a ``core.nodes.fault_policy.FaultPolicy``, whose defaults are also these."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from pliant.core.nodes.fault_policy import Backoff, Budget, ExitReason, FaultPolicy, MemoryGrowth
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

    first: Seconds = Field(default=1.0, description="Seconds before the first try.")
    factor: Factor = Field(default=2.0, description="Multiplies the wait with each further attempt.")
    longest: Seconds = Field(default=60.0, description="Seconds that no try waits longer than.")

    def to_core(self) -> Backoff:
        return Backoff(self.first, self.factor, self.longest)


def _backoff(core: Backoff) -> BackoffSpec:
    return BackoffSpec(first=core.first, factor=core.factor, longest=core.max_delay)


class BudgetSpec(Model):
    """How often one kind of failure is forgiven, and how."""

    limit: Limit = Field(
        default=10, description="How often it is forgiven to one node and its replacements; -1: always."
    )
    backoff: BackoffSpec = Field(default=BackoffSpec(), description="How long to wait before the next try.")
    in_place: Flag = Field(
        default=False,
        description="Whether the agent starts the program again on the same node while that is alive.",
    )

    def to_core(self) -> Budget:
        return Budget(self.limit, self.backoff.to_core(), self.in_place)


def _budget(kind: str) -> BudgetSpec:
    core = DEFAULT.budgets[KINDS[kind]]
    return BudgetSpec(limit=core.limit, backoff=_backoff(core.backoff), in_place=core.in_place)


class MemorySpec(Model):
    """What the replacement of a node that ran out of memory is given."""

    factor: Factor = Field(default=DEFAULT.memory.factor, description="So many times as much memory as before,")
    add: Memory = Field(default=DEFAULT.memory.add_mb, description="and at least this much more,")
    ceiling: Memory = Field(
        default=DEFAULT.memory.ceiling_mb,
        description="but never more than this, nor than the largest machine has; 0: that alone.",
    )

    def to_core(self) -> MemoryGrowth:
        return MemoryGrowth(self.factor, self.add, self.ceiling)


class UnschedulableSpec(Model):
    """What happens to a node that the platform has no room for."""

    backoff: BackoffSpec = Field(
        default=_backoff(DEFAULT.unschedulable_backoff), description="How often it is tried again."
    )
    shrink_after: Seconds = Field(
        default=DEFAULT.unschedulable_shrink_after,
        description="Seconds of waiting before less is asked for, down to min_resources.",
    )
    give_up_after: Seconds = Field(
        default=DEFAULT.unschedulable_give_up_after,
        description="Seconds of waiting before a node is given up that no machine of the platform is large enough for; 0: never.",
    )


class FaultSpec(Model):
    """Limits and back-off by kind of failure, and how long to wait for what."""

    error: BudgetSpec = Field(default=_budget("error"), description="The program ended with an error.")
    killed: BudgetSpec = Field(default=_budget("killed"), description="The program was killed by a signal.")
    oom: BudgetSpec = Field(default=_budget("oom"), description="The node ran out of memory.")
    preempted: BudgetSpec = Field(default=_budget("preempted"), description="The platform took the node away.")
    hang: BudgetSpec = Field(default=_budget("hang"), description="The node was silent or made no progress.")
    unknown: BudgetSpec = Field(default=_budget("unknown"), description="Nobody can say why the node ended.")
    memory: MemorySpec = Field(default=MemorySpec(), description="How memory grows after a node ran out of it.")
    heartbeat_timeout: MoreThanNothing = Field(
        default=DEFAULT.heartbeat_timeout, description="Seconds of an agent's silence before its node is given up."
    )
    start_timeout: MoreThanNothing = Field(
        default=DEFAULT.start_timeout, description="Seconds from the launch of a node until its agent registers."
    )
    progress_timeout: Seconds = Field(
        default=DEFAULT.progress_timeout,
        description="Seconds without progress (a record, a step) after which a worker is replaced, counted from the start of its"
        " program; 0: never.",
    )
    session_timeout: MoreThanNothing = Field(
        default=30.0, description="Seconds of silence of a program's client before its shards are given to others."
    )
    orphan_timeout: MoreThanNothing = Field(
        default=600.0, description="Seconds that an agent keeps its program running without a master."
    )
    grace: Seconds = Field(default=DEFAULT.grace, description="Seconds between SIGTERM and SIGKILL.")
    unschedulable: UnschedulableSpec = Field(
        default=UnschedulableSpec(), description="What happens to a node that there is no room for."
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
        )
