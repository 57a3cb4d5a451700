"""The supervisor of programs: reports of their agents, and what follows for the job.

A program that is stopped (SIGSTOP) or makes no progress, one that ends, and why: ``core.nodes.stall_detector`` decides on
kills, ``GroupCoordinator`` says whether an exit is only the consequence of a peer's, and ``NodeManager`` what happens next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pliant.core.clock import Clock
from pliant.core.end_policy import PARAMETER_SERVER
from pliant.core.events import NodeHung, ProgramFrozen
from pliant.core.job import JobBook
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.permanent import PermanentKind
from pliant.core.nodes.stall_detector import MAX_KILL_S, KillDecision, StallDetector
from pliant.core.nodes.states import Node, RestartProgram
from pliant.master.components.base import Component
from pliant.master.components.groups import GroupCoordinator
from pliant.master.components.nodes import NodeManager
from pliant.master.components.signals import ProgramGone, ProgramStopped, ServersSilent, Signal, SignalBus
from pliant.master.journal.journal import Journal

CONSEQUENCES = (ExitReason.ERROR, ExitReason.KILLED)  # ways in which a program may end because a peer did


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """What an agent reports of a program that ended."""

    node: str
    incarnation: int
    exit_reason: ExitReason
    message: str = ""
    traceback: str = ""
    log: str = ""  # path of its whole output
    generation: int = 0  # of its group
    grouped: bool = False  # it communicates with its peers
    recalled: bool = False  # its agent ended it, as the master asked
    permanent: PermanentKind | None = None  # a restart would fail in the same way
    hint: str = ""  # what to do about a permanent error
    peak_mb: int = 0  # of memory that its agent measured; 0: nothing was


class ProgramSupervisor(Component):
    name = "programs"
    title = "supervisor of programs"
    enabled_by = NodeManager.enabled_by

    def __init__(
        self,
        job: JobBook,
        journal: Journal,
        clock: Clock,
        signals: SignalBus,
        *,
        nodes: NodeManager,
        groups: GroupCoordinator,
        has_servers: bool,
    ) -> None:
        """``has_servers``: parameter servers that stall are killed, since everybody waits for them."""
        self._job = job
        self._journal = journal
        self._clock = clock
        self._signals = signals
        self._nodes = nodes
        self._groups = groups
        self._has_servers = has_servers
        self._stalls = StallDetector()

    def on_event(self, signal: Signal) -> None:
        match signal:
            case ProgramGone(node=node, incarnation=None):
                self._stalls.forget(node)
            case ServersSilent(seconds=silent):
                self._check_silent(silent)
            case _:
                return

    # --- programs that stall

    def heartbeat(self, node: str, incarnation: int, *, stopped: bool) -> str:
        """Its agent reports whether the program is stopped by a signal. Returns why the agent is to kill it; empty: it is not."""
        record = self._nodes.book.get(node)
        if record.ended:
            return ""
        seconds = self._stalls.heard(self._clock.now(), node=node, incarnation=incarnation, stopped=stopped)
        if seconds > 0:
            self._signals.publish(ProgramStopped(node, seconds))
        if not self._has_servers or self._job.over or record.role != PARAMETER_SERVER:
            return ""
        if self._nodes.book.get(node).incarnation != incarnation:
            return ""
        if (due := self._stalls.find_stopped(node)) is not None:
            self._decide_kill(due)
        if self._stalls.is_ignored(node):
            self._stalls.forget(node)
            self._nodes.give_up(node, ExitReason.HANG, f"its agent did not kill its program within {MAX_KILL_S:.0f} s")
            return ""
        decision = self._stalls.kill_decision_for(node, incarnation)
        return decision.reason if decision is not None else ""

    def _check_silent(self, silent: Mapping[str, float]) -> None:
        """Parameter servers that run but make no progress are killed as well."""
        if self._job.over:
            return
        there = {node.name: node for node in self._nodes.book.active(PARAMETER_SERVER)}
        for name, seconds in silent.items():
            if name in there and (due := self._stalls.find_silent(name, there[name].incarnation, seconds)) is not None:
                self._decide_kill(due)

    def _decide_kill(self, due: KillDecision) -> None:
        self._stalls.record_kill(due)
        kind = NodeHung if due.is_hang else ProgramFrozen
        self._journal.event(kind(node=due.node, reason=due.reason, killed=True))

    # --- programs that end

    def exited(self, report: ProgramExit) -> RestartProgram | None:
        """Returns how to restart it; None: its agent leaves."""
        reason = report.exit_reason
        record = self._nodes.book.get(report.node)
        current = report.incarnation == record.incarnation and not record.ended
        stays = current and record.removal is None and not self._job.over
        decision = (
            self._stalls.kill_decision_for(report.node, report.incarnation) if reason is ExitReason.KILLED else None
        )
        alone = decision is not None and not decision.is_hang
        recalled = stays and (self._is_recalled(report) or alone)
        if decision is not None and decision.is_hang and not recalled:
            reason = ExitReason.HANG
        if current and reason in (ExitReason.ERROR, ExitReason.OOM) and not recalled:
            self._note_failure(record, report, reason)
        if recalled:
            restart = self._nodes.program_recalled(report.node, report.incarnation, report.message, alone=alone)
        else:
            restart = self._nodes.program_exited(
                report.node,
                report.incarnation,
                reason,
                report.message,
                permanent=report.permanent if reason is ExitReason.ERROR else None,
                peak_mb=report.peak_mb,
            )
        if current:
            finished = reason is ExitReason.COMPLETED and not recalled
            self._groups.program_gone(report.node, report.generation, finished=finished, message=report.message)
        return restart

    def _is_recalled(self, report: ProgramExit) -> bool:
        """Whether it ended only because its group is restarted."""
        if report.grouped:
            self._groups.seen(report.node, report.generation)
        consequence = report.exit_reason in CONSEQUENCES and self._groups.excuses(
            report.node, report.generation, report.message
        )
        return report.recalled or consequence

    def _note_failure(self, record: Node, report: ProgramExit, reason: ExitReason) -> None:
        if record.removal is None and not self._job.over:
            self._journal.do(
                self._job.failed,
                node=report.node,
                kind=reason.value,
                message=report.message,
                traceback=report.traceback,
                log=report.log,
                **({"hint": report.hint} if report.hint else {}),
            )
