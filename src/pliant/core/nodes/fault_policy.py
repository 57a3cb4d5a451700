"""What happens after the end of a node or its program, from one table of budgets.

A budget belongs to a kind of failure, since they mean different things: a preempted node says nothing about the
program, an error of the program says nothing about the machine. ``FaultPolicy.next_step`` is the whole policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pliant.core.nodes.permanent import JobProgress, PermanentErrors, PermanentKind
from pliant.core.plurals import counted
from pliant.core.resources import Resources
from pliant.core.shares import exact, floor_share


class ExitReason(StrEnum):
    COMPLETED = "Completed"
    OOM = "OOM"
    PREEMPTED = "Preempted"
    KILLED = "Killed"
    ERROR = "Error"
    HANG = "Hang"
    UNKNOWN = "Unknown"


ORDERLY_ENDS = frozenset({ExitReason.COMPLETED, ExitReason.PREEMPTED})  # of a program that was asked to end
OUT_OF_GRACE = "killed after its grace period"  # in the message of one that did not


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential: ``first`` seconds before try 1, times ``factor`` for each further try, at most ``max_delay``."""

    first: float = 1.0
    factor: float = 2.0
    max_delay: float = 60.0

    def delay(self, tries_before: int) -> float:
        if self.first <= 0:
            return 0.0
        try:
            return min(self.max_delay, self.first * float(self.factor) ** tries_before)
        except OverflowError:
            return self.max_delay


@dataclass(frozen=True, slots=True)
class Budget:
    """How many failures of one kind a line of replacements may have (-1: any number), and how each is handled."""

    limit: int
    backoff: Backoff = field(default_factory=Backoff)
    in_place: bool = False  # the agent restarts the program on the same node


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """After out-of-memory: ``max(memory * factor, memory + add_mb)``, at most ``ceiling_mb`` (0: what the largest machine has)."""

    factor: float = 1.5
    add_mb: int = 256
    ceiling_mb: int = 0

    def ceiling(self, max_memory_mb: int | None = None) -> tuple[int | None, str]:
        """The most that may be asked for, and whose limit that is. None: there is no limit.

        ``max_memory_mb``: of the largest machine; None: it is not known.
        """
        limits = [(self.ceiling_mb, "the limit set by fault.memory.ceiling")] if self.ceiling_mb else []
        if max_memory_mb is not None:
            limits.append((max_memory_mb, "the size of the largest machine"))
        return min(limits) if limits else (None, "")

    def grown(self, memory_mb: int, ceiling_mb: int | None = None) -> int:
        wanted = max(floor_share(self.factor, memory_mb), memory_mb + self.add_mb)
        return wanted if ceiling_mb is None else min(wanted, ceiling_mb)


class Step(StrEnum):
    NOTHING = "nothing"
    RESTART = "restart in place"
    REPLACE = "replace"
    GIVE_UP = "give up"
    FAIL_JOB = "fail the job"  # however many nodes are left: the others would fail in the same way


@dataclass(frozen=True, slots=True)
class FaultDecision:
    step: Step
    reason: str
    delay: float = 0.0  # seconds before it is carried out
    memory_mb: int | None = None  # request of the replacement; None: as before


_FAILED = {
    ExitReason.ERROR: "failed",
    ExitReason.KILLED: "was killed",
    ExitReason.OOM: "ran out of memory",
    ExitReason.PREEMPTED: "was preempted",
    ExitReason.HANG: "hung",
    ExitReason.UNKNOWN: "ended for an unknown reason",
}


def default_budgets() -> dict[ExitReason, Budget]:
    return {
        ExitReason.ERROR: Budget(3, Backoff(0.5, 2.0, 30.0), in_place=True),
        ExitReason.KILLED: Budget(100, Backoff(0.1, 1.5, 10.0), in_place=True),
        ExitReason.OOM: Budget(5, Backoff(0.5, 2.0, 30.0)),
        ExitReason.PREEMPTED: Budget(-1, Backoff(0.1, 1.2, 10.0)),
        ExitReason.HANG: Budget(10, Backoff(0.5, 2.0, 30.0)),
        ExitReason.UNKNOWN: Budget(10, Backoff(0.5, 2.0, 60.0)),
    }


