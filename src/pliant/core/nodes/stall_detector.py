"""Detects parameter servers that have stalled, decides when one is killed, and why that loses nothing that was accepted.

A worker that is stopped by a signal (SIGSTOP, a debugger) delays only its own work; others get its shards. A parameter server
that is stopped blocks everyone, since nobody else has its parameters. So a ``KillDecision`` is made on its program: the agent
kills it (SIGKILL works on a stopped process) and restarts it in place, which costs what any kill of a server costs. It counts
as no failure.

A server that runs but makes no progress (a deadlock) is *silent*: it does not ask for orders, and its liveness reporter
(``ps/server/liveness_reporter.py``) no longer reports that it executes a long one. It is killed too, much later, and that
counts as a hang: it may happen again.

``StallDetector`` decides when; ``master/components/programs.py`` passes decisions to the agents and receives the exit
reports. Like ``core/nodes/liveness.py`` it is not journaled: a restarted master starts counting at zero.

Invariants:

1. Only time that was *witnessed* counts: between two heartbeats of an agent that both say "stopped" at most
   ``MAX_WITNESSED_S`` are added. So a master that was frozen or suspended itself, an agent that was, or a burst of delayed
   heartbeats cause no kill. Silence is counted from when the master was last awake, at the earliest.
2. A decision is about one run of a program (its incarnation), and there is at most one per run. A program that resumes before
   the decision is not killed; one that resumes after it is killed all the same.
3. The server ends *before* its seat has another holder. Its fencing token is valid until its agent reports its exit: if it
   resumes at the last moment it is still the holder, its answers count and are in its log; then it is dead. At no time do two
   hold the seat, and the outcome is the same as after a ``kill -9``.
4. If the agent does not carry it out (it is silent: ``core/nodes/liveness.py``; it sends heartbeats but the program stays:
   ``MAX_KILL_S``), the whole node is given up. Then the seat changes hands while the old holder may still be alive somewhere, and
   may even resume. It can do no harm: its fencing token is stale, so the master accepts no contribution staged there and no
   report of it on orders, readiness or dumps (``core/parameters/book.py``, 4 and 9); its log has its fencing token in its
   name, and what it appends is in no order (``ps/recovery/push_log.py``); its files of dumps and moves never mix with its
   successor's (``ps/recovery/dumps.py``). Its next call is refused, and it closes its connections.
"""

from __future__ import annotations

from dataclasses import dataclass

# A person who looks at a program with a debugger or py-spy for a moment should not lose it, and five seconds are less than
# what the recovery of a large server takes.
MAX_STOPPED_S = 5.0  # that a server's program may be stopped
MAX_SILENT_S = 60.0  # without a report of a server; it sends one every five seconds
MAX_WITNESSED_S = 2.0  # that one heartbeat adds; agents send one every second
MAX_KILL_S = 20.0  # from the decision to the end of the program


@dataclass(frozen=True, slots=True)
class KillDecision:
    """This run of a program is to be killed."""

    node: str
    incarnation: int
    reason: str
    is_hang: bool = False  # and counts as a failure of that kind


@dataclass(slots=True)
class _Watched:
    """One run of a program."""

    incarnation: int
    heard_at: float
    stopped: bool = False
    stopped_s: float = 0.0
    decision: KillDecision | None = None
    ignored_s: float = 0.0  # since the decision


class StallDetector:
    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}

    def heard(self, now: float, *, node: str, incarnation: int, stopped: bool) -> float:
        """A heartbeat of an agent. Returns for how many witnessed seconds its program has been stopped."""
        found = self._watched.get(node)
        if found is None or incarnation > found.incarnation:
            found = self._watched[node] = _Watched(incarnation, now)
        if incarnation < found.incarnation:
            return 0.0  # a late heartbeat of an earlier run
        passed = min(max(now - found.heard_at, 0.0), MAX_WITNESSED_S)
        found.stopped_s = found.stopped_s + passed if stopped and found.stopped else 0.0
        found.ignored_s += passed if found.decision is not None else 0.0
        found.heard_at, found.stopped = now, stopped
        return found.stopped_s

    def find_stopped(self, node: str) -> KillDecision | None:
        """Finder: whether the program of a server was stopped for too long; act on it by ``record_kill``."""
        found = self._watched.get(node)
        if found is None or found.decision is not None or found.stopped_s < MAX_STOPPED_S:
            return None
        return KillDecision(node, found.incarnation, f"its program was stopped by a signal for {found.stopped_s:.0f} s")

    def find_silent(self, node: str, incarnation: int, seconds: float) -> KillDecision | None:
        """Finder: the same for a server that has not reported for ``seconds``."""
        found = self._watched.get(node)
        if found is None or found.incarnation != incarnation or found.decision is not None or seconds < MAX_SILENT_S:
            return None
        return KillDecision(node, incarnation, f"its program made no progress for {seconds:.0f} s", is_hang=True)

    def record_kill(self, decision: KillDecision) -> None:
        found = self._watched.get(decision.node)
        if found is not None and found.incarnation == decision.incarnation:
            found.decision = found.decision or decision

    def kill_decision_for(self, node: str, incarnation: int) -> KillDecision | None:
        """The decision on this run, if there is one."""
        found = self._watched.get(node)
        return found.decision if found is not None and found.incarnation == incarnation else None

    def is_ignored(self, node: str) -> bool:
        """Finder: heartbeats still report a program that should have been killed long ago."""
        found = self._watched.get(node)
        return found is not None and found.ignored_s >= MAX_KILL_S

    def forget(self, node: str) -> None:
        self._watched.pop(node, None)
