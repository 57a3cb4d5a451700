"""The nodes of a job: observed state, desired state, and what each event leads to.

``NodeBook`` is the state machine behind the master's node manager (``master/components/nodes.py``). Calls of agents, events of
the platform and change requests go in; decisions come out (``core/nodes/states.py``: launch, remove, restart the
program in place, fail the job). ``core/nodes/fault_policy.py`` decides what one failure leads to. Two subjects have modules of
their own: new resources for nodes that run (``core/nodes/rollout_book.py``), and nodes for which there is no room
(``core/nodes/scheduling_book.py``); this module does the rest.

How a shell drives it: ``due(now)`` is what to hand to the platform now, until it is answered by ``accepted``,
``refused`` or ``launch_failed``; ``removals(now)`` is what to end, until the platform reports ``node_ended``
(also when it knows no such node). Both only read, so a master that died between a decision and its deed finds the
deed again; both may therefore name a node twice, and a platform creates and removes by name, idempotently.

Invariants:

- A name is ``role-number`` and is never reused in a job; a replacement has a new number.
- States change along ``TRANSITIONS`` only. Late or contradictory events are ignored; only a name that never
  existed is an error.
- Each role has ``max(0, target - succeeded)`` active nodes (waiting, being created or running, and not being removed),
  until the job is stopped or has failed; while it is suspended it has none. A finished node still counts and is not
  replaced. The target is the wanted number, and one more while a node is replaced.
- A replacement inherits its line's counts of failures, so no line is relaunched more often for a kind than its
  budget; one kind never uses up another's. What is not a failure (``scale``, ``replace``, ``stop``) counts nowhere.
- A node that is being removed ends as Deleted, whatever its program did, and its end has no consequences. Its message says why it
  was removed; a program that ended in order is Completed.
- The memory of a line grows with each out-of-memory, up to what the largest machine has, and is never shrunk again.
- After ``stop`` or ``FailJob`` nothing is launched and no program is restarted, until ``reopen``: then every line that had
  not finished goes on, and budgets are fresh.
- The state is bounded: of the ended nodes only the last ``keep_ended`` are remembered; events of others are late
  and are ignored. The counts of a line live in the record of its living node, so they are never forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace as changed
from typing import Any

from pliant.core.errors import Conflict
from pliant.core.nodes.fault_policy import ORDERLY_ENDS, OUT_OF_GRACE, ExitReason, FaultPolicy, Step
from pliant.core.nodes.liveness import Liveness
from pliant.core.nodes.permanent import JobProgress
from pliant.core.nodes.roster import DEFAULT_KEEP_ENDED
from pliant.core.nodes.scheduling_book import SchedulingBook
from pliant.core.nodes.states import (
    Decision,
    FailJob,
    Node,
    NodeState,
    Overdue,
    Remove,
    RestartProgram,
    RoleSpec,
    RoleState,
    parse_exit_reason,
    parse_permanent,
    parse_resources,
)
from pliant.core.plurals import counted


class NodeBook(SchedulingBook):
    def __init__(
        self,
        roles: Mapping[str, RoleSpec],
        policy: FaultPolicy,
        *,
        policies: Mapping[str, FaultPolicy] | None = None,
        suspended: str = "",
        keep_ended: int = DEFAULT_KEEP_ENDED,
    ) -> None:
        """``policies``: of roles that differ from the job's. ``suspended``: why it begins without nodes."""
        super().__init__(roles, keep_ended=keep_ended)
        self._suspended = suspended
        self._policies = dict(policies or {})
        self._policy = policy
        self._liveness = Liveness(policy)
        self._in_step: frozenset[str] = frozenset()  # nodes whose programs wait for each other; not journaled

    def copy(self) -> NodeBook:
        """For a dry run."""
        other = NodeBook({}, self._policy, policies=self._policies, keep_ended=self._keep_ended)
        other.restore(self.snapshot())
        return other

    def restore(self, state: Mapping[str, Any]) -> None:
        """Heartbeats are not in a snapshot: call ``touch_all`` next."""
        super().restore(state)
        self._liveness = Liveness(self._policy)

    # --- desired state ---

    def start(self, now: float) -> list[Decision]:
        """Launch the nodes of the job's spec. A second call does nothing."""
        if self._started or self.closed:
            return []
        self._started = True
        decisions: list[Decision] = []
        for role in self._roles:
            decisions += self._fill(now, role, "job start")
        return decisions

    def scale(
        self, now: float, *, role: str, replicas: int, reason: str, first: list[str] | None = None
    ) -> list[Decision]:
        """Set the target of a role (finished nodes count). A surplus is removed: those named ``first``, then the youngest."""
        self._check_open("scaled")
        changed(self.role(role).spec, replicas=replicas).check()
        return self._aim(now, role, replicas, reason, first or [])

    def set_limits(self, now: float, *, role: str, min_replicas: int, max_replicas: int) -> list[Decision]:
        """Change the limits; a target outside of them is clamped."""
        state = self.role(role)
        target = min(max(state.spec.replicas, min_replicas), max_replicas)
        spec = changed(state.spec, min_replicas=min_replicas, max_replicas=max_replicas)
        changed(spec, replicas=target).check()
        self._roles[role] = changed(state, spec=spec)
        if target == spec.replicas or self.closed:
            return []
        return self._aim(now, role, target, f"the limits are now {min_replicas} to {max_replicas}")

    def replace(self, now: float, *, node: str, reason: str, resources: dict[str, Any] | None = None) -> list[Decision]:
        """Remove a node and launch another of its line, with other resources if they are given. Nothing is counted."""
        self._check_open("changed")
        asked = parse_resources(resources) if resources else None
        old = self._find(node)
        if old is None or not old.is_active:
            return []
        removal = self._remove(now, old, self._policy.grace, reason)
        return [removal, self._add(now, old.role, f"replaces {node}: {reason}", after=old, resources=asked)]

    def remove(self, now: float, *, node: str, reason: str) -> list[Decision]:
        """Remove this node and lower the target of its role by one."""
        self._check_open("changed")
        old = self._find(node)
        if old is None or not old.is_active:
            return []
        role = self._roles[old.role]
        spec = changed(role.spec, replicas=role.spec.replicas - 1)
        spec.check()
        self._roles[old.role] = changed(role, spec=spec, note=reason, at_zero_since=_at_zero(now, role, spec.replicas))
        return [self._remove(now, old, self._policy.grace, reason)]

    def suspend(self, now: float, *, reason: str) -> list[Decision]:
        """Remove every node. The targets are kept, and so are the records of the lines. Of a job that is suspended already the
        reason changes: whoever suspended it before does not end this suspension."""
        self._check_open("suspended")
        if self._suspended:
            self._suspended = reason or "suspended"
            return []
        self._suspended, self._suspended_at = reason or "suspended", now
        decisions: list[Decision] = []
        for node in self.live():
            if node.is_active:
                self._put(changed(node, parked=True))
            decisions.append(self._remove(now, self._nodes[node.name], self._policy.grace, self._suspended))
        return decisions

    def resume(self, now: float, *, reason: str) -> list[Decision]:
        """After a suspension: every parked line continues, and what else is missing is launched."""
        self._check_open("resumed")
        if not self._suspended:
            return []
        self._suspended, self._suspended_at = "", 0.0
        decisions: list[Decision] = []
        for role in self._roles if self._started else ():
            parked = [node for node in self._nodes.values() if node.parked and node.role == role]
            for node in parked[: self._missing(role)]:
                decisions.append(self._add(now, role, f"replaces {node.name}: {reason}", after=node))
            decisions += self._fill(now, role, reason)
        for node in list(self._nodes.values()):
            if node.parked:
                self._put(changed(node, parked=False))
        return decisions

    def reserve(self, now: float, *, role: str, number: int) -> list[Decision]:
        """Numbers up to this one belong to nodes of a master whose journal is lost: none is reused."""
        state = self.role(role)
        self._roles[role] = changed(state, next_number=max(state.next_number, number + 1))
        return []

    def adopt(self, now: float, *, living: list[str], succeeded: list[str], ended: list[str]) -> list[Decision]:
        """Take over the nodes of a master whose journal is lost (``core/takeover.py``): before the start, or not at all.

        The living are expected to register. Those that succeeded count; the others are missing, and are launched by ``start``.
        """
        if self._started:
            raise Conflict("the job has already started; nodes can only be taken over before that")
        numbers = {name: self._number(name) for name in (*living, *succeeded, *ended)}
        for role, number in numbers.values():
            self.reserve(now, role=role, number=number)
        for name in succeeded:
            state = self._roles[numbers[name][0]]
            self._roles[state.spec.name] = changed(state, succeeded=state.succeeded + 1)
        for name in living:
            role, number = numbers[name]
            node = Node(
                name=name,
                role=role,
                number=number,
                lineage=name,
                resources=self._roles[role].spec.resources,
                high_priority=self._gets_high_priority(role),
                reason="taken over from a master whose journal is lost",
                created_at=now,
                relaunch_at=now,
                accepted_at=now,
                state=NodeState.CREATING,
            )
            self._liveness.began(self._put(node), now)
        return []

    def stop(self, now: float, *, reason: str, grace: float | None = None) -> list[Decision]:
        """Remove all nodes. A second call with less grace shortens it for those that are left."""
        self._stopped = self._stopped or reason
        seconds = self._policy.grace if grace is None else grace
        for node in self.live():
            if node.is_active:
                self._put(changed(node, parked=True))
        return [self._remove(now, node, seconds, reason) for node in self.live()]

    def reopen(self, now: float, *, reason: str, work_roles: list[str]) -> list[Decision]:
        """After a stop or a failure, since somebody resumes the job: what is missing is launched, with fresh budgets.

        Each line that was running goes on, with the memory that it is known to need; lines that were given up come back.
        What finished stays finished, unless no node of ``work_roles`` would be launched: then the work was not done although
        all finished, and they are launched again.
        """
        if not self.closed:
            return []
        failed = self._failure.node if self._failure is not None else ""
        self._stopped = self._failure = None
        for name, role in self._roles.items():
            spec = changed(role.spec, replicas=min(role.spec.max_replicas, role.spec.replicas + role.given_up))
            self._roles[name] = changed(role, spec=spec, given_up=0, surge=0, rollout=None, note=reason)
        if not self._suspended and not any(self._missing(name) for name in work_roles):
            for name in work_roles:
                self._roles[name] = changed(self.role(name), succeeded=0)
        decisions: list[Decision] = []
        for name in self._roles if self._started else ():
            lines = [n for n in self._nodes.values() if n.role == name and (n.parked or n.name == failed)]
            for node in lines[: self._missing(name)]:
                why = f"in place of {node.name}: {reason}"
                decisions.append(self._add(now, name, why, after=changed(node, failures={})))
            decisions += self._fill(now, name, reason)
        for node in list(self._nodes.values()):
            if node.parked:
                self._put(changed(node, parked=bool(self._suspended), failures={}))
        return decisions

    # --- events of the platform ---

    def accepted(self, now: float, *, node: str) -> list[Decision]:
        """The platform accepted the launch. If it was cancelled meanwhile, the node is removed at once."""
        found = self._find(node)
        if found is None or found.accepted_at is not None:
            return []
        if found.state is NodeState.DELETED and found.started_at is None:
            called_off = self._put(changed(found, accepted_at=now, gone=False))
            return [Remove(node, 0.0, f"canceled during creation: {called_off.removal}")]
        if not found.may_become(NodeState.CREATING):
            return []
        self._put(changed(found, state=NodeState.CREATING, accepted_at=now, waiting_since=None))
        self._liveness.began(found, now)
        return []

    def launch_failed(self, now: float, *, node: str, message: str) -> list[Decision]:
        """The platform could not create it, for another reason than scheduling."""
        found = self._find(node)
        if found is None or found.state is not NodeState.PENDING:
            return []
        return self._over(now, found, ExitReason.UNKNOWN, message, agent_alive=False)

    def node_ended(
        self, now: float, *, node: str, exit_reason: str, message: str, host: str = "", peak_mb: int = 0
    ) -> list[Decision]:
        """The platform reports that nothing of this node is left. ``peak_mb``: of memory that was measured; 0: unknown."""
        kind = parse_exit_reason(exit_reason)
        found = self._find(node)
        if found is None:
            return []
        found = self._put(changed(found, gone=True, host=found.host or host))
        return [] if found.ended else self._over(now, found, kind, message, agent_alive=False, peak_mb=peak_mb)

    # --- events of agents ---

    def registered(
        self, now: float, *, node: str, agent_pid: int, host: str, address: str = "", incarnation: int = 0
    ) -> list[Decision]:
        """An agent registered, for the first time or again (with a restarted master).

        ``incarnation``: the run of its program, which may be ahead of a node that was taken over.
        """
        found = self._find(node)
        if found is None or found.ended:
            return []
        started_at = now if found.started_at is None else found.started_at
        self._put(
            changed(
                found,
                state=NodeState.RUNNING,
                agent_pid=agent_pid,
                host=host,
                address=address or found.address,
                incarnation=max(found.incarnation, incarnation),
                started_at=started_at,
                waiting_since=None,
            )
        )
        (self._liveness.began if found.started_at is None else self._liveness.seen)(found, now)
        return []

    def program_started(self, now: float, *, node: str, incarnation: int, pid: int) -> list[Decision]:
        found = self._find(node)
        if found is None or found.state is not NodeState.RUNNING or incarnation != found.incarnation:
            return []
        self._put(changed(found, pid=pid))
        self._liveness.began(found, now)
        return []

    def program_exited(
        self,
        now: float,
        *,
        node: str,
        incarnation: int,
        exit_reason: str,
        message: str,
        peak_mb: int = 0,
        permanent: str = "",
        progress: int = 0,
        single_machine: bool = False,
    ) -> list[Decision]:
        """The agent asks what to do after this exit: restart as ``RestartProgram`` says, or else leave.

        ``permanent``: the kind of an error that a restart would repeat; ``progress``: how far the job got (``JobProgress``);
        ``single_machine``: all nodes are on one.

        A repeated report is answered alike as long as the node lives; one of an ended node has no consequences.
        """
        kind, lasting = parse_exit_reason(exit_reason), parse_permanent(permanent)
        found = self._find(node)
        if found is None or found.ended:
            return []
        if 0 <= incarnation == found.incarnation - 1 and found.is_active and not self.closed:
            return [found.restart()]
        if incarnation != found.incarnation:
            return []
        alive = found.state is NodeState.RUNNING
        return self._over(
            now,
            changed(found, permanent=lasting),
            kind,
            message,
            agent_alive=alive,
            peak_mb=peak_mb,
            progress=JobProgress(progress),
            single_machine=single_machine,
        )

    def program_recalled(
        self, now: float, *, node: str, incarnation: int, message: str, exit_reason: str = ""
    ) -> list[Decision]:
        """Its program was ended by the master, with its group (``core/rendezvous/groups.py``) or alone
        (``core/nodes/stall_detector.py``), to be restarted: no failure is counted. ``exit_reason``: shown for its last run."""
        shown = parse_exit_reason(exit_reason) if exit_reason else None
        found = self._find(node)
        if found is None or found.ended:
            return []
        if incarnation != found.incarnation or found.removal is not None or self.closed:
            return self.program_exited(
                now, node=node, incarnation=incarnation, exit_reason=ExitReason.KILLED.value, message=message
            )
        if shown is not None:
            found = changed(found, exit_reason=shown, message=message)
        return [self._restart(now, found, 0.0, message)]

    # --- liveness, not journaled, and its finders ---

    def heartbeat(self, node: str, now: float) -> None:
        found = self._nodes.get(node)
        if found is not None and not found.ended:
            self._liveness.seen(found, now)

    def heartbeats(self) -> dict[str, float]:
        """When the agents of the living nodes were last heard of."""
        seen = ((node.name, self._liveness.last_seen(node)) for node in self.live())
        return {name: at for name, at in seen if at is not None}

    def progress(self, node: str, now: float) -> None:
        """The program of this node made progress (a record, a step). Also a sign of life."""
        found = self._nodes.get(node)
        if found is not None and not found.ended:
            self._liveness.moved(found, now)

    def idle(self, node: str, now: float) -> None:
        """The program of this node has nothing to do: progress is expected from now on. Not a sign of life."""
        found = self._nodes.get(node)
        if found is not None and not found.ended:
            self._liveness.excused(found, now)

    def in_step(self, nodes: Collection[str]) -> None:
        """The programs of these nodes do each step together: if one hangs, none of them makes progress."""
        self._in_step = frozenset(nodes)

    def all_idle(self, now: float) -> None:
        """Nobody can make progress: all wait for something that is none of them."""
        for node in self.live():
            self._liveness.excused(node, now)

    def touch_all(self, now: float) -> None:
        """After a restart of the master: the time it was unavailable does not count as silence."""
        for node in self.live():
            self._liveness.began(node, now)

    def paused(self, now: float, seconds: float) -> None:
        """The master did not run for so long. It may happen often on a busy machine, so earlier silence is not forgotten."""
        for node in self.live():
            self._liveness.paused(node, now, seconds)

    def overdue(self, now: float) -> list[Overdue]:
        """Nodes that missed a deadline; act on each by ``lost``.

        Of those that work in step only the one that is furthest behind: the others may only be waiting for it, and have
        what it knew. They count anew once it is replaced.
        """
        late: list[Overdue] = []
        behind: list[tuple[float, Overdue]] = []
        for node in self._nodes.values():
            if not node.is_active:
                continue
            if message := self._liveness.silence(node, now):
                late.append(Overdue(node.name, ExitReason.HANG, message))
            elif message := self._liveness.stall(node, self._roles[node.role].spec, now):
                found = Overdue(node.name, ExitReason.HANG, message)
                if node.name in self._in_step:
                    behind.append((self._liveness.last_progress(node), found))
                else:
                    late.append(found)
        if behind and not any(found.node in self._in_step for found in late):
            late.append(min(behind, key=lambda pair: pair[0])[1])
        return late

    def lost(self, now: float, *, node: str, exit_reason: str, message: str) -> list[Decision]:
        """Give a node up without having observed its end: it is removed at once, and replaced."""
        kind = parse_exit_reason(exit_reason)
        found = self._find(node)
        if found is None or found.ended:
            return []
        follows = self._over(now, found, kind, message, agent_alive=False)
        for peer in self.live() if node in self._in_step else ():
            self._liveness.excused(peer, now)
        self._put(changed(self._nodes[node], removal=found.removal or message, removal_grace=0.0))
        return [Remove(node, 0.0, message), *follows]

    def removals(self, now: float) -> list[Remove]:
        """Nodes that are to be removed and still exist, and agents that outlive their node's end."""
        found = []
        for node in self._nodes.values():
            if node.gone:
                continue
            if node.removal is not None:
                found.append(Remove(node.name, node.removal_grace, node.removal))
            elif node.ended_at is not None and now >= node.ended_at + self._policy.grace:
                found.append(Remove(node.name, 0.0, "it ended but its agent kept running"))
        return found

    # --- inside ---

    def _over(
        self,
        now: float,
        node: Node,
        kind: ExitReason,
        message: str,
        *,
        agent_alive: bool,
        peak_mb: int = 0,
        progress: JobProgress = JobProgress.NONE,
        single_machine: bool = False,
    ) -> list[Decision]:
        """A live node, or its program, ended: record it and decide what follows."""
        node = changed(node, peak_mb=max(node.peak_mb, peak_mb))
        if node.removal is not None:
            self._end(now, node, NodeState.DELETED, *end_of_removed(node, kind, message))
            return []
        policy = self._policies.get(node.role, self._policy)
        decision = policy.next_step(
            kind,
            node.failures,
            node.resources.memory_mb,
            agent_alive=agent_alive and not self.closed,
            max_memory_mb=self._capacity.max_memory_mb if self._capacity is not None else None,
            peak_mb=peak_mb,
            permanent=node.permanent,
            progress=progress,
            may_be_of_one_machine=not single_machine and self._may_be_of_one_machine(node),
        )
        if decision.step is Step.NOTHING:
            role = self._roles[node.role]
            self._roles[node.role] = changed(role, succeeded=role.succeeded + 1)
            self._end(now, node, NodeState.SUCCEEDED, kind, message)
            return []
        failures = {**node.failures, kind.value: node.failures.get(kind.value, 0) + 1}
        node = changed(node, failures=failures, pid=None)
        if decision.step is Step.RESTART:
            node = changed(node, exit_reason=kind, message=message)
            return [self._restart(now, node, decision.delay, decision.reason)]
        if decision.memory_mb is not None:
            node = changed(node, memory_floor_mb=decision.memory_mb)
        self._end(now, node, NodeState.FAILED, kind, message)
        self._hosts.failed(now, node.host, kind)
        if self.closed:
            return []
        if decision.step is Step.FAIL_JOB:
            return self._fail_job(node, kind, f"{node.name} failed: {decision.reason}")
        if decision.step is Step.GIVE_UP:
            return self._give_up(node, kind, decision.reason)
        reason = f"replaces {node.name}: {decision.reason}"
        return [self._add(now, node.role, reason, after=node, delay=decision.delay)]

    def _restart(self, now: float, node: Node, delay: float, reason: str) -> RestartProgram:
        """The next run of its program, in place."""
        node = changed(
            node,
            pid=None,
            incarnation=node.incarnation + 1,
            restarts=node.restarts + 1,
            restart_delay=delay,
            restart_reason=reason,
        )
        self._liveness.began(node, now)
        return self._put(node).restart()

    def _may_be_of_one_machine(self, node: Node) -> bool:
        """Whether the permanent error of a node was seen on no other machine, and its line was not tried again because of it."""
        kind = node.permanent
        if kind is None or not kind.may_be_of_one_machine:
            return False
        before = self._nodes.get(node.replaces or "")
        if before is not None and before.permanent is kind:
            return False
        return not any(
            other.permanent is kind and other.role == node.role and other.host != node.host
            for other in self._nodes.values()
            if other.name != node.name
        )

    def _fail_job(self, node: Node, kind: ExitReason, reason: str) -> list[Decision]:
        role = self._roles[node.role]
        self._failure = FailJob(reason, node.name, kind)
        self._roles[node.role] = changed(role, given_up=role.given_up + 1)
        return [self._failure]

    def _give_up(self, node: Node, kind: ExitReason, why: str) -> list[Decision]:
        """The end of a line. Either the job fails, or it continues with one node less."""
        role = self._roles[node.role]
        left = len(self.active(node.role)) + role.succeeded
        min_replicas = role.spec.min_replicas
        if role.spec.critical or left < min_replicas:
            because = (
                "the role is critical"
                if role.spec.critical
                else f"{_nodes_of(node.role, left)} left, minimum {min_replicas}"
            )
            return self._fail_job(node, kind, f"gave up on {node.name}: {why}; {because}")
        if role.surge and node.resources_version == role.resources_version:
            # It was one more than wanted, to replace another: that one stays, and so do all that have other resources.
            note = f"gave up on {node.name}: {why}; the other nodes keep their current resources"
            self._roles[node.role] = changed(role, surge=0, rollout=None, given_up=role.given_up + 1, note=note)
            return []
        target = role.spec.replicas - 1
        note = f"gave up on {node.name}: {why}; continuing with {_nodes_of(node.role, target)}"
        spec = changed(role.spec, replicas=target)
        self._roles[node.role] = changed(role, spec=spec, given_up=role.given_up + 1, note=note, at_zero_since=None)
        return []

    def _aim(self, now: float, role: str, target: int, reason: str, first: Sequence[str] = ()) -> list[Decision]:
        state = self._roles[role]
        before = state.spec.replicas
        beyond = max(0, min(state.surge, state.spec.max_replicas - target))  # else it is one of those that are wanted
        state = changed(state, surge=beyond)
        spec = changed(state.spec, replicas=target)
        self._roles[role] = changed(state, spec=spec, note=reason, at_zero_since=_at_zero(now, state, target))
        if not self._started:
            return []
        surplus = len(self.active(role)) - max(0, target + state.surge - state.succeeded)
        if surplus <= 0:
            return self._fill(now, role, reason)
        order = sorted(self.active(role), key=lambda node: (node.name in first, node.number), reverse=True)
        why = f"scaled down from {before} to {target}: {reason}"
        return [self._remove(now, node, self._policy.grace, why) for node in order[:surplus]]

    def _fill(self, now: float, role: str, reason: str) -> list[Decision]:
        return [self._add(now, role, reason) for _ in range(self._missing(role))]

    def _missing(self, role: str) -> int:
        state = self._roles[role]
        return 0 if self._suspended else max(0, state.target - state.succeeded - len(self.active(role)))

    def _remove(self, now: float, node: Node, grace: float, reason: str) -> Remove:
        node = changed(node, removal=node.removal or reason, removal_grace=grace)
        if node.state is NodeState.PENDING:
            # It ends here, and is gone if its launch was not due yet: then the platform was never asked to create it.
            node = changed(node, gone=node.relaunch_at > now)
            self._end(now, node, NodeState.DELETED, None, reason)
        else:
            self._put(node)
        return Remove(node.name, grace, reason)

    def _end(self, now: float, node: Node, state: NodeState, kind: ExitReason | None, message: str) -> None:
        super()._end(now, node, state, kind, message)
        self._liveness.forget(node)

    @property
    def _grace(self) -> float:
        return self._policy.grace

    def _check_open(self, verb: str) -> None:
        if self.closed:
            why = self._failure.reason if self._failure else self._stopped
            raise Conflict(f"the job is ending ({why}) and cannot be {verb}")


def end_of_removed(node: Node, kind: ExitReason, message: str) -> tuple[ExitReason, str]:
    """What is said of the end of a node that is being removed: why that is, and how its program failed to end in order."""
    removal = node.removal or ""
    if kind not in ORDERLY_ENDS:
        return kind, f"{removal}; {message}"
    return ExitReason.COMPLETED, removal + (f"; {OUT_OF_GRACE}" if OUT_OF_GRACE in message else "")


def _at_zero(now: float, role: RoleState, target: int) -> float | None:
    """Since when a person, or a plan, wants no nodes of a role; None: they want some."""
    if target > 0:
        return None
    return now if role.at_zero_since is None else role.at_zero_since


def _nodes_of(role: str, count: int) -> str:
    return counted(count, role if role == "worker" else f"{role} node")
