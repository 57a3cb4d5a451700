"""What a job that ran out of memory teaches about its next run: with how much it failed, and how much was enough.

A node that ran out of memory is replaced by one with more (``core/nodes/fault_policy.py``), so the job may well succeed, and would
start with too little again. Computed from the final status, whose nodes are journaled with their requests and measured peaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pliant.core.job import Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.status import JobStatus, NodeStatus

OPTIONS = {"worker": "--memory", "ps": "--ps-memory"}  # of the command, by role


@dataclass(frozen=True, slots=True)
class MemoryAdvice:
    """Of one role. All amounts are MB per node."""

    role: str
    ran_out_mb: tuple[int, ...]  # requests with which nodes ran out of memory, ascending
    last_mb: int  # the largest request
    was_enough: bool  # the job succeeded, and each node that ran out was replaced by one that did not
    peak_mb: int = 0  # the most that was measured of a node with the largest request; 0: nothing was

    @property
    def option(self) -> str:
        """What to add to the command, or to change in the job's file."""
        amount = f"{self.last_mb}Mi"
        known = OPTIONS.get(self.role)
        return f"{known} {amount}" if known else f"roles.{self.role}.resources.memory: {amount}"

    def sentence(self) -> str:
        peak = f" (peak {self.peak_mb} MB)" if self.peak_mb else ""
        failed = f"{self.role} ran out of memory with {_listed(self.ran_out_mb)}"
        if self.was_enough:
            return f"{failed}; {self.last_mb} MB was enough{peak}: use {self.option} next time"
        if self.last_mb > self.ran_out_mb[-1]:
            return f"{failed}; it ran with {self.last_mb} MB at the end{peak}: use at least {self.option} next time"
        return f"{failed}{peak}: use more than {self.option}, or smaller batches"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ran_out_mb": list(self.ran_out_mb), "option": self.option, "message": self.sentence()}


def memory_advice(status: JobStatus) -> tuple[MemoryAdvice, ...]:
    """One for each role of which a node with a limit ran out of memory."""
    found = (_advice(role.name, status) for role in status.roles)
    return tuple(advice for advice in found if advice is not None)


def _advice(role: str, status: JobStatus) -> MemoryAdvice | None:
    ours = [node for node in status.nodes if node.role == role]
    out = [node for node in ours if node.exit_reason is ExitReason.OOM and node.memory_limit_mb]
    if not out:
        return None
    successor = {node.replaces: node for node in ours if node.replaces}
    ends = [_end_of_line(node, successor) for node in out]
    last_mb = max(int(node.memory_limit_mb) for node in (*out, *ends))
    largest = [node for node in (*out, *ends) if node.memory_limit_mb == last_mb]
    return MemoryAdvice(
        role,
        tuple(sorted({int(node.memory_limit_mb) for node in out})),
        last_mb,
        was_enough=status.phase is Phase.SUCCEEDED and all(node.exit_reason is not ExitReason.OOM for node in ends),
        peak_mb=max(int(node.peak_memory_mb) for node in largest),
    )


def _end_of_line(node: NodeStatus, successor: dict[str, NodeStatus]) -> NodeStatus:
    while (after := successor.get(node.name)) is not None:
        node = after
    return node


def _listed(amounts: Sequence[int]) -> str:
    words = [f"{amount} MB" for amount in amounts]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
