"""What an execution of a chain of algorithms returns: a proposal, and what became of every algorithm that was asked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from pliant.core.planning.proposal import Proposal


class RunResult(StrEnum):
    PROPOSED = "proposed"
    NOTHING = "nothing"  # to change, as far as it can see
    RAISED = "raised"  # an exception; also one while it was imported or made
    TIMED_OUT = "timed-out"
    OUT_OF_MEMORY = "out-of-memory"
    DIED = "died"  # and its process with it
    UNSOUND = "unsound"  # what it returned makes no sense

    @property
    def is_failure(self) -> bool:
        return self not in (RunResult.PROPOSED, RunResult.NOTHING)


@dataclass(frozen=True, slots=True)
class AlgorithmRun:
    algorithm: str
    seconds: float
    result: RunResult
    message: str = ""  # of a failure, for people
    traceback: str = ""  # of an exception, for who wrote the algorithm

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SetAside:
    """An algorithm that failed too often and is not asked for a while."""

    algorithm: str
    seconds: float  # that are left
    reason: str  # for people: how it failed last

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Execution:
    proposal: (
        Proposal | None
    )  # the first that is sound; its ``algorithm`` is the name that was asked, whatever it called itself
    runs: tuple[AlgorithmRun, ...] = ()  # in the order in which they were asked
    set_aside: tuple[SetAside, ...] = ()  # those of the chain that were not asked because of it

    def to_json(self) -> dict[str, Any]:
        return {
            "proposal": self.proposal.to_json() if self.proposal is not None else None,
            "runs": [run.to_json() for run in self.runs],
            "set_aside": [each.to_json() for each in self.set_aside],
        }
