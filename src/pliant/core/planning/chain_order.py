"""In which order a chain of algorithms is asked, and when an answer is heard.

What is urgent comes before anything else: those that may have something urgent to say (``registry.URGENT``) are asked first, and
heard if it is. Then all are heard in the order of the chain. Nobody is asked twice: an answer that was not urgent is kept until
its algorithm's place in the chain. The planner and the Brain's executor share this, so that a chain means the same in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pliant.core.planning.proposal import Proposal
from pliant.core.planning.registry import URGENT


@dataclass(frozen=True, slots=True)
class Question:
    position: int  # in the chain: what was answered to an earlier question of the same position counts for this one
    algorithm: str
    is_for_urgent: bool  # only what is urgent is heard

    def hears(self, proposal: Proposal | None) -> bool:
        if proposal is None:
            return False
        return proposal.urgent if self.is_for_urgent else not (self.algorithm in URGENT and proposal.urgent)


def questions(names: Sequence[str], *, is_urgent_only: bool = False) -> Iterator[Question]:
    for position, name in enumerate(names):
        if name in URGENT:
            yield Question(position, name, True)
    for position, name in enumerate(() if is_urgent_only else names):
        yield Question(position, name, False)
