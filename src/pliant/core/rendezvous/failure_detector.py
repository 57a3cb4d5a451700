"""Which members of a world have failed, once others wait for them longer than their steps take.

A frozen process closes no connection, so its peers only see a collective that does not end, and gloo does not say whose fault it
is. Each worker knows how long its collectives usually take (``WaitPace``); one that waits much longer reports that to the master.
It *suspects*, and blames nobody: a peer may just evaluate, write a file, or compute. The master then asks everybody for a sign of
life, and ``FailureDetector`` decides on evidence:

1. Without a suspicion nobody is declared failed here. (``fault.session_timeout`` holds all the same.)
2. A member whose agent has *seen* it stopped by a signal for ``MIN_STOPPED_S`` has failed: no load looks like that.
3. A member has failed if neither its process nor its agent has given a sign of life for ``silence_limit``. The agent is a second
   witness on the same node: a process that computes without releasing its interpreter is silent, and its agent is not. Who has no
   agent (a guest) is never declared failed here.
4. Silence is counted only while the master runs and looks: between two looks at most ``MAX_LOOK_S``, so a master that was paused
   or starved blames nobody for it.
5. The limit grows with load: it is at least ``ANSWER_FACTOR`` times what the slowest answer to this suspicion took, and
   ``HEARTBEAT_FACTOR`` times the interval of heartbeats. It is doubled for a member that was declared failed for its silence and
   came back, and never exceeds the configured time-out.

A false alarm costs a re-forming: the member joins again without a state of its own, and receives the others'. Exactness does not
depend on who is suspected.

``master/components/rendezvous.py`` feeds it; like ``core/nodes/liveness.py`` it is not journaled.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

MIN_STOPPED_S = 0.15  # seen by the agent; longer than py-spy needs to look at a program
MIN_SILENCE_S = 2.0
MAX_LOOK_S = 0.25  # of silence that one look adds
ANSWER_FACTOR = 8
HEARTBEAT_FACTOR = 2.5
MIN_PROBE_INTERVAL_S = 1.0  # a large world may wait for one slow worker in every step
MAX_SUSPICION_S = 12.0  # a worker that still waits suspects again before that
MAX_FACTOR = 64.0
SEEN_STOPPED_S = 1.5  # that a report of a stopped program is news

MIN_WAIT_S = 0.25  # before a worker suspects
MAX_PACE_S = 10.0  # the same, however long it usually waits
MAX_WAIT_S = 2.0  # between two suspicions of one wait
FIRST_WAIT_S = 1.0  # as long as it knows no pace
WAIT_FACTOR = 3
REMEMBERED_WAITS = 64


class WaitPace:
    """How long this worker's collectives take, and how long it waits before it suspects that a peer has failed."""

    def __init__(self) -> None:
        self._waits: deque[float] = deque(maxlen=REMEMBERED_WAITS)

    def record(self, seconds: float) -> None:
        """A collective ended well after so long."""
        self._waits.append(seconds)

    @property
    def limit(self) -> float:
        """A multiple of a high quantile of the last waits."""
        if not self._waits:
            return FIRST_WAIT_S
        high = sorted(self._waits)[math.ceil(0.95 * len(self._waits)) - 1]
        return min(max(MIN_WAIT_S, WAIT_FACTOR * high), MAX_PACE_S)


@dataclass(frozen=True, slots=True)
class Failure:
    """A member that has failed; ``stopped``: its program is stopped by a signal, else it is silent."""

    member: str
    seconds: float
    stopped: bool


@dataclass(slots=True)
class _Suspicion:
    began: float
    looked: float
    until: float
    silence: dict[str, float]  # of those that have not answered yet, in seconds
    beats: dict[str, float]  # of their agents, as last seen
    slowest_answer: float = 0.0


