"""Contributions: the gradients that workers pushed, from the master's decision to the order that applies them.

A worker stages its gradient on the servers and asks the master to accept it. ``PushDecision`` is the answer. What is accepted
is pending until an ``apply`` order names it: at once in asynchronous training, with the whole batch in synchronous training.

A worker may have a *window* of contributions that are not decided yet. They are decided in the order of their numbers, and the last
``MAX_WINDOW`` accepted ones of a session are remembered: so whichever part of a window is sent again after an answer was lost, each
number gets the answer that it had. A number that was passed over by a higher one was refused and stays so.

``Contributions`` is a part of ``core/parameters/book.py``, which makes the decisions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from pliant.core.errors import InvalidRequest
from pliant.core.parameters.orders import Contribution

MAX_EXAMPLES = 1 << 62  # of one contribution
MAX_WINDOW = 64  # undecided contributions of one session
STALENESS = (0, 1, 2, 4, 8, 16, 32, 64)  # upper bounds of the histogram's buckets; one more beyond them


class PushRequest(NamedTuple):
    """A worker asks for what it staged as (session, sequence) to be accepted."""

    session: str
    sequence: int  # 1, 2, 3, …; the same number again is the same contribution
    based_on: int  # iteration of the model that the gradient was computed on
    examples: int
    holders: tuple[tuple[int, int], ...]  # where it was staged: (seat, fencing token)
    map_version: int


class PushWithRecords(NamedTuple):
    """A contribution and the records that it was computed from."""

    push: PushRequest
    progress: tuple[tuple[int, int], ...] = ()  # (lease, records of the shard that are done with it)
    after: tuple[tuple[int, int], ...] = ()  # (lease, records that have to be accepted before it)


class PushOutcome(StrEnum):
    ACCEPTED = "accepted"
    REPEATED = "repeated"  # accepted before; the same answer again
    OVER = "over"  # the last iteration was reached before: nothing more is accepted
    STALE = "stale"  # computed on a model that is too old: pull and compute again
    UNSCHEDULED = "unscheduled"  # the learning rate of the next update is not known yet: report it and contribute again
    MOVED = "moved"  # staged by an outdated map, or on a server that was replaced: stage again
    LOST = "lost"  # a shard of its records is leased to another worker: drop it
    GAP = "gap"  # records before its own are not accepted, or its number was passed over: contribute again, in order


class PushDecision(NamedTuple):
    outcome: PushOutcome
    iteration: int  # the newest
    staleness: int = 0
    reason: str = ""
    lost_leases: tuple[int, ...] = ()


class AcceptedPush(NamedTuple):
    """One of the newest of a session."""

    sequence: int
    staleness: int


class Batch(NamedTuple):
    """What one ``apply`` order takes, its weights adding up to 1."""

    contributions: tuple[Contribution, ...]
    examples: int
    ended_sessions: tuple[str, ...]  # to be discarded after it


class Contributions:
    """``count`` and ``examples``: accepted, and applied; ``staleness``: a histogram of those accepted."""

    def __init__(self) -> None:
        self.pending: list[Contribution] = []  # accepted, in no order yet; the weight is the number of examples
        self._accepted: dict[str, tuple[AcceptedPush, ...]] = {}  # by session: the newest, at most ``MAX_WINDOW``
        self._ended: list[str] = []  # sessions to discard once their pending contributions are applied
        self.count = 0
        self.examples = 0
        self.staleness = [0] * (len(STALENESS) + 1)

    @property
    def pending_examples(self) -> int:
        return int(sum(contribution.weight for contribution in self.pending))

    def repeated(self, session: str, sequence: int) -> AcceptedPush | None:
        """What was accepted before under this number."""
        accepted = self._accepted.get(session, ())
        if not accepted or sequence > accepted[-1].sequence:
            return None
        return next((one for one in reversed(accepted) if one.sequence == sequence), None)

    def passed_over(self, session: str, sequence: int) -> int:
        """The number accepted last, if it is higher than this one, which was not accepted; else 0."""
        accepted = self._accepted.get(session, ())
        if not accepted or sequence > accepted[-1].sequence:
            return 0
        if len(accepted) == MAX_WINDOW and sequence < accepted[0].sequence:
            raise InvalidRequest(
                f"contribution {sequence} is older than the last {MAX_WINDOW} of its session, of which "
                f"{accepted[-1].sequence} is the newest"
            )
        return accepted[-1].sequence

    def accept(self, contribution: Contribution, staleness: int) -> None:
        """``contribution.weight`` is its number of examples."""
        before = self._accepted.get(contribution.session, ())
        self._accepted[contribution.session] = (
            *before[1 - MAX_WINDOW :],
            AcceptedPush(contribution.sequence, staleness),
        )
        self.count += 1
        self.staleness[_bucket(staleness)] += 1
        self.pending.append(contribution)

    def end_session(self, session: str) -> bool:
        """Returns whether it can be discarded now; else it is after its pending contributions were applied."""
        self._accepted.pop(session, None)
        if any(contribution.session == session for contribution in self.pending):
            self._ended.append(session)
            return False
        return True

    def take_batch(self) -> Batch:
        total = sum(contribution.weight for contribution in self.pending)
        weighted = tuple(
            Contribution(session, sequence, w / total, seats) for session, sequence, w, seats in self.pending
        )
        batch = Batch(weighted, int(total), tuple(self._ended))
        self.examples += batch.examples
        self.pending, self._ended = [], []
        return batch

    # --- as JSON

    def snapshot(self) -> dict[str, Any]:
        return {
            "pending": [contribution.to_json() for contribution in self.pending],
            "accepted": {session: [list(one) for one in found] for session, found in self._accepted.items()},
            "ended": list(self._ended),
            "count": self.count,
            "examples": self.examples,
            "staleness": list(self.staleness),
        }

    @classmethod
    def from_snapshot(cls, state: Mapping[str, Any]) -> Contributions:
        made = cls()
        made.pending = [Contribution.from_json(one) for one in state["pending"]]
        made._accepted = {s: tuple(AcceptedPush(*one) for one in found) for s, found in state["accepted"].items()}
        made._ended = list(state["ended"])
        made.count, made.examples = state["count"], state["examples"]
        made.staleness = list(state["staleness"])
        return made


def _bucket(staleness: int) -> int:
    return bisect_left(STALENESS, staleness)