def shrink_resources(asked: Resources, minimum: Resources, *, keep_memory: bool) -> Resources:
    """Halfway from the request to the minimum, rounded down, so that the minimum is reached.

    A field whose minimum is zero is not touched: zero means "no limit", which would be more and not less.
    """

    def down(now: float, least: float, *, steps: int = 1) -> float:
        """In ``steps`` per unit."""
        if not 0 < least < now:
            return now
        return max(least, math.floor((exact(now) + exact(least)) * steps / 2) / steps)

    return Resources(
        cpu=down(asked.cpu, minimum.cpu, steps=10),
        memory_mb=asked.memory_mb if keep_memory else int(down(asked.memory_mb, minimum.memory_mb)),
        gpu=int(down(asked.gpu, minimum.gpu)),
    )


@dataclass(frozen=True, slots=True)
class FaultPolicy:
    """The fault tolerance of a job: budgets by kind, and time-outs."""

    budgets: Mapping[ExitReason, Budget] = field(default_factory=default_budgets)
    memory: MemoryGrowth = field(default_factory=MemoryGrowth)
    heartbeat_timeout: float = 15.0  # silence of an agent before its node is given up
    start_timeout: float = 300.0  # from the platform's acceptance until the agent registers
    progress_timeout: float = 0.0  # without progress, before a running worker is replaced; 0: never
    unschedulable_backoff: Backoff = field(default_factory=lambda: Backoff(1.0, 2.0, 60.0))
    unschedulable_shrink_after: float = 120.0  # seconds before fewer resources are requested
    unschedulable_give_up_after: float = 600.0  # seconds for a request that no machine can meet; 0: never
    grace: float = 10.0  # between SIGTERM and SIGKILL
    permanent_errors: PermanentErrors = PermanentErrors.FAIL

    def next_step(
        self,
        exit_reason: ExitReason,
        failures: Mapping[str, int],
        memory_mb: int,
        *,
        agent_alive: bool,
        max_memory_mb: int | None = None,
        peak_mb: int = 0,
        permanent: PermanentKind | None = None,
        progress: JobProgress = JobProgress.NONE,
        may_be_of_one_machine: bool = False,
    ) -> FaultDecision:
        """Decide after one exit.

        ``failures`` counts the earlier failures of this line of nodes by kind, this one not included. ``max_memory_mb``: of the
        largest machine, if that is known. ``peak_mb``: what was measured of this node; 0: nothing was. ``permanent``: a restart
        would fail in the same way, unless the job got further before (``progress``) or the machine is at fault
        (``may_be_of_one_machine``).
        """
        if exit_reason is ExitReason.COMPLETED:
            return FaultDecision(Step.NOTHING, "the program finished")
        # A policy need not name every kind.
        budget = self.budgets.get(exit_reason) or default_budgets()[exit_reason]
        before = failures.get(exit_reason.value, 0)
        is_permanent = permanent is not None and self._is_permanent(permanent, progress)
        if permanent is not None and is_permanent and not may_be_of_one_machine:
            return FaultDecision(Step.FAIL_JOB, f"{permanent.in_words()}; not restarted, it would fail the same way")
        if budget.limit >= 0 and before >= budget.limit:
            last = f", last with {memory_mb} MB{_peak(peak_mb)}" if exit_reason is ExitReason.OOM and memory_mb else ""
            return FaultDecision(
                Step.GIVE_UP, f"{_FAILED[exit_reason]} {counted(before + 1, 'time')} (limit {budget.limit}){last}"
            )
        delay = budget.backoff.delay(before)
        if permanent is not None and is_permanent:
            why = f"{permanent.in_words()}; this may be specific to its machine, trying another machine"
            return FaultDecision(Step.REPLACE, why, delay)
        tries = f"{exit_reason.value} {before + 1}" + (f" of {budget.limit}" if budget.limit >= 0 else "")
        if exit_reason is ExitReason.OOM and memory_mb > 0:
            ceiling, whose = self.memory.ceiling(max_memory_mb)
            grown = self.memory.grown(memory_mb, ceiling)
            if grown <= memory_mb:
                why = f"out of memory with {memory_mb} MB{_peak(peak_mb)}; cannot request more, {ceiling} MB is {whose}"
                return FaultDecision(Step.GIVE_UP, why)
            return FaultDecision(
                Step.REPLACE, f"{tries}: {memory_mb} MB was not enough, requesting {grown} MB", delay, grown
            )
        if budget.in_place and agent_alive:
            return FaultDecision(Step.RESTART, f"{tries}: restarting the program", delay)
        return FaultDecision(Step.REPLACE, f"{tries}: replacing the node", delay)

    def _is_permanent(self, kind: PermanentKind, progress: JobProgress) -> bool:
        return self.permanent_errors is PermanentErrors.FAIL and kind.is_of_whole_job(progress)


def _peak(peak_mb: int) -> str:
    return f", measured peak {peak_mb} MB" if peak_mb else ""
