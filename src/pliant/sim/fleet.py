"""The nodes of one simulated job: the real ``NodeBook`` on one side, virtual machines on the other.

What ``master/components/nodes.py`` and ``rollouts.py`` do with processes is done here with events: hand launches to the cluster,
carry out removals and resizes, replace nodes one by one, report what became of them. Budgets, back-off, growth of memory after
out-of-memory and the order of replacement are those of the books, not copies of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from pliant.core.end_policy import PARAMETER_SERVER
from pliant.core.job_state import JobState
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.rollout import Finish, Settle, Surge, next_step
from pliant.core.nodes.states import NodeState
from pliant.core.resources import Resources
from pliant.sim.cluster import VirtualCluster
from pliant.sim.events import Event, EventQueue
from pliant.sim.truth.base import NodeGroup, Truth

MAX_ROUNDS = 1000  # of one reconciliation; each removes, launches or replaces something


@dataclass(frozen=True, slots=True)
class Grants:
    """How long the platform takes to grant a node, and how often it takes one away."""

    delay_s: float = 3.0  # median
    delay_sigma: float = 0.5  # log-normal
    preemptions_per_node_hour: float = 0.0
    can_resize: bool = True


@dataclass(slots=True)
class SimNode:
    name: str
    role: str
    resources: Resources
    host: str
    granted_at: float
    started: Event | None = None  # its program is still starting
    preemption: Event | None = None
    slowdown: Event | None = None
    speed: float = 1.0
    seats: int = 0
    share: float = 0.0  # of a server: its part of the load

    @property
    def is_ready(self) -> bool:
        return self.started is None


class Fleet:
    def __init__(
        self,
        job: str,
        state: JobState,
        truth: Truth,
        cluster: VirtualCluster,
        queue: EventQueue,
        random: Random,
        grants: Grants,
        *,
        before_change: Callable[[float], None],
        after_change: Callable[[float, str], None],
    ) -> None:
        """``before_change`` is called before nodes come or go, ``after_change`` with what happened: ``joined``, ``left``,
        ``died`` or ``resized``, with the role before it."""
        assert state.nodes is not None
        self.job, self.book = job, state.nodes
        self.nodes: dict[str, SimNode] = {}
        self.out_of_memory: list[tuple[float, str, int, float]] = []  # time, role, limit, peak
        self._truth, self._cluster, self._queue, self._random, self._grants = truth, cluster, queue, random, grants
        self._before, self._after = before_change, after_change
        self._wake: Event | None = None
        self._skew = self._true_skew = float(getattr(truth, "skew", 0.0))
        self._seats = 0  # servers that were desired when the skew was last known

    def start(self, now: float) -> None:
        self.book.set_capacity(now, machines=self._cluster.capacity.to_json())
        self.book.start(now)
        self.reconcile(now)

    def stop(self, now: float) -> None:
        """The job is over: every machine gets its room back."""
        self.book.stop(now, reason="the job is over", grace=0.0)
        for name in list(self.nodes):
            self._forget(name)
        if self._wake is not None:
            self._wake.cancel()

    def ready(self, role: str) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.role == role and node.is_ready]

    def groups(self, role: str) -> tuple[NodeGroup, ...]:
        """Those that work, the like together; in the order of ``grouping``."""
        return tuple(NodeGroup(len(nodes), *key) for key, nodes in self.grouping(role).items())

    def grouping(self, role: str) -> Mapping[tuple[float, float, int, float], list[SimNode]]:
        found: dict[tuple[float, float, int, float], list[SimNode]] = {}
        for node in self.ready(role):
            found.setdefault((node.resources.cpu, node.speed, node.seats, node.share), []).append(node)
        return found

    @property
    def pending(self) -> list[str]:
        """Those that wait for room."""
        return [node.name for node in self.book.live() if node.waiting_since is not None]

    def pending_since(self) -> float | None:
        return min((n.waiting_since for n in self.book.live() if n.waiting_since is not None), default=None)

    # --- what the books want

    def reconcile(self, now: float) -> None:
        """Until the books want nothing more for now."""
        for _ in range(MAX_ROUNDS):
            if not (self._remove(now) | self._launch(now) | self._resize(now) | self._roll_out(now)):
                break
        due = self.book.next_due()
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self._queue.at(max(due, now), self.reconcile) if due is not None else None

    def _remove(self, now: float) -> bool:
        removals = self.book.removals(now)
        for removal in removals:
            node = self.nodes.get(removal.node)
            if node is not None:
                self._end(now, node, ExitReason.COMPLETED, removal.reason, how="left")
            else:
                self.book.node_ended(now, node=removal.node, exit_reason=ExitReason.KILLED.value, message="")
        return bool(removals)

    def _launch(self, now: float) -> bool:
        launches = self.book.due(now)
        for launch in launches:
            self._before(now)
            host = self._cluster.place(self.job, launch.node, launch.resources, launch.avoid_hosts)
            if host is None:
                self.book.refused(now, node=launch.node, message="no machine has room for it now")
                continue
            self.book.accepted(now, node=launch.node)
            self.nodes[launch.node] = self._created(now, launch.node, launch.role, launch.resources, host)
        return bool(launches)

    def _created(self, now: float, name: str, role: str, resources: Resources, host: str) -> SimNode:
        node, random, grants = SimNode(name, role, resources, host, now), self._random, self._grants
        delay = grants.delay_s * random.lognormvariate(0.0, grants.delay_sigma) if grants.delay_s else 0.0
        delay += self._truth.costs.start_s * random.lognormvariate(0.0, 0.2)
        node.started = self._queue.at(now + delay, lambda at: self._started(at, name))
        hardships = self._truth.hardships
        if hardships.straggler_share and random.random() < hardships.straggler_share:
            node.speed = hardships.straggler_speed
        if hardships.slowdowns_per_hour and role != PARAMETER_SERVER:
            slow = now + random.expovariate(hardships.slowdowns_per_hour / 3600)
            node.slowdown = self._queue.at(slow, lambda at: self._slow_down(at, name))
        if grants.preemptions_per_node_hour:
            end = now + random.expovariate(grants.preemptions_per_node_hour / 3600)
            node.preemption = self._queue.at(end, lambda at: self.preempt(at, name))
        return node

    def _resize(self, now: float) -> bool:
        done = False
        for resize in self.book.resizes():
            self._before(now)
            node = self.nodes.get(resize.node)
            if node is None or not self._cluster.resize(self.job, resize.node, resize.resources):
                self.book.resize_refused(now, node=resize.node, message="its machine has no room for more")
                continue
            self.book.resized(now, node=resize.node, resources=resize.resources.to_json(), version=resize.version)
            node.resources = resize.resources
            self._after(now, f"{node.role} resized")
            done = True
        return done

    def _roll_out(self, now: float) -> bool:
        done = False
        for role in self.book.roles():
            state = self.book.role(role)
            if state.rollout is None:
                continue
            match next_step(state, self.book.active(role), now):
                case Surge(node, reason):
                    done |= bool(self.book.surge(now, role=role, node=node, reason=reason))
                case Settle(node, reason):
                    done |= bool(self.book.settle(now, role=role, node=node, reason=reason))
                case Finish():
                    self.book.rolled_out(now, role=role)
                    if self.book.role(role).rollout is None:
                        self._after(now, f"{role} rolled out")
                        done = True
                case _:
                    pass
        return done

    # --- what happens to nodes

    def _started(self, now: float, name: str) -> None:
        node = self.nodes[name]
        self._before(now)
        node.started = None
        self.book.registered(now, node=name, agent_pid=1, host=node.host)
        if self.book.get(name).state is NodeState.RUNNING:
            self.book.program_started(now, node=name, incarnation=self.book.get(name).incarnation, pid=1)
        self._rebalance(node.role)
        self._after(now, f"{node.role} joined")
        self.reconcile(now)

    def _slow_down(self, now: float, name: str) -> None:
        self._before(now)
        self.nodes[name].speed = min(self.nodes[name].speed, self._truth.hardships.straggler_speed)
        self._after(now, f"{self.nodes[name].role} slowed")

    def preempt(self, now: float, name: str) -> None:
        if name in self.nodes:
            self._end(now, self.nodes[name], ExitReason.PREEMPTED, "preempted by the platform")
            self.reconcile(now)

    def exhaust_memory_of(self, now: float, name: str, peak_mb: float) -> None:
        node = self.nodes[name]
        self.out_of_memory.append((now, node.role, node.resources.memory_mb, peak_mb))
        self._end(now, node, ExitReason.OOM, "out of memory", peak_mb=peak_mb)
        self.reconcile(now)

    def _end(
        self, now: float, node: SimNode, reason: ExitReason, message: str, *, how: str = "died", peak_mb: float = 0.0
    ) -> None:
        self._before(now)
        was_ready = node.is_ready
        self._forget(node.name)
        self.book.node_ended(
            now, node=node.name, exit_reason=reason.value, message=message, host=node.host, peak_mb=int(peak_mb)
        )
        if was_ready:
            self._rebalance(node.role)
            self._after(now, f"{node.role} {how}")

    def _forget(self, name: str) -> None:
        node = self.nodes.pop(name)
        for event in (node.started, node.preemption, node.slowdown):
            if event is not None:
                event.cancel()
        self._cluster.release(self.job, name)

    # --- seats and partitions

    def _rebalance(self, role: str) -> None:
        """Others share the virtual workers or the partitions from now on."""
        nodes = self.ready(role)
        if role != PARAMETER_SERVER:
            even, more = divmod(self._truth.virtual_workers, len(nodes)) if nodes else (0, 0)
            for number, node in enumerate(nodes):
                node.seats = even + (number < more)
            return
        seats = self.book.role(role).spec.replicas
        if self._seats and seats != self._seats:  # what was hot on one server is spread by chance again
            self._skew = (self._skew + self._true_skew) / 2
        self._seats = seats
        hottest = min(1.0, (1.0 + self._skew) / len(nodes)) if len(nodes) > 1 else 1.0
        for number, node in enumerate(nodes):
            node.share = hottest if number == 0 else max((1.0 - hottest) / (len(nodes) - 1), 1e-9)

    def give_seats(self, seats: Mapping[str, int]) -> None:
        """Of virtual workers. Ignored if it is not about the workers that there are."""
        workers = self.ready("worker")
        is_whole = {node.name for node in workers} == set(seats) and sum(seats.values()) == self._truth.virtual_workers
        for node in workers if is_whole else ():
            node.seats = seats[node.name]

    def move_partitions(self, moves: Mapping[str, float]) -> bool:
        servers = self.ready(PARAMETER_SERVER)
        moved = False
        for name, part in moves.items():
            others = [node for node in servers if node.name != name]
            source = next((node for node in servers if node.name == name), None)
            if source is None or not others:
                continue
            amount = source.share * max(0.0, min(1.0, part))
            source.share = max(1e-9, source.share - amount)
            for node in others:
                node.share += amount / len(others)
            moved = True
        if moved:
            self._skew = max(node.share for node in servers) * len(servers) - 1.0
        return moved
