"""Parameter servers whose CPU is the bottleneck: move partitions first, then more CPU, then one more server.

Uneven load and too little CPU are different problems. If one server is busy and the others are not, partitions move away from
it (not if a single partition is the load: it would be as hot elsewhere). If all are busy, each gets more CPU, and at the
maximum there is one more server.

Servers that came or went a short while ago have the load as chance spread it. Moving it is urgent then: what their number brings is
judged after that, not before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import mean

from pliant.core.planning.candidates import is_possible
from pliant.core.planning.history import JobHistory, NodeView
from pliant.core.planning.objectives import SERVER, difference
from pliant.core.planning.proposal import Proposal

MIN_SHARE, MAX_SHARE = 0.05, 0.5  # of a server's partitions that move at once


@dataclass(frozen=True, slots=True)
class HotPs:
    name: str = "hot_ps"
    hot: float = 0.8  # share of the CPU limit
    uneven: float = 1.3  # times the mean load
    min_age_s: float = 30.0
    young_s: float = 600.0

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        servers = [node for node in history.nodes if node.role == SERVER and node.cpu_limit]
        if not servers or min(node.age_s for node in servers) < self.min_age_s:
            return None
        if history.settling_since is not None:
            return None
        busy = {node.name: max(node.cpu / node.cpu_limit, node.throttled) for node in servers}
        hottest = max(servers, key=lambda node: (busy[node.name], node.name))
        if busy[hottest.name] < self.hot:
            return None
        average = mean(busy.values())
        if len(servers) > 1 and busy[hottest.name] >= self.uneven * average:
            if (proposal := self._moved(history, hottest, busy[hottest.name], average)) is not None:
                return proposal
        elif average < self.hot:
            return None
        return self._more(history, hottest, busy[hottest.name])

    def _moved(self, history: JobHistory, node: NodeView, load: float, average: float) -> Proposal | None:
        share = 1.0 - average / load
        heaviest = max((part for _, part in node.partition_load), default=0.0)
        if len(node.partition_load) == 1 or heaviest > 1.0 - share + 0.25:
            return None
        reason = f"{node.name} uses {load:.0%} of its CPU, the average of servers is {average:.0%}: partitions move to the others"
        moved = {node.name: round(min(MAX_SHARE, max(MIN_SHARE, share)), 2)}
        is_new = min(each.age_s for each in history.nodes if each.role == SERVER) < self.young_s
        return Proposal(self.name, reason, history.configuration, moves=moved, urgent=is_new)

    def _more(self, history: JobHistory, node: NodeView, load: float) -> Proposal | None:
        server, bounds = history.configuration.server, history.bounds.server
        if server is None or bounds is None:
            return None
        larger = bounds.clip(replace(server, cpu=round(server.cpu * max(1.25, load / 0.6), 2)))
        more = bounds.clip(replace(server, replicas=server.replicas + bounds.unit))
        may_grow = bool(bounds.max_cpu or history.bounds.max_cpu or history.room is not None)
        for shape, usable in ((larger, may_grow and larger.cpu > server.cpu), (more, more.replicas > server.replicas)):
            new = replace(history.configuration, server=shape)
            if usable and is_possible(history, new):
                what = difference(history.configuration, new)
                return Proposal(self.name, f"servers use up to {load:.0%} of their CPU ({node.name}): {what}", new)
        return None
