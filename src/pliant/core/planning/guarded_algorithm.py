"""An algorithm as the planner asks it: whatever it does wrong, the rest of the chain is asked as if it had seen nothing to change.

Algorithms come from many teams. One that raises, or answers what is no proposal, is passed over, and says why (``failure``). One
that does not return is *stuck*: whoever waits for it in another thread says so with ``give_up``, and it is not asked again before
it has returned. What it answers then is dropped: ``GaveUp`` ends the question that nobody waits for any more.
The Brain's executor does the same for its algorithms, in processes of their own.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pliant.core.decoding import decode, plain
from pliant.core.errors import CorruptData
from pliant.core.planning.history import JobHistory
from pliant.core.planning.proposal import Algorithm, Proposal
from pliant.core.printable import escaped_line

MAX_MESSAGE = 500  # characters
MAX_TRACEBACK = 8000  # likewise: its end


class GaveUp(Exception):  # nobody waits for the answer: no error of anybody
    """An algorithm returned after it was given up."""


class GuardedAlgorithm:
    def __init__(self, name: str, algorithm: Algorithm) -> None:
        """``name``: by which it is in the chain, whatever it calls itself."""
        self.name = name
        self._algorithm = algorithm
        self._is_asked = False
        self._is_given_up = False
        self.failure = ""  # of the last question, for people; empty: it answered
        self.traceback = ""  # of the exception, for who wrote it

    def give_up(self, reason: str) -> None:
        """If it is being asked: nobody waits for the answer any more."""
        if self._is_asked and not self._is_given_up:
            self._is_given_up = True
            self.failure, self.traceback = reason, ""

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        if self._is_asked:
            return None  # stuck in an earlier question
        self._is_asked = True
        failure, trace, proposal = "", "", None
        try:
            proposal = _checked(self._algorithm(history, now))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the border of the algorithm
            failure, trace = _described(error), _traceback(error)
        finally:
            self._is_asked = False
        if self._is_given_up:
            self._is_given_up = False
            raise GaveUp
        self.failure, self.traceback = failure, trace
        return replace(proposal, algorithm=self.name) if proposal is not None else None


def guarded(algorithms: Sequence[Algorithm], names: Sequence[str]) -> list[GuardedAlgorithm]:
    return [GuardedAlgorithm(name, algorithm) for name, algorithm in zip(names, algorithms, strict=True)]


def own_name(algorithm: Algorithm) -> str:
    """What it calls itself; a name of its class if it does not."""
    name = getattr(algorithm, "name", None)
    return name if isinstance(name, str) and name else type(algorithm).__name__


def _checked(found: object) -> Proposal | None:
    """Types, and numbers that are finite; whether it makes sense for the job is found out later (``proposal_check.py``)."""
    if found is None:
        return None
    if not isinstance(found, Proposal):
        raise CorruptData(f"returned {type(found).__name__}, neither a Proposal nor None")
    decode(Proposal, plain(found), "proposal")
    return found


def _described(error: BaseException) -> str:
    """What was raised, and where."""
    if isinstance(error, CorruptData):
        return escaped_line(str(error))[:MAX_MESSAGE]
    text = type(error).__name__
    with suppress(Exception):  # its own methods may fail as well
        text = f"{text}: {' '.join(str(error)[:MAX_MESSAGE].split())}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return escaped_line(f"{text}{where}")


def _traceback(error: BaseException) -> str:
    with suppress(Exception):  # its own methods may fail as well
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-MAX_TRACEBACK:]
    return ""
