"""Parameter servers that stand still: when one is ended, and why nothing that was accepted is lost by it.

A worker that is stopped by a signal (SIGSTOP, a debugger) costs its own work; others get its shards. A parameter server that
is stopped holds up everyone, since nobody else has its parameters. So its program is *sentenced*: its agent kills it (SIGKILL
works on what is stopped) and starts it again in place, which costs what any kill of a server costs. It is nobody's failure, and
counts nowhere.

A server that runs but does not get on (a deadlock) is *silent*: it does not ask for orders, and its ``ps/pulse.py`` no longer
tells that it executes a long one. It is sentenced, too, much later, and that counts as a hang: it may happen again.

``Standstill`` says when; ``master/components.py`` tells agents and hears of the end. Like ``core/node_pulse.py`` it is not
journaled: a successor of the master begins to count anew.

What always holds:

1. Only time that was *witnessed* counts: between two heartbeats of an agent that both say "stopped" at most ``WITNESSED``
   seconds are added. So a master that was frozen or suspended itself, an agent that was, or heartbeats that come in a heap
   afterwards sentence nobody. Silence is counted from when the master last was awake, at the earliest.
2. A sentence is of one run of a program (its incarnation), and no run gets two. What wakes up before the sentence is not ended;
   what wakes up after it is, all the same.
3. The server ends *before* its seat has another holder. It has its tenure until its agent reports its end, so if it wakes up at
   the last moment it is still the holder, and what it answers counts and is in its log; then it is dead. There is no time in
   which two hold the seat, and nothing to tell apart from a ``kill -9``.
4. If the agent does not do it (it is silent: ``core/node_pulse.py``; it beats but the program stays: ``DEFIED``), the node is
   given up as a whole. Then the seat changes hands while the old holder may be alive somewhere, and may even wake up. It can do
   no harm: its tenure is over, and with that tenure the master takes no contribution that was staged there and no word of it on
   orders, readiness or dumps (``core/ps_orders.py``, 4 and 9); its log has its tenure in its name, and what it adds is in no
   order (``ps/log.py``); its files of dumps and moves never mix with its successor's (``ps/dumps.py``). It is told with its
   next call, and lets go of its connections.
"""

from __future__ import annotations

from dataclasses import dataclass

# A person who looks at a program with a debugger or py-spy for a moment should not lose it, and five seconds are less than
# what the recovery of a large server takes.
STOPPED = 5.0  # seconds that a server's program may be stopped
SILENT = 60.0  # seconds without a word of a server; it has one for its master every five
WITNESSED = 2.0  # seconds at the most that one heartbeat adds; agents beat every second
DEFIED = 20.0  # seconds after its sentence in which a program should have ended


@dataclass(frozen=True, slots=True)
class Sentence:
    """This run of a program shall be killed."""

    node: str
    incarnation: int
    reason: str
    is_hang: bool = False  # and counts as one


@dataclass(slots=True)
class _Watched:
    """One run of a program."""

    incarnation: int
    heard_at: float
    stopped: bool = False
    still: float = 0.0  # seconds
    sentence: Sentence | None = None
    defied: float = 0.0  # seconds


class Standstill:
    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}

    def heard(self, now: float, *, node: str, incarnation: int, stopped: bool) -> float:
        """An agent tells of its program. Gives for how long that is stopped, as far as anyone saw."""
        found = self._watched.get(node)
        if found is None or incarnation > found.incarnation:
            found = self._watched[node] = _Watched(incarnation, now)
        if incarnation < found.incarnation:
            return 0.0  # it comes late
        passed = min(max(now - found.heard_at, 0.0), WITNESSED)
        found.still = found.still + passed if stopped and found.stopped else 0.0
        found.defied += passed if found.sentence is not None else 0.0
        found.heard_at, found.stopped = now, stopped
        return found.still

    def overdue(self, node: str) -> Sentence | None:
        """Finder: whether the program of a server is to be ended now; ``sentenced`` is to follow."""
        found = self._watched.get(node)
        if found is None or found.sentence is not None or found.still < STOPPED:
            return None
        return Sentence(node, found.incarnation, f"its program was stopped by a signal for {found.still:.0f} s")

    def silent(self, node: str, incarnation: int, seconds: float) -> Sentence | None:
        """Finder: the same for one that has not had a word for its master for so long."""
        found = self._watched.get(node)
        if found is None or found.incarnation != incarnation or found.sentence is not None or seconds < SILENT:
            return None
        return Sentence(node, incarnation, f"its program did not get on for {seconds:.0f} s", is_hang=True)

    def sentenced(self, sentence: Sentence) -> None:
        found = self._watched.get(sentence.node)
        if found is not None and found.incarnation == sentence.incarnation:
            found.sentence = found.sentence or sentence

    def sentence_on(self, node: str, incarnation: int) -> Sentence | None:
        """Of this run, if there is one."""
        found = self._watched.get(node)
        return found.sentence if found is not None and found.incarnation == incarnation else None

    def defies(self, node: str) -> bool:
        """Finder: its agent goes on to tell of a program that should have ended long ago."""
        found = self._watched.get(node)
        return found is not None and found.defied >= DEFIED

    def forget(self, node: str) -> None:
        self._watched.pop(node, None)