class FailureDetector:
    def __init__(self, member_timeout: float) -> None:
        """``member_timeout``: the configured limit of silence, which no limit here exceeds."""
        self._member_timeout = member_timeout
        self._suspicion: _Suspicion | None = None
        self._stopped: dict[str, tuple[float, float]] = {}  # for how long, as its agent saw, and when it said so
        self._factors: dict[str, float] = {}  # of the limits of those that came back
        self._declared: set[str] = set()  # failed for their silence
        self.probe = 0  # rises with each suspicion; members that see a new number send a sign of life

    def is_suspecting(self, now: float) -> bool:
        return self._suspicion is not None and now < self._suspicion.until

    def suspect(self, now: float, members: Collection[str]) -> None:
        """Someone waits for these members longer than usual. As long as some have not answered, and for a moment after the first
        of many who wait said so, it is the same suspicion."""
        current = self._suspicion
        if current is not None and now < current.until:
            is_open = bool(current.silence) and current.silence.keys() <= set(members)
            if is_open or now - current.began < MIN_PROBE_INTERVAL_S:
                current.until = now + MAX_SUSPICION_S
                return
        self._suspicion = _Suspicion(now, now, now + MAX_SUSPICION_S, dict.fromkeys(members, 0.0), {})
        self.probe += 1

    def heard(self, now: float, member: str) -> None:
        """A sign of life of the member's own process."""
        current = self._suspicion
        if current is not None and current.silence.pop(member, None) is not None:
            current.slowest_answer = max(current.slowest_answer, now - current.began)

    def stopped(self, now: float, member: str, seconds: float) -> None:
        """Its agent has seen its program stopped by a signal for so long."""
        self._stopped[member] = (seconds, now)

    def returned(self, member: str) -> None:
        """It joined again. If it had been declared failed for its silence, that was too early."""
        self._stopped.pop(member, None)
        if member in self._declared:
            self._declared.discard(member)
            self._factors[member] = min(self._factors.get(member, 1.0) * 2, MAX_FACTOR)

    def silence_limit(self, member: str, heartbeat_interval: float) -> float:
        slowest = self._suspicion.slowest_answer if self._suspicion is not None else 0.0
        limit = max(MIN_SILENCE_S, ANSWER_FACTOR * slowest, HEARTBEAT_FACTOR * heartbeat_interval)
        return min(limit * self._factors.get(member, 1.0), self._member_timeout)

    def look(
        self, now: float, heartbeats: Mapping[str, float], heartbeat_interval: float, *, is_awaited: bool = False
    ) -> list[Failure]:
        """Who has failed. ``heartbeats``: when each agent was last heard of. ``is_awaited``: workers wait for the others to form
        the next world, which makes one that is stopped as unwelcome as a suspicion does."""
        if not self.is_suspecting(now):
            self._suspicion = None
        if self._suspicion is None:
            return self._take_stopped(now) if is_awaited else []
        return self._take_stopped(now) + self._take_silent(now, self._suspicion, heartbeats, heartbeat_interval)

    def _take_stopped(self, now: float) -> list[Failure]:
        seen, self._stopped = self._stopped, {}
        failed = []
        for member, (seconds, at) in seen.items():
            if now - at > SEEN_STOPPED_S:
                continue
            if seconds >= MIN_STOPPED_S:
                failed.append(Failure(member, seconds, stopped=True))
                if self._suspicion is not None:
                    self._suspicion.silence.pop(member, None)
            else:
                self._stopped[member] = (seconds, at)
        return failed

    def _take_silent(
        self, now: float, current: _Suspicion, heartbeats: Mapping[str, float], heartbeat_interval: float
    ) -> list[Failure]:
        passed, current.looked = min(max(now - current.looked, 0.0), MAX_LOOK_S), now
        failed = []
        for member, silent in list(current.silence.items()):
            beat = heartbeats.get(member)
            if beat is None or beat != current.beats.get(member):
                current.silence[member] = 0.0
                if beat is not None:
                    current.beats[member] = beat
                continue
            current.silence[member] = silent = silent + passed
            if silent > self.silence_limit(member, heartbeat_interval):
                del current.silence[member]
                self._declared.add(member)
                failed.append(Failure(member, silent, stopped=False))
        return failed
