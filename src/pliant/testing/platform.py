"""A platform in memory, whose nodes do nothing by themselves: the test says what happens to them.

It keeps the contract of ``pliant.platforms.base`` and passes the same conformance suite as the real ones. It outlives the
master that opened it, as a cluster does. Its verbs may be called from any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from pliant.core.nodes.capacity import Capacity, Machine
from pliant.core.nodes.fault_policy import ExitReason
from pliant.platforms.base import (
    JobContext,
    NodeEvent,
    NodeLaunch,
    NodeRemoval,
    NodeResize,
    NodeWatcher,
    Platform,
    Refusal,
    ScalePlan,
    Scaler,
)
from pliant.platforms.traits import PlatformTraits


@dataclass(slots=True)
class FakeNode:
    """One node: how it was launched, and what became of it."""

    launch: NodeLaunch
    end: NodeEvent | None = None  # None: it is there
    stubborn: bool = False  # ends only when forced (removed without grace)
    asked_to_end: bool = False

    @property
    def alive(self) -> bool:
        return self.end is None


class FakePlatform(Platform):
    """``platform.preempt_node("worker-0")``, ``platform.refuse_next("no room")`` and so on.

    ``room`` is how many nodes may be there at once; None: any number. ``largest`` is the machine that all of them run on, each
    alone; what is larger waits for room. ``ResizingPlatform`` can also resize running nodes.
    """

    name = "fake"
    traits = PlatformTraits(is_single_machine=True)

    def __init__(self, room: int | None = None, largest: Machine | None = None) -> None:
        self.room = room
        self.largest = largest  # machine; None: nobody knows
        self.unresizable: dict[str, str] = {}  # node -> why it cannot be resized now
        self.checks_resize = True  # False: what is in the way shows only when it is done
        self.nodes: dict[str, FakeNode] = {}
        self.launched: list[str] = []  # in order; a launch of what is there already is not in it
        self.removed: list[NodeRemoval] = []  # every request, in order
        self.plans: list[ScalePlan] = []
        self.context: JobContext | None = None  # of the last ``open``
        self._refusals: list[tuple[str, bool]] = []
        self._watchers: list[_FakeWatcher] = []
        self._lock = threading.RLock()

    # --- the contract

    def open(self, context: JobContext) -> tuple[Scaler, NodeWatcher]:
        self.context = context
        watcher = _FakeWatcher(self)
        with self._lock:
            self._watchers.append(watcher)
        return _FakeScaler(self), watcher

    async def capacity(self) -> Capacity | None:
        return Capacity((self.largest,)) if self.largest is not None else None

    async def close(self) -> None:
        with self._lock:
            self._watchers.clear()

    # --- what a test makes happen

    def preempt_node(self, node: str, message: str = "preempted") -> None:
        """The platform takes the node away."""
        self.end_node(node, ExitReason.PREEMPTED, message)

    def kill_node(self, node: str, message: str = "killed by SIGKILL") -> None:
        """Somebody kills the node, agent and all."""
        self.end_node(node, ExitReason.KILLED, message)

    def exhaust_memory_of(self, node: str, message: str = "out of memory") -> None:
        """The node outgrows its memory."""
        self.end_node(node, ExitReason.OOM, message)

    def finish_node(self, node: str) -> None:
        """The node's program completes, and its agent leaves."""
        self.end_node(node, ExitReason.COMPLETED, "finished")

    def end_node(self, node: str, reason: ExitReason, message: str = "") -> None:
        """The node ends for any reason; the watchers see it."""
        with self._lock:
            found = self.nodes[node]
            if found.end is None:
                found.end = NodeEvent(node, False, reason, message)
                self._tell(found.end)

    def lose_node(self, node: str) -> None:
        """The node vanishes without an event: not even a trace of it is left."""
        with self._lock:
            del self.nodes[node]

    def leave_no_room_for(self, node: str, message: str = "no room") -> None:
        """The node was taken, and waits for room, as a cluster's scheduler has it. Empty ``message``: there is room now."""
        with self._lock:
            self._tell(NodeEvent(node, True, unschedulable=message))

    def make_stubborn(self, node: str) -> None:
        """The node ignores requests to end, until it is forced."""
        self.nodes[node].stubborn = True

    def refuse_next(self, message: str = "no room", *, unschedulable: bool = True, times: int = 1) -> None:
        """Refuse the next launches: there is no room, or (``unschedulable=False``) it goes wrong."""
        with self._lock:
            self._refusals += [(message, unschedulable)] * times

    def running(self) -> list[str]:
        """The names of the nodes that are there, in the order of their launch."""
        with self._lock:
            return [name for name, node in self.nodes.items() if node.alive]

    # --- inside

    def _launch(self, launch: NodeLaunch) -> Refusal | None:
        with self._lock:
            known = self.nodes.get(launch.node)
            if known is not None:
                if known.end is not None:
                    self._tell(known.end)
                return None
            if self._refusals:
                return Refusal(launch.node, *self._refusals.pop(0))
            if self.largest is not None and not self.largest.fits(launch.resources):
                return Refusal(launch.node, "no machine is large enough", True)
            if self.room is not None and len(self.running()) >= self.room:
                return Refusal(launch.node, f"room for only {self.room} nodes", True)
            self.nodes[launch.node] = FakeNode(launch)
            self.launched.append(launch.node)
            return None

    def _remove(self, removal: NodeRemoval) -> None:
        with self._lock:
            self.removed.append(removal)
            found = self.nodes.get(removal.node)
            if found is None:
                self._tell(NodeEvent(removal.node, False, ExitReason.KILLED, "no such node"))
            elif found.end is not None:
                self._tell(found.end)
            elif removal.grace <= 0:
                self.end_node(removal.node, ExitReason.KILLED, "removed immediately")
            elif found.stubborn:
                found.asked_to_end = True
            else:
                self.end_node(removal.node, ExitReason.PREEMPTED, "removed")

    def _resize(self, resize: NodeResize, *, try_only: bool = False) -> Refusal | None:
        with self._lock:
            found = self.nodes.get(resize.node)
            if found is None or not found.alive:
                return Refusal(resize.node, "it does not exist", True)
            if resize.node in self.unresizable:
                return Refusal(resize.node, self.unresizable[resize.node], True)
            if not try_only:
                found.launch = replace(found.launch, resources=resize.resources)
            return None

    def _tell(self, event: NodeEvent) -> None:
        for watcher in self._watchers:
            watcher.tell(event)

    def _list(self) -> list[NodeEvent]:
        with self._lock:
            return [node.end or NodeEvent(name, True) for name, node in self.nodes.items()]


