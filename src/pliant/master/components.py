"""The parts of one master and how they hang together: what one part learns, the others are told.

Which parts there are depends on the job; a part that is not needed is None. ``check_end`` is the one place that decides
that a job is over: it failed when a node was given up for good, it is done when its workers are done *and* its shards
are, and it never succeeds with shards undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pliant.core.clock import Clock
from pliant.core.datasets import LARGEST
from pliant.core.errors import Conflict, InvalidRequest, NotAvailable, NotFound
from pliant.core.job import JobBook, Phase
from pliant.core.node_states import Node, NodeState, RestartProgram
from pliant.core.relaunch import ExitReason
from pliant.core.standstill import DEFIED, Sentence, Standstill
from pliant.master.groups import GroupKeeper
from pliant.master.journal import Journal
from pliant.master.journal_store import EventRecord
from pliant.master.nodes import NodeManager
from pliant.master.parameters import ParameterCoordinator
from pliant.master.rendezvous import RendezvousServer
from pliant.master.scaling import ManualGenerator, ResourceGenerator
from pliant.master.shards import DataShardManager
from pliant.master.stats import MemoryStats
from pliant.master.training import TrainingService
from pliant.rpc import pliant_pb2 as pb

FROZEN_SECONDS = 1.5  # of a stopped program before its peers go on without it
FROZEN_IN_GROUP = 5.0  # before a group that cannot go on without it starts anew, which costs more
CONSEQUENCES = (ExitReason.ERROR, ExitReason.KILLED)  # ways in which a program may end because a peer did
PS = "ps"
SERVICE_ROLES = frozenset({PS})  # these serve the others and never finish by themselves


class Components:
    def __init__(
        self,
        name: str,
        clock: Clock,
        journal: Journal,
        job: JobBook,
        read_events: Callable[[int, int], list[EventRecord]],
        *,
        read_audit: Callable[[], dict[str, Any]] | None = None,
        heartbeat_seconds: float = 1.0,
        session_timeout: float = 30.0,
    ) -> None:
        self.name = name
        self.clock = clock
        self.journal = journal
        self.job = job
        self.read_events = read_events
        self.read_audit = read_audit
        self.heartbeat_seconds = heartbeat_seconds
        # Who waits at the master is silent meanwhile: no wait, and no pause between two beats, may come near the time-out.
        self.beat_seconds = min(2.0, session_timeout / 5)
        self.longest_wait = min(30.0, session_timeout / 3)
        self.stats = MemoryStats(clock)
        self.generator: ResourceGenerator = ManualGenerator()
        self.nodes: NodeManager | None = None
        self.groups: GroupKeeper | None = None  # with nodes
        self.shards: DataShardManager | None = None
        self.rendezvous: RendezvousServer | None = None
        self.training: TrainingService | None = None
        self.parameters: ParameterCoordinator | None = None
        self.standstill = Standstill()
        self.ended = asyncio.Event()  # the job is over (its nodes may still be on their way out)
        self.gone = asyncio.Event()  # and nothing of it is left
        self.woken = asyncio.Event()  # something is to be done before the next tick

    def wire(self) -> None:
        """Tell the parts of each other."""
        if self.nodes is not None:
            self.nodes.on_program_gone = self._program_gone
            self.nodes.on_change = self._nodes_changed
        if self.shards is not None:
            self.shards.on_progress = self._progress
        if self.parameters is not None and self.shards is not None:
            self.shards.on_session_end = self.parameters.end_session
            self.parameters.on_retired = self._seat_gone

    def component_names(self) -> list[str]:
        parts = ("nodes", "shards", "rendezvous", "training", "parameters")
        return [name for name in parts if getattr(self, name) is not None]

    # --- calls that concern several parts

    def check_run(self, node: str, incarnation: int) -> None:
        """Refuse a program that was given up, or followed by another run."""
        if self.nodes is None:
            return
        try:
            record = self.nodes.book.get(node)
        except NotFound:
            return  # a guest: a program that someone else launched
        if record.ended or incarnation < record.incarnation:
            raise Conflict(f"{node} (run {incarnation}) was given up by the master; this program should end")

    def open_session(self, shards: DataShardManager, session: str, node: str, incarnation: int) -> None:
        if not shards.book.has_session(session):
            self.check_run(node, incarnation)
        shards.open_session(session, node, incarnation)

    def program_exited(self, report: pb.ProgramExitedRequest) -> RestartProgram | None:
        if self.nodes is None:
            raise NotAvailable("this master runs without its node manager", hint="start it with --need-pod-manager")
        reason = ExitReason(report.exit_reason) if report.exit_reason in set(ExitReason) else ExitReason.UNKNOWN
        record, message = self.nodes.book.get(report.node), report.message[:2000]
        current = report.incarnation == record.incarnation and not record.ended
        stays = current and record.removal is None and not self.job.over
        sentence = self.standstill.sentence_on(report.node, report.incarnation) if reason is ExitReason.KILLED else None
        alone = sentence is not None and not sentence.is_hang
        recalled = stays and (self._is_recalled(report, reason) or alone)
        if sentence is not None and sentence.is_hang and not recalled:
            reason = ExitReason.HANG
        if current and reason in (ExitReason.ERROR, ExitReason.OOM) and not recalled:
            self._note_failure(record, report, reason)
        if recalled:
            restart = self.nodes.program_recalled(report.node, report.incarnation, message, alone=alone)
        else:
            restart = self.nodes.program_exited(report.node, report.incarnation, reason, message)
        if self.groups is not None and current:
            finished = reason is ExitReason.COMPLETED and not recalled
            self.groups.program_gone(report.node, report.generation, finished=finished, message=message)
        return restart

    def _is_recalled(self, report: pb.ProgramExitedRequest, reason: ExitReason) -> bool:
        """Whether it ended only because its group starts anew."""
        if self.groups is None:
            return False
        if report.grouped:
            self.groups.seen(report.node, report.generation)
        consequence = reason in CONSEQUENCES and self.groups.excuses(
            report.node, report.generation, report.message[:2000]
        )
        return report.recalled or consequence

    def _note_failure(self, record: Node, report: pb.ProgramExitedRequest, reason: ExitReason) -> None:
        if record.removal is None and not self.job.over:
            self.journal.do(
                self.job.failed,
                node=report.node,
                kind=reason.value,
                message=report.message[:2000],
                traceback=report.traceback[-20_000:],
                log=report.log[:4000],
            )

    def report_step(self, node: str, step: int, records: int, metrics: dict[str, float]) -> None:
        if not 0 <= records <= LARGEST:
            raise InvalidRequest(f"{records} records in one step")
        self.stats.set_step(node, step, metrics)
        if records > 0:
            self._progress(node, records)
        elif self.nodes is not None:
            self.nodes.book.progress(node, self.clock.now())
        if self.training is not None:
            self.training.report_version(step)

    def note_frozen(self, node: str, incarnation: int, stopped: bool) -> str:
        """Its agent says whether a program is stopped (SIGSTOP). One that stays so leaves its world, and its peers go on; a
        parameter server is killed. Gives why the agent shall do that; empty: it shall not."""
        if self.nodes is not None and self.nodes.book.get(node).ended:
            return ""
        seconds = self.standstill.heard(self.clock.now(), node=node, incarnation=incarnation, stopped=stopped)
        if self.groups is not None and seconds >= FROZEN_IN_GROUP:
            self.groups.frozen(node)
        if self.rendezvous is not None and seconds >= FROZEN_SECONDS and self.rendezvous.is_member(node):
            self.journal.event("frozen", f"the program of {node} is stopped; its peers go on without it", node)
            self.rendezvous.died(node)
        if self.nodes is None or self.parameters is None or self.job.over:
            return ""
        record = self.nodes.book.get(node)
        if record.role != PS or record.incarnation != incarnation:
            return ""
        if (due := self.standstill.overdue(node)) is not None:
            self._sentence(due)
        if self.standstill.defies(node):
            self.standstill.forget(node)
            self.nodes.give_up(
                node, ExitReason.HANG, f"its program was not killed within {DEFIED:.0f} s, as its agent was told"
            )
            return ""
        told = self.standstill.sentence_on(node, incarnation)
        return told.reason if told is not None else ""

    def note_silent_servers(self) -> None:
        """Parameter servers that run and do not get on are killed, too."""
        if self.nodes is None or self.parameters is None or self.job.over:
            return
        there = {node.name: node for node in self.nodes.book.seated(PS)}
        for name, seconds in self.parameters.silences().items():
            if name in there and (due := self.standstill.silent(name, there[name].incarnation, seconds)) is not None:
                self._sentence(due)

    def _sentence(self, due: Sentence) -> None:
        self.standstill.sentenced(due)
        what = "it is killed, and its node replaced" if due.is_hang else "it is killed and started again"
        self.journal.event("hang" if due.is_hang else "frozen", f"{due.reason}: {what}", due.node)

    def scale(self, role: str, replicas: int, reason: str) -> tuple[int, int]:
        if self.nodes is None:
            raise NotAvailable("this master does not manage nodes", hint="start it with --need-pod-manager")
        plan = self.generator.generate_plan("running", {"role": role, "replicas": replicas, "reason": reason})
        assert plan is not None
        wanted = plan.roles[role].replicas
        if role == PS and self.parameters is not None:
            return self._scale_servers(self.nodes, wanted, plan.reason)
        before, now = self.nodes.scale(role, wanted, plan.reason)
        return before, now

    def _scale_servers(self, nodes: NodeManager, replicas: int, reason: str) -> tuple[int, int]:
        """New servers are given their share when they are there; those that go give theirs away first (``_seat_gone``)."""
        assert self.parameters is not None
        spec = nodes.book.role(PS).spec
        replace(spec, replicas=max(1, replicas)).check()
        if self.job.over:
            raise Conflict("the job is over and cannot be scaled")
        staying = sum(not seat.leaving for seat in self.parameters.book.seats())
        self.parameters.resize(replicas)
        if replicas > spec.replicas:
            nodes.scale(PS, replicas, reason)
        self.woken.set()
        return staying, replicas

    def _seat_gone(self, node: str) -> None:
        if self.nodes is None or self.parameters is None:
            return
        book = self.nodes.book
        seated = {seat.node for seat in self.parameters.book.seats()}
        first = [node] if node else [other.name for other in book.seated(PS) if other.name not in seated]
        wanted = len(self.parameters.book.seats())
        if wanted < book.role(PS).spec.replicas:
            self.nodes.scale(PS, wanted, "its parameters are on other servers", first=first)

    def stop(self, reason: str, *, at_once: bool = False, failed: bool = False) -> None:
        if self.job.over and not at_once:
            return
        self._end(Phase.FAILED if failed else Phase.STOPPED, reason)
        if self.nodes is not None and at_once:
            self.nodes.stop(reason, grace=0.0)

    # --- what the parts tell

    def _program_gone(self, node: str, incarnation: int | None, reason: ExitReason, message: str) -> None:
        if incarnation is None:
            self.standstill.forget(node)
        if self.groups is not None and incarnation is None:  # the whole node; else see program_exited
            self.groups.program_gone(node, None, finished=reason is ExitReason.COMPLETED, message=message)
        if self.shards is not None:
            blame = message if reason is ExitReason.ERROR else ""
            self.shards.recover_shard(node, incarnation, blame=blame)
        if self.parameters is not None:
            self.parameters.program_gone(node, for_good=incarnation is None)
        if self.rendezvous is not None:
            finished = reason is ExitReason.COMPLETED and self.rendezvous.was_member(node)
            self.rendezvous.died(node)
            if finished:  # it was trained to the end: who comes now must not begin anew
                self.rendezvous.close()

    def _nodes_changed(self) -> None:
        self.woken.set()
        if self.nodes is not None and self.rendezvous is not None:
            workers = [r for r in self.nodes.book.roles() if r not in SERVICE_ROLES]
            self.rendezvous.expect(sum(len(self.nodes.book.seated(role)) for role in workers))

    def excuse_idle(self) -> None:
        """A program that waits for shards is not one that hangs."""
        if self.nodes is not None and self.shards is not None:
            for node in self.shards.idle_nodes():
                self.nodes.book.idle(node, self.clock.now())

    def free_seats(self) -> None:
        """A parameter server whose node is over leaves its seat to the one that comes in its place. Looked at again and again:
        a node may be over in many ways, with its program's end, by the platform's word, or before the master was started."""
        if self.nodes is None or self.parameters is None:
            return
        ended = {node.name for node in self.nodes.book.nodes() if node.ended}
        for seat in self.parameters.book.seats():
            if seat.node in ended:
                self.parameters.program_gone(seat.node, for_good=True)

    def _progress(self, node: str, records: int) -> None:
        self.stats.add_records(node, records)
        if self.nodes is not None:
            self.nodes.book.progress(node, self.clock.now())

    # --- the end

    def check_end(self) -> None:
        if not self.job.over and self.nodes is not None:
            self._check_nodes(self.nodes)
        if self.job.over:
            self.ended.set()
            if self.nodes is None or not self._still_there(self.nodes):
                self.gone.set()

    def _check_nodes(self, nodes: NodeManager) -> None:
        book = nodes.book
        if book.failure is not None:
            self._end(Phase.FAILED, book.failure.reason)
            return
        if book.suspended:
            return
        workers = [role for role in book.roles() if role not in SERVICE_ROLES]
        if not book.started or not workers or not all(self._is_done(nodes, role) for role in workers):
            return
        if not any(book.counts(role).get(NodeState.SUCCEEDED) or book.role(role).succeeded for role in workers):
            self._end(Phase.FAILED, "no worker is left")
        elif problem := self._undone():
            self._end(Phase.FAILED, problem)
        elif self.parameters is None or self.parameters.saved():
            self._end(Phase.SUCCEEDED, "all workers finished" + (", all shards done" if self.shards else ""))

    def _is_done(self, nodes: NodeManager, role: str) -> bool:
        """All of its nodes ended; or enough did, the work is done, and the others only wait for room."""
        book, state = nodes.book, nodes.book.role(role)
        if book.all_done(role):
            return True
        enough = state.succeeded >= max(1, state.spec.min_replicas)
        work = self.shards.book if self.shards is not None else None
        return enough and book.all_blocked(role) and work is not None and bool(work.queues()) and work.complete()

    def _undone(self) -> str:
        """What forbids success although all workers finished; empty if nothing does."""
        if self.shards is None:
            return ""
        if parked := self.shards.parked():
            more = f" (and {len(parked) - 1} more)" if len(parked) > 1 else ""
            return f"a shard could not be done: {parked[0]}{more}"
        for queue in self.shards.book.queues():
            if not queue.complete and not queue.never_wanted:
                total = queue.records_per_epoch * queue.spec.epochs
                return (
                    f"all workers finished, but dataset {queue.spec.name} is not done: "
                    f"{queue.finished_records:,} of {total:,} records"
                )
        return ""

    def _end(self, phase: Phase, reason: str) -> None:
        if self.journal.do(self.job.end, phase=phase.value, reason=reason):
            self.journal.event("job", f"{phase.value}: {reason}")
        if self.rendezvous is not None:
            self.rendezvous.close()
        if self.nodes is not None:
            self.nodes.stop(reason)
        self.ended.set()

    @staticmethod
    def _still_there(nodes: NodeManager) -> bool:
        return any(not node.gone for node in nodes.book.nodes() if node.accepted_at is not None)
