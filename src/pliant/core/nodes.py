"""The book of a job's nodes: which there are, which there should be, and what follows from each thing that happens.

``NodeBook`` is the pure machine behind the master's node manager (``master/nodes.py``). Calls of agents, events of
the platform and wishes of people go in; decisions come out (``core/node_states.py``: launch, remove, restart the
program in place, fail the job). ``core/relaunch.py`` says what one failure leads to; this module knows the rest.

How a shell drives it: ``due(now)`` is what to hand to the platform now, until it is answered by ``accepted``,
``refused`` or ``launch_failed``; ``removals(now)`` is what to have ended, until the platform's ``node_ended``
(also when it knows no such node). Both only read, so a master that died between a decision and its deed finds the
deed again; both may therefore name a node twice, and a platform creates and removes by name, idempotently.

What always holds:

- A name is ``role-number`` and is never given twice in a job; a replacement has a new number.
- States change along ``TRANSITIONS`` only. What comes late or contradicts is ignored; only a name that never
  existed is an error.
- Each role has ``max(0, target - succeeded)`` seated nodes (waiting, being created or running, and not on their way
  out), until the job is stopped or has failed; while it is suspended it has none. A finished node keeps its place and is
  not replaced.
- A replacement inherits its line's counts of failures, so no line is relaunched more often for a kind than its
  budget; one kind never uses up another's. What is not a failure (``scale``, ``replace``, ``stop``) counts nowhere.
- A node that we remove ends as Deleted, whatever its program did, and nothing follows from its end.
- The memory of a line grows with each out-of-memory and is never shrunk again.
- After ``stop`` or ``FailJob`` nothing is launched and no program is restarted.
- The state is bounded: of the ended nodes only the last ``keep_ended`` are remembered; what is said of others comes
  too late and is ignored. The counts of a line live in the record of its living node, so they are never forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as changed
from typing import Any

from pliant.core.errors import Conflict
from pliant.core.node_pulse import Pulse
from pliant.core.node_roster import KEPT_ENDED, Roster
from pliant.core.node_states import (
    Decision,
    FailJob,
    Node,
    NodeState,
    Overdue,
    Remove,
    RestartProgram,
    RoleSpec,
    in_words,
    parse_exit_reason,
    parse_resources,
)
from pliant.core.relaunch import ExitReason, FaultPolicy, Step, less
from pliant.core.resources import Resources


class NodeBook(Roster):
    def __init__(
        self,
        roles: Mapping[str, RoleSpec],
        policy: FaultPolicy,
        *,
        policies: Mapping[str, FaultPolicy] | None = None,
        suspended: str = "",
        keep_ended: int = KEPT_ENDED,
    ) -> None:
        """``policies``: of roles that differ from the job's. ``suspended``: why it begins without nodes."""
        super().__init__(roles, keep_ended=keep_ended)
        self._suspended = suspended
        self._policies = dict(policies or {})
        self._policy = policy
        self._pulse = Pulse(policy)

    def copy(self) -> NodeBook:
        """To try something on."""
        other = NodeBook({}, self._policy, policies=self._policies, keep_ended=self._keep_ended)
        other.restore(self.snapshot())
        return other

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take a snapshot's place. Heartbeats are not in it: call ``touch_all`` next."""
        super().restore(state)
        self._pulse = Pulse(self._policy)

    # --- what people and plans want ---

    def start(self, now: float) -> list[Decision]:
        """Launch what the job was described with. A second call does nothing."""
        if self._started or self.closed:
            return []
        self._started = True
        decisions: list[Decision] = []
        for role in self._roles:
            decisions += self._fill(now, role, "the job starts")
        return decisions

    def scale(
        self, now: float, *, role: str, replicas: int, reason: str, first: list[str] | None = None
    ) -> list[Decision]:
        """Have so many nodes of a role (finished ones count); of too many go those named ``first``, then the youngest."""
        self._check_open("scaled")
        changed(self.role(role).spec, replicas=replicas).check()
        return self._aim(now, role, replicas, reason, first or [])

    def set_limits(self, now: float, *, role: str, min_replicas: int, max_replicas: int) -> list[Decision]:
        """Change the limits; a target outside of them moves to the nearest one."""
        state = self.role(role)
        target = min(max(state.spec.replicas, min_replicas), max_replicas)
        spec = changed(state.spec, min_replicas=min_replicas, max_replicas=max_replicas)
        changed(spec, replicas=target).check()
        self._roles[role] = changed(state, spec=spec)
        if target == spec.replicas or self.closed:
            return []
        return self._aim(now, role, target, f"the limits are now {min_replicas} to {max_replicas}")

    def set_resources(self, now: float, *, role: str, resources: dict[str, Any]) -> list[Decision]:
        """What later launches of a role ask for. Nodes that exist keep what they have; see ``replace``."""
        state = self.role(role)
        self._roles[role] = changed(state, spec=changed(state.spec, resources=parse_resources(resources)))
        return []

    def replace(self, now: float, *, node: str, reason: str, resources: dict[str, Any] | None = None) -> list[Decision]:
        """Remove a node and launch another of its line, with other resources if they are given. Nothing is counted."""
        self._check_open("changed")
        asked = parse_resources(resources) if resources else None
        old = self._find(node)
        if old is None or not old.seated:
            return []
        removal = self._remove(now, old, self._policy.grace, reason)
        return [removal, self._add(now, old.role, f"in place of {node}: {reason}", after=old, resources=asked)]

    def remove(self, now: float, *, node: str, reason: str) -> list[Decision]:
        """Have one node less, and this is the one that goes."""
        self._check_open("changed")
        old = self._find(node)
        if old is None or not old.seated:
            return []
        role = self._roles[old.role]
        spec = changed(role.spec, replicas=role.spec.replicas - 1)
        spec.check()
        self._roles[old.role] = changed(role, spec=spec, note=reason)
        return [self._remove(now, old, self._policy.grace, reason)]

    def suspend(self, now: float, *, reason: str) -> list[Decision]:
        """Remove every node for the time being. What is wanted stays, and so do the records of the lines."""
        self._check_open("suspended")
        if self._suspended:
            return []
        self._suspended = reason or "suspended"
        decisions: list[Decision] = []
        for node in self.live():
            if node.seated:
                self._put(changed(node, parked=True))
            decisions.append(self._remove(now, self._nodes[node.name], self._policy.grace, self._suspended))
        return decisions

    def go_on(self, now: float, *, reason: str) -> list[Decision]:
        """After a suspension: every line that was parked goes on, and what else is missing begins."""
        self._check_open("resumed")
        if not self._suspended:
            return []
        self._suspended = ""
        decisions: list[Decision] = []
        for role in self._roles if self._started else ():
            parked = [node for node in self._nodes.values() if node.parked and node.role == role]
            for node in parked[: self._missing(role)]:
                decisions.append(self._add(now, role, f"in place of {node.name}: {reason}", after=node))
            decisions += self._fill(now, role, reason)
        for node in list(self._nodes.values()):
            if node.parked:
                self._put(changed(node, parked=False))
        return decisions

    def reserve(self, now: float, *, role: str, number: int) -> list[Decision]:
        """Names up to this number belong to nodes of a master that left no journal: none of them is given again."""
        state = self.role(role)
        self._roles[role] = changed(state, next_number=max(state.next_number, number + 1))
        return []

    def stop(self, now: float, *, reason: str, grace: float | None = None) -> list[Decision]:
        """Remove everything. A second call, with less grace, hurries those that are still there."""
        self._stopped = self._stopped or reason
        seconds = self._policy.grace if grace is None else grace
        return [self._remove(now, node, seconds, reason) for node in self.live()]

    # --- what the platform says ---

    def accepted(self, now: float, *, node: str) -> list[Decision]:
        """The platform took the launch. One that was called off meanwhile is removed at once."""
        found = self._find(node)
        if found is None or found.accepted_at is not None:
            return []
        if found.state is NodeState.DELETED and found.started_at is None:
            called_off = self._put(changed(found, accepted_at=now, gone=False))
            return [Remove(node, 0.0, f"called off while it was created: {called_off.removal}")]
        if not found.may_become(NodeState.CREATING):
            return []
        self._put(changed(found, state=NodeState.CREATING, accepted_at=now, waiting_since=None))
        self._pulse.began(found, now)
        return []

    def refused(self, now: float, *, node: str, message: str) -> list[Decision]:
        """The platform has no room: the same node is tried again later, and after a while with less."""
        found = self._find(node)
        if found is None or found.state is not NodeState.PENDING or self.closed:
            return []
        since = now if found.waiting_since is None else found.waiting_since
        delay = self._policy.unschedulable_backoff.delay(found.refusals)
        reason = f"there was no room for {node} ({message}): try {found.refusals + 2}"
        asked, shrunk_at = found.resources, found.shrunk_at
        if now - (since if shrunk_at is None else shrunk_at) >= self._policy.unschedulable_shrink_after:
            asked = self._lessened(found)
        if asked != found.resources:
            shrunk_at = now
            reason += f", after {now - since:.0f} s with less: {in_words(asked)}"
        waiting = changed(
            found,
            waiting_since=since,
            refusals=found.refusals + 1,
            resources=asked,
            shrunk_at=shrunk_at,
            relaunch_at=now + delay,
            message=message,
            reason=reason,
        )
        return [self._put(waiting).launch()]

    def no_room(self, now: float, *, node: str, message: str) -> list[Decision]:
        """The platform took the launch, and keeps it until there is room. This may be told before ``accepted`` is."""
        decisions = self.accepted(now, node=node)
        found = self._find(node)
        if found is not None and found.seated and found.state is NodeState.CREATING:
            since = now if found.waiting_since is None else found.waiting_since
            self._put(changed(found, waiting_since=since, message=message))
        return decisions

    def room_found(self, now: float, *, node: str) -> list[Decision]:
        """It waits no more; from now on its agent is expected."""
        found = self._find(node)
        if found is None or found.ended or found.waiting_since is None or found.state is not NodeState.CREATING:
            return []
        self._put(changed(found, waiting_since=None, message=""))
        self._pulse.began(found, now)
        return []

    def cramped(self, now: float) -> list[str]:
        """Nodes that wait for room for so long that less should be asked for; act on each by ``shrink``."""
        patience = self._policy.unschedulable_shrink_after
        return [
            node.name
            for node in self._nodes.values()
            if node.seated
            and node.state is NodeState.CREATING
            and node.waiting_since is not None
            and now - node.waiting_since >= patience
            and self._lessened(node) != node.resources
        ]

    def shrink(self, now: float, *, node: str) -> list[Decision]:
        """Replace a node that waits for room by one that asks for less. Nothing is counted: it never ran."""
        found = self._find(node)
        if found is None or self.closed or node not in self.cramped(now):
            return []
        asked, waited = self._lessened(found), now - (found.waiting_since or now)
        why = f"no room for {node} in {waited:.0f} s ({found.message}): asked for with less, {in_words(asked)}"
        removal = self._remove(now, found, 0.0, why)
        return [removal, self._add(now, found.role, why, after=found, resources=asked)]

    def launch_failed(self, now: float, *, node: str, message: str) -> list[Decision]:
        """The platform could not create it, for another reason than room."""
        found = self._find(node)
        if found is None or found.state is not NodeState.PENDING:
            return []
        return self._over(now, found, ExitReason.UNKNOWN, message, agent_alive=False)

    def node_ended(self, now: float, *, node: str, exit_reason: str, message: str, host: str = "") -> list[Decision]:
        """The platform sees that nothing of this node is left."""
        kind = parse_exit_reason(exit_reason)
        found = self._find(node)
        if found is None:
            return []
        found = self._put(changed(found, gone=True, host=found.host or host))
        return [] if found.ended else self._over(now, found, kind, message, agent_alive=False)

    # --- what agents say ---

    def registered(self, now: float, *, node: str, agent_pid: int, host: str, address: str = "") -> list[Decision]:
        """An agent is there, for the first time or again (it met a new master)."""
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
                started_at=started_at,
                waiting_since=None,
            )
        )
        self._pulse.began(found, now)
        return []

    def program_started(self, now: float, *, node: str, incarnation: int, pid: int) -> list[Decision]:
        found = self._find(node)
        if found is None or found.state is not NodeState.RUNNING or incarnation != found.incarnation:
            return []
        self._put(changed(found, pid=pid))
        self._pulse.began(found, now)
        return []

    def program_exited(
        self, now: float, *, node: str, incarnation: int, exit_reason: str, message: str
    ) -> list[Decision]:
        """The agent asks what to do after this exit: start again as the ``RestartProgram`` says, or else leave.

        Reported again, it is answered alike as long as the node lives; of an ended node nothing more follows.
        """
        kind = parse_exit_reason(exit_reason)
        found = self._find(node)
        if found is None or found.ended:
            return []
        if 0 <= incarnation == found.incarnation - 1 and found.seated and not self.closed:
            return [found.restart()]
        if incarnation != found.incarnation:
            return []
        return self._over(now, found, kind, message, agent_alive=found.state is NodeState.RUNNING)

    def program_recalled(
        self, now: float, *, node: str, incarnation: int, message: str, exit_reason: str = ""
    ) -> list[Decision]:
        """Its program was ended by us, with its group (``core/groups.py``) or alone (``core/standstill.py``), to start anew:
        nothing is counted. ``exit_reason``: to be shown as how its last run ended."""
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

    # --- what is not journaled, and what is found in it ---

    def heartbeat(self, node: str, now: float) -> None:
        found = self._nodes.get(node)
        if found is not None and not found.ended:
            self._pulse.seen(found, now)

    def progress(self, node: str, now: float) -> None:
        """The program of this node got further (a record, a step). Also a sign of life."""
        found = self._nodes.get(node)
        if found is not None and not found.ended:
            self._pulse.moved(found, now)

    def idle(self, node: str, now: float) -> None:
        """The program of this node has nothing to do: its progress is expected from now on. No sign of life."""
        found = self._nodes.get(node)
        if found is not None and not found.ended:
            self._pulse.excused(found, now)

    def touch_all(self, now: float) -> None:
        """After a restart of the master: the time it was away is nobody's silence."""
        for node in self.live():
            self._pulse.began(node, now)

    def overdue(self, now: float) -> list[Overdue]:
        """Nodes that should have been heard of; act on each by ``lost``."""
        missing = (
            (n.name, self._pulse.missing(n, self._roles[n.role].spec, now)) for n in self._nodes.values() if n.seated
        )
        return [Overdue(name, ExitReason.HANG, message) for name, message in missing if message]

    def lost(self, now: float, *, node: str, exit_reason: str, message: str) -> list[Decision]:
        """Give a node up without having seen its end: it is removed at once, and replaced."""
        kind = parse_exit_reason(exit_reason)
        found = self._find(node)
        if found is None or found.ended:
            return []
        follows = self._over(now, found, kind, message, agent_alive=False)
        self._put(changed(self._nodes[node], removal=found.removal or message, removal_grace=0.0))
        return [Remove(node, 0.0, message), *follows]

    def removals(self, now: float) -> list[Remove]:
        """What shall be gone and is not yet: removed nodes, and agents that outlive their node's end."""
        found = []
        for node in self._nodes.values():
            if node.gone:
                continue
            if node.removal is not None:
                found.append(Remove(node.name, node.removal_grace, node.removal))
            elif node.ended_at is not None and now >= node.ended_at + self._policy.grace:
                found.append(Remove(node.name, 0.0, "it ended, and its agent stayed"))
        return found

    # --- inside ---

    def _over(self, now: float, node: Node, kind: ExitReason, message: str, *, agent_alive: bool) -> list[Decision]:
        """A live node, or its program, came to an end: record it and decide what follows."""
        if node.removal is not None:
            self._end(now, node, NodeState.DELETED, kind, message)
            return []
        policy = self._policies.get(node.role, self._policy)
        verdict = policy.next_step(
            kind, node.failures, node.resources.memory_mb, agent_alive=agent_alive and not self.closed
        )
        if verdict.step is Step.NOTHING:
            role = self._roles[node.role]
            self._roles[node.role] = changed(role, succeeded=role.succeeded + 1)
            self._end(now, node, NodeState.SUCCEEDED, kind, message)
            return []
        failures = {**node.failures, kind.value: node.failures.get(kind.value, 0) + 1}
        node = changed(node, failures=failures, pid=None)
        if verdict.step is Step.RESTART:
            node = changed(node, exit_reason=kind, message=message)
            return [self._restart(now, node, verdict.delay, verdict.reason)]
        if verdict.memory_mb is not None:
            node = changed(node, memory_floor_mb=verdict.memory_mb)
        self._end(now, node, NodeState.FAILED, kind, message)
        self._hosts.failed(now, node.host, kind)
        if self.closed:
            return []
        if verdict.step is Step.GIVE_UP:
            return self._give_up(node, kind, verdict.reason)
        reason = f"in place of {node.name}: {verdict.reason}"
        return [self._add(now, node.role, reason, after=node, delay=verdict.delay)]

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
        self._pulse.began(node, now)
        return self._put(node).restart()

    def _give_up(self, node: Node, kind: ExitReason, why: str) -> list[Decision]:
        """The end of a line. Either the job fails, or it goes on with one node less."""
        role = self._roles[node.role]
        left = len(self.seated(node.role)) + role.succeeded
        least = role.spec.min_replicas
        if role.spec.critical or left < least:
            because = "the role is critical" if role.spec.critical else f"{left} are left, {least} are needed"
            self._failure = FailJob(f"{node.name} is given up: {why} ({because})", node.name, kind)
            self._roles[node.role] = changed(role, given_up=role.given_up + 1)
            return [self._failure]
        target = role.spec.replicas - 1
        note = f"{node.name} is given up: {why}; going on with {target}"
        spec = changed(role.spec, replicas=target)
        self._roles[node.role] = changed(role, spec=spec, given_up=role.given_up + 1, note=note)
        return []

    def _aim(self, now: float, role: str, target: int, reason: str, first: Sequence[str] = ()) -> list[Decision]:
        state = self._roles[role]
        self._roles[role] = changed(state, spec=changed(state.spec, replicas=target), note=reason)
        if not self._started:
            return []
        surplus = len(self.seated(role)) - max(0, target - state.succeeded)
        if surplus <= 0:
            return self._fill(now, role, reason)
        order = sorted(self.seated(role), key=lambda node: (node.name in first, node.number), reverse=True)
        return [self._remove(now, node, self._policy.grace, reason) for node in order[:surplus]]

    def _fill(self, now: float, role: str, reason: str) -> list[Decision]:
        return [self._add(now, role, reason) for _ in range(self._missing(role))]

    def _missing(self, role: str) -> int:
        state = self._roles[role]
        return 0 if self._suspended else max(0, state.spec.replicas - state.succeeded - len(self.seated(role)))

    def _lessened(self, node: Node) -> Resources:
        minimum = self._roles[node.role].spec.min_resources
        return less(node.resources, minimum, keep_memory=node.memory_floor_mb > 0)

    def _remove(self, now: float, node: Node, grace: float, reason: str) -> Remove:
        node = changed(node, removal=node.removal or reason, removal_grace=grace)
        if node.state is NodeState.PENDING:
            # It ends here, and is gone if its time had not come: then nobody was asked to create it.
            node = changed(node, gone=node.relaunch_at > now)
            self._end(now, node, NodeState.DELETED, None, reason)
        else:
            self._put(node)
        return Remove(node.name, grace, reason)

    def _end(self, now: float, node: Node, state: NodeState, kind: ExitReason | None, message: str) -> None:
        super()._end(now, node, state, kind, message)
        self._pulse.forget(node)

    def _check_open(self, verb: str) -> None:
        if self.closed:
            why = self._failure.reason if self._failure else self._stopped
            raise Conflict(f"the job is ending ({why}) and cannot be {verb}")