class ResizingPlatform(FakePlatform):
    """It can give a running node other resources; ``platform.unresizable["worker-0"] = "it holds 700 MB"`` says which not."""

    traits = PlatformTraits(is_single_machine=True, can_resize=True)


class _FakeScaler(Scaler):
    def __init__(self, platform: FakePlatform) -> None:
        self._platform = platform

    async def scale(self, plan: ScalePlan) -> list[Refusal]:
        self._platform.plans.append(plan)
        for removal in plan.remove:
            self._platform._remove(removal)
        refused = [self._platform._resize(resize) for resize in plan.resize]
        refused += [self._platform._launch(launch) for launch in plan.launch]
        return [refusal for refusal in refused if refusal is not None]

    def check_resize(self, wanted: Sequence[NodeResize]) -> list[Refusal]:
        if not self._platform.checks_resize:
            return []
        found = [self._platform._resize(resize, try_only=True) for resize in wanted]
        return [refusal for refusal in found if refusal is not None]


class _FakeWatcher(NodeWatcher):
    def __init__(self, platform: FakePlatform) -> None:
        self._platform = platform
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[NodeEvent] = asyncio.Queue()

    def tell(self, event: NodeEvent) -> None:
        self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def list(self) -> list[NodeEvent]:
        return self._platform._list()

    async def watch(self) -> AsyncIterator[NodeEvent]:
        while True:
            yield await self._events.get()
