"""Random histories of a job's nodes, with a small independent model beside the book.

The model knows only what went in and came out: names, lines, failures by kind, memory that was too little.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pliant.core.errors import Conflict, InvalidRequest, NotFound, PliantError
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import Backoff, Budget, ExitReason, FaultPolicy, MemoryGrowth
from pliant.core.nodes.permanent import JobProgress, PermanentKind
from pliant.core.nodes.rollout import Finish, Settle, Surge, next_step
from pliant.core.nodes.states import (
    TRANSITIONS,
    Decision,
    FailJob,
    Launch,
    Node,
    NodeState,
    Remove,
    RestartProgram,
    RoleSpec,
    parse_resources,
)
from pliant.core.resources import Resources

CEILING_MB = 3000
KEPT = 12
LIMITS = {
    ExitReason.ERROR: 2,
    ExitReason.KILLED: 3,
    ExitReason.OOM: 4,
    ExitReason.PREEMPTED: -1,
    ExitReason.HANG: 2,
    ExitReason.UNKNOWN: 2,
}
IN_PLACE = {ExitReason.ERROR, ExitReason.KILLED}
POLICY = FaultPolicy(
    budgets={kind: Budget(limit, Backoff(1.0, 2.0, 8.0), kind in IN_PLACE) for kind, limit in LIMITS.items()},
    memory=MemoryGrowth(1.5, 100, CEILING_MB),
    start_timeout=40.0,
    progress_timeout=25.0,
    unschedulable_backoff=Backoff(1.0, 2.0, 10.0),
    unschedulable_shrink_after=15.0,
    unschedulable_give_up_after=50.0,
    grace=5.0,
)
KINDS = st.sampled_from(ExitReason)
PICK = st.integers(0, 10_000)
ROLES = st.sampled_from(["worker", "ps"])
# An end of a node or its program; only these may lead to a replacement that is counted.
ENDS = {"program_exited", "node_ended", "lost", "launch_failed"}
# What launches without that anything ended.
DECIDED_BY_PEOPLE = {"start", "scale", "set_limits", "replace", "refused", "shrink", "resume", "reopen"} | {
    "set_resources",
    "surge",
    "settle",
}


class NodeHistories(RuleBasedStateMachine):
    @initialize(critical=st.booleans(), least=st.integers(0, 2), reports=st.booleans())
    def describe_the_job(self, critical: bool, least: int, reports: bool) -> None:
        full, minimum = Resources(2.0, 800, 2), Resources(1.0, 300, 1)
        self.roles = {
            "worker": RoleSpec("worker", least, 6, 3, full, minimum, reports_progress=reports, high_share=0.5),
            "ps": RoleSpec("ps", 1, 3, 2, full, minimum, critical=critical),
        }
        self.book = self.fresh()
        self.now = 0.0
        self.journal: list[tuple[str, float, dict[str, Any]]] = []
        self.names: list[str] = []
        self.line_of: dict[str, str] = {}
        self.failures: dict[str, Counter[str]] = {}
        self.too_little: dict[str, int] = {}
        self.succeeded: Counter[str] = Counter()
        assert len(self.call("start")) == 5

    def fresh(self) -> NodeBook:
        return NodeBook(self.roles, POLICY, keep_ended=KEPT)

    # --- every call goes through here ---

    def call(self, method: str, **args: Any) -> list[Decision]:
        before = {node.name: node for node in self.book.nodes()}
        was_closed = self.book.closed
        decisions: list[Decision] = getattr(self.book, method)(self.now, **json.loads(json.dumps(args)))
        self.journal.append((method, self.now, args))
        self.check_transitions(before)
        self.check_decisions(method, before.get(args.get("node", "")), decisions, args, was_closed)
        return decisions

    def check_transitions(self, before: dict[str, Node]) -> None:
        for node in self.book.nodes():
            if node.name not in before:
                assert node.state is NodeState.PENDING
                assert node.name not in self.names, "a name was given twice"
                self.names.append(node.name)
                self.line_of[node.name] = self.line_of[node.replaces] if node.replaces else node.name
                self.failures.setdefault(node.lineage, Counter())
                assert node.lineage == self.line_of[node.name]
            elif node.state is not before[node.name].state:
                assert (before[node.name].state, node.state) in TRANSITIONS

    def check_decisions(
        self, method: str, subject: Node | None, decisions: list[Decision], args: dict[str, Any], was_closed: bool
    ) -> None:
        assert all(decision.reason for decision in decisions)
        launches = [d for d in decisions if isinstance(d, Launch)]
        restarts = [d for d in decisions if isinstance(d, RestartProgram)]
        assert not (was_closed and (launches or restarts) and method != "reopen"), "something begins after the end"
        for launch in launches:
            line = self.line_of[launch.node]
            assert self.too_little.get(line, 0) < launch.resources.memory_mb <= CEILING_MB
            assert launch.not_before >= self.now
        if method not in ENDS or subject is None or subject.ended:
            assert not launches or method in DECIDED_BY_PEOPLE
            return
        kind = ExitReason(args.get("exit_reason", "Unknown"))
        if method == "lost":
            assert isinstance(decisions[0], Remove)
        if subject.removal is not None:
            assert not launches, "a removed node was replaced"
            assert not restarts
            assert not any(isinstance(d, FailJob) for d in decisions)
            return
        self.account(subject, kind, launches, restarts, was_closed)

    def account(
        self, subject: Node, kind: ExitReason, launches: list[Launch], restarts: list[RestartProgram], closed: bool
    ) -> None:
        after = self.book.get(subject.name)
        if after.failures == subject.failures and after.state is not NodeState.SUCCEEDED:
            return  # an old report
        if kind is ExitReason.COMPLETED:
            self.succeeded[subject.role] += 1
            assert not launches
            assert not restarts
            return
        line = self.line_of[subject.name]
        self.failures[line][kind.value] += 1
        if launches or restarts:
            assert len(launches) + len(restarts) == 1
            assert LIMITS[kind] < 0 or self.failures[line][kind.value] <= LIMITS[kind], "a budget was exceeded"
        elif not closed:
            machine = self.book.capacity.max_memory_mb if self.book.capacity is not None else None
            ceiling = min(CEILING_MB, machine or CEILING_MB)
            at_ceiling = kind is ExitReason.OOM and subject.resources.memory_mb >= ceiling
            is_permanent = after.permanent is not None and self.book.failure is not None
            assert is_permanent or at_ceiling or 0 <= LIMITS[kind] < self.failures[line][kind.value], (
                "given up too early"
            )
        if kind is ExitReason.PREEMPTED and not closed:
            assert launches
        if kind is ExitReason.OOM and launches:
            assert launches[0].resources.memory_mb > subject.resources.memory_mb
            self.too_little[line] = subject.resources.memory_mb

    def any_node(self, pick: int) -> str:
        """Mostly one that lives, so that histories get far; sometimes one that ended or was forgotten."""
        live = [node.name for node in self.book.live()]
        pool = live if live and pick % 4 else self.names
        return pool[pick // 4 % len(pool)]

    # --- what happens ---

    @rule()
    def start_again(self) -> None:
        assert self.call("start") == []

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 10.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(seconds=st.floats(0, 10), refuse=st.integers(0, 5))
    def the_platform_takes_what_is_due(self, seconds: float, refuse: int) -> None:
        self.now += seconds
        for number, launch in enumerate(self.book.due(self.now)):
            if number == refuse:
                self.call("refused", node=launch.node, message="full")
            else:
                self.call("accepted", node=launch.node)
                self.call("registered", node=launch.node, agent_pid=1, host="here")

    @rule(pick=PICK)
    def accepted(self, pick: int) -> None:
        self.call("accepted", node=self.any_node(pick))

    @rule(pick=PICK, seconds=st.floats(0, 20))
    def refused(self, pick: int, seconds: float) -> None:
        waiting = self.book.due(1e12)
        name = waiting[pick % len(waiting)].node if waiting else self.any_node(pick)
        self.now += seconds
        self.call("refused", node=name, message="full")

    @rule(pick=PICK)
    def launch_failed(self, pick: int) -> None:
        self.call("launch_failed", node=self.any_node(pick), message="no such image")

    @rule(pick=PICK, pid=st.integers(1, 3))
    def registered(self, pick: int, pid: int) -> None:
        self.call("registered", node=self.any_node(pick), agent_pid=pid, host="here")

    @rule(pick=PICK, incarnation=st.integers(0, 3))
    def program_started(self, pick: int, incarnation: int) -> None:
        self.call("program_started", node=self.any_node(pick), incarnation=incarnation, pid=7)

    @rule(
        pick=PICK,
        kind=KINDS,
        watcher=KINDS,
        also=st.sampled_from(["", "before", "after"]),
        permanent=st.sampled_from([*[""] * 20, *(kind.value for kind in PermanentKind)]),
        progress=st.sampled_from(JobProgress),
        single_machine=st.booleans(),
    )
    def program_exited(
        self,
        pick: int,
        kind: ExitReason,
        watcher: ExitReason,
        also: str,
        permanent: str,
        progress: JobProgress,
        single_machine: bool,
    ) -> None:
        name = self.any_node(pick)
        args: dict[str, Any] = {"node": name, "exit_reason": kind.value, "message": "exit", "peak_mb": pick}
        if kind is ExitReason.ERROR:
            args |= {"permanent": permanent, "progress": int(progress), "single_machine": single_machine}
        args["incarnation"] = self.book.get(name).incarnation if self.remembered(name) else 0
        if also == "before":
            self.call("node_ended", node=name, exit_reason=watcher.value, message="gone")
        first = self.call("program_exited", **args)
        state = self.book.snapshot()
        assert self.call("program_exited", **args) == [d for d in first if isinstance(d, RestartProgram)]
        assert self.book.snapshot() == state, "a repeated report changed something"
        if also == "after":
            self.call("node_ended", node=name, exit_reason=watcher.value, message="gone")

    @rule(pick=PICK, kind=KINDS, incarnation=st.integers(-1, 4))
    def some_run_exited(self, pick: int, kind: ExitReason, incarnation: int) -> None:
        args = {"node": self.any_node(pick), "exit_reason": kind.value, "message": "late"}
        self.call("program_exited", incarnation=incarnation, **args)

    @rule(pick=PICK, kind=KINDS, twice=st.booleans())
    def node_ended(self, pick: int, kind: ExitReason, twice: bool) -> None:
        args = {"node": self.any_node(pick), "exit_reason": kind.value, "message": "gone"}
        self.call("node_ended", **args)
        if twice:
            assert self.call("node_ended", **args) == []

    @rule(pick=PICK, progress=st.booleans())
    def sign_of_life(self, pick: int, progress: bool) -> None:
        name = self.any_node(pick)
        (self.book.progress if progress else self.book.heartbeat)(name, self.now)

    @rule()
    def the_silent_are_lost(self) -> None:
        for finding in self.book.overdue(self.now):
            assert self.book.get(finding.node).is_active
            self.call("lost", node=finding.node, exit_reason=finding.exit_reason.value, message=finding.message)
        assert self.book.overdue(self.now) == []

    @rule()
    def the_platform_removes_what_it_should(self) -> None:
        for removal in self.book.removals(self.now):
            self.call("node_ended", node=removal.node, exit_reason="Killed", message="removed")
        assert self.book.removals(self.now) == []

    @rule(role=ROLES, replicas=st.integers(-1, 7))
    def scale(self, role: str, replicas: int) -> None:
        spec = self.book.role(role).spec
        if self.book.closed:
            self.is_refused(Conflict, "scale", role=role, replicas=replicas, reason="asked")
        elif spec.min_replicas <= replicas <= spec.max_replicas:
            self.call("scale", role=role, replicas=replicas, reason="asked")
        else:
            self.is_refused(InvalidRequest, "scale", role=role, replicas=replicas, reason="asked")

    @rule(role=ROLES, least=st.integers(0, 3), more=st.integers(0, 4))
    def set_limits(self, role: str, least: int, more: int) -> None:
        self.call("set_limits", role=role, min_replicas=least, max_replicas=least + more)

    @rule(
        role=ROLES, memory=st.integers(300, CEILING_MB), rollout=st.sampled_from(["new-nodes", "in-place", "rolling"])
    )
    def set_resources(self, role: str, memory: int, rollout: str) -> None:
        resources = {"cpu": 1.5, "memory_mb": memory, "gpu": 1}
        capacity = self.book.capacity
        if self.book.closed or (capacity is not None and capacity.problem(parse_resources(resources))):
            rollout = "new-nodes"
        capacity = self.book.capacity
        if rollout != "new-nodes" and capacity is not None and capacity.problem(Resources(1.5, memory, 1)):
            self.is_refused(InvalidRequest, "set_resources", role=role, resources=resources, rollout=rollout)
            return
        self.call("set_resources", role=role, resources=resources, rollout=rollout)

    @rule(role=ROLES)
    def new_resources_are_rolled_out(self, role: str) -> None:
        if self.book.closed or self.book.suspended:
            return
        match next_step(self.book.role(role), self.book.active(role), self.now):
            case Surge(node, reason):
                self.call("surge", role=role, node=node, reason=reason)
            case Settle(node, reason):
                self.call("settle", role=role, node=node, reason=reason)
            case Finish():
                self.call("rolled_out", role=role)
                assert self.book.role(role).rollout is None

    @rule(pick=PICK, works=st.booleans())
    def the_platform_resizes(self, pick: int, works: bool) -> None:
        for resize in self.book.resizes()[: pick % 4]:
            asked = resize.resources.to_json()
            if works:
                self.call("resized", node=resize.node, resources=asked, version=resize.version)
            else:
                self.call("resize_refused", node=resize.node, message="it holds more")
            assert (resize in self.book.resizes()) is not works

    @rule(pick=PICK)
    def replace(self, pick: int) -> None:
        args = {"node": self.any_node(pick), "reason": "slow"}
        if self.book.closed:
            self.is_refused(Conflict, "replace", **args)
        else:
            self.call("replace", **args)

    @rule(pick=PICK)
    def remove_one(self, pick: int) -> None:
        name = self.any_node(pick)
        role = self.book.role(name.rpartition("-")[0]).spec
        removable = self.remembered(name) and self.book.get(name).is_active
        if self.book.closed:
            self.is_refused(Conflict, "remove", node=name, reason="asked")
        elif removable and role.replicas <= role.min_replicas:
            self.is_refused(InvalidRequest, "remove", node=name, reason="asked")
        else:
            self.call("remove", node=name, reason="asked")

    @rule(sure=st.integers(0, 2))
    def suspend(self, sure: int) -> None:
        if self.book.closed:
            self.is_refused(Conflict, "suspend", reason="asked")
        elif sure == 2:
            self.call("suspend", reason="asked")
            assert all(node.removal is not None for node in self.book.live())

    @rule()
    def resume(self) -> None:
        if self.book.closed:
            self.is_refused(Conflict, "resume", reason="asked")
        else:
            self.call("resume", reason="asked")
            assert not self.book.suspended

    @rule(role=ROLES, number=st.integers(0, 30))
    def names_are_reserved(self, role: str, number: int) -> None:
        given = self.book.role(role).next_number
        self.call("reserve", role=role, number=number)
        self.names += [f"{role}-{n}" for n in range(given, self.book.role(role).next_number)]

    @rule(pick=PICK)
    def the_platform_has_no_room_for_what_it_took(self, pick: int) -> None:
        self.call("unschedulable", node=self.any_node(pick), message="0/2 nodes are available")

    @rule(pick=PICK)
    def the_platform_found_room(self, pick: int) -> None:
        self.call("room_found", node=self.any_node(pick))

    @rule(seconds=st.floats(0, 40))
    def who_waits_too_long_asks_for_less(self, seconds: float) -> None:
        self.now += seconds
        for name in [] if self.book.closed else self.book.starved(self.now):
            before = self.book.get(name).resources
            (removal, launch) = self.call("shrink", node=name)
            assert isinstance(removal, Remove)
            assert isinstance(launch, Launch)
            assert launch.resources != before
            assert launch.resources.memory_mb <= before.memory_mb
            assert launch.resources.cpu <= before.cpu

    @rule(name=st.sampled_from(["worker-99999", "chief-0", "worker", "-"]))
    def a_stranger_calls(self, name: str) -> None:
        self.is_refused(NotFound, "registered", node=name, agent_pid=1, host="x")
        self.is_refused(NotFound, "node_ended", node=name, exit_reason="Error", message="x")

    @rule(memory=st.sampled_from([None, 700, 2000, 9000]))
    def the_platform_tells_its_machines(self, memory: int | None) -> None:
        machine = {"cpu": None, "memory_mb": memory, "gpu": None}
        self.call("set_capacity", machines=None if memory is None else [machine])

    @rule(seconds=st.sampled_from([0.0, 10.0, 60.0]))
    def who_can_never_start_is_given_up(self, seconds: float) -> None:
        self.now += seconds
        for finding in self.book.hopeless(self.now):
            before = self.book.get(finding.node)
            assert before.is_active
            assert before.started_at is None
            decisions = self.call("abandon", node=finding.node)
            assert decisions or self.book.closed
        assert self.book.hopeless(self.now) == []

    @rule(sure=st.integers(0, 7))
    def stop(self, sure: int) -> None:
        if sure == 7:
            live = [node.name for node in self.book.live()]
            decisions = self.call("stop", reason="a person asked")
            assert [d.node for d in decisions if isinstance(d, Remove)] == live

    @rule()
    def somebody_resumes_the_job_after_its_end(self) -> None:
        if not self.book.closed:
            return
        self.call("stop", reason="it is over")
        unfinished = {node.lineage for node in self.book.nodes() if node.parked and node.role == "worker"}
        launches = self.call("reopen", reason="asked", work_roles=["worker"])
        assert not self.book.closed
        self.failures = {line: Counter() for line in self.failures}
        if self.book.role("worker").succeeded == 0:
            self.succeeded["worker"] = 0  # all had finished: they are launched again
        if not self.book.suspended:
            continued = {self.line_of[launch.node] for launch in launches if isinstance(launch, Launch)}
            wanted = self.book.role("worker").target - self.succeeded["worker"]
            assert len(unfinished & continued) == min(len(unfinished), max(0, wanted))

    @rule(from_snapshot=st.booleans())
    def the_master_restarts(self, from_snapshot: bool) -> None:
        replayed, restored = self.fresh(), self.fresh()
        for method, now, args in self.journal:
            getattr(replayed, method)(now, **args)
        restored.restore(json.loads(json.dumps(self.book.snapshot())))
        assert replayed.snapshot() == restored.snapshot() == self.book.snapshot()
        for other in (replayed, restored):
            assert other.nodes() == self.book.nodes()
            assert other.due(self.now) == self.book.due(self.now)
            assert other.removals(self.now) == self.book.removals(self.now)
            assert other.oversized(self.now) == self.book.oversized(self.now)
            other.touch_all(self.now)
            assert other.overdue(self.now) == []
        self.book = restored if from_snapshot else replayed

    def is_refused(self, error: type[PliantError], method: str, **args: Any) -> None:
        before = self.book.snapshot()
        with pytest.raises(error):
            getattr(self.book, method)(self.now, **args)
        assert self.book.snapshot() == before

    def remembered(self, name: str) -> bool:
        return name in {node.name for node in self.book.nodes()}

    # --- what always holds ---

    @invariant()
    def every_place_is_taken(self) -> None:
        for name in self.book.roles():
            role = self.book.role(name)
            assert role.succeeded == self.succeeded[name]
            if self.book.started and not self.book.closed:
                assert role.spec.min_replicas <= role.spec.replicas <= role.spec.max_replicas
                wanted = 0 if self.book.suspended else max(0, role.target - role.succeeded)
                assert len(self.book.active(name)) == wanted

    @invariant()
    def every_line_knows_its_failures(self) -> None:
        for node in [*self.book.active("worker"), *self.book.active("ps")]:
            assert Counter(node.failures) == self.failures[self.line_of[node.name]]
            assert node.restarts == node.incarnation

    @invariant()
    def what_waits_is_due_some_day_unless_the_job_is_ending(self) -> None:
        waiting = [node.name for node in self.book.live() if node.state is NodeState.PENDING]
        assert [launch.node for launch in self.book.due(1e12)] == ([] if self.book.closed else waiting)
        if self.book.stopped:
            assert all(node.removal is not None for node in self.book.live())

    @invariant()
    def the_record_is_bounded(self) -> None:
        assert len(self.book.nodes()) - len(self.book.live()) <= KEPT

    def teardown(self) -> None:
        if hasattr(self, "book"):
            self.the_master_restarts(from_snapshot=True)


TestNodeHistories = NodeHistories.TestCase
TestNodeHistories.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, phases=set(Phase) - {Phase.explain}
)
