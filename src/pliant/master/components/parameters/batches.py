"""A batch of contributions of one session, decided one after the other and journaled as a whole.

Each is decided on the state that those before it lead to: both books are asked, and the parameter book is changed at once. What
that comes to is journaled afterwards by the caller, before anything else happens: all contributions as one operation, and their
records as one acknowledgement. So a batch costs the journal what a single one does.

``core.parameters.book.ParameterBook`` and ``core.shards.book.ShardBook`` decide; ``coordinator`` makes a batch and journals it.
"""

from __future__ import annotations

from typing import Any

from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.contributions import PushDecision, PushOutcome, PushRequest, PushWithRecords
from pliant.core.shards.book import ShardBook


class ContributionBatch:
    def __init__(self, parameters: ParameterBook, shards: ShardBook, session: str) -> None:
        self._parameters = parameters
        self._shards = shards
        self._session = session
        self._held: dict[int, tuple[int, int]] = {}  # by lease: ``ShardBook.held_records``
        self._place: tuple[Any, ...] = ()  # where the last one that was accepted was staged
        self.pushes: list[
            list[int]
        ] = []  # what was accepted, with ``staged`` as ``ParameterBook.contribute_batch`` has it
        self.staged: list[list[Any]] = []
        self.progress: dict[int, int] = {}  # by lease: how many of its records are accepted with these
        self.refused: list[PushOutcome] = []

    def decide(self, one: PushWithRecords) -> PushDecision:
        """A gradient and the records that it was computed from are accepted together, or neither is."""
        push = one.push
        decision = self._parameters.decide(
            session=push.session,
            sequence=push.sequence,
            based_on=push.based_on,
            examples=push.examples,
            holders=push.holders,
            map_version=push.map_version,
        )
        if decision.outcome is PushOutcome.ACCEPTED and one.progress:
            decision = self._decide_records(one, decision)
        if decision.outcome is not PushOutcome.ACCEPTED:
            self.refused.append(decision.outcome)
            return decision
        seats = tuple(seat for seat, _ in push.holders)
        decision = self._parameters.accept(
            decision, session=push.session, sequence=push.sequence, examples=push.examples, seats=seats
        )
        self._note(push)
        for lease, records in one.progress:
            self.progress[lease] = max(records, self.progress.get(lease, 0))
        return decision

    def _decide_records(self, one: PushWithRecords, decision: PushDecision) -> PushDecision:
        if not self._are_next(one):
            lost = self._shards.unreportable(self._session, one.progress)
            lost += [lease for lease, records in one.progress if records <= self.progress.get(lease, 0)]
            if lost:
                reason = "a shard of its records was leased to another worker"
                return PushDecision(PushOutcome.LOST, decision.iteration, reason=reason, lost_leases=tuple(lost))
        accepted = {lease: self._accepted(lease) for lease, _ in one.after}
        if lost := [lease for lease, records in one.after if accepted[lease] > records]:
            reason = "some of its records were accepted before, with others"
            return PushDecision(PushOutcome.LOST, decision.iteration, reason=reason, lost_leases=tuple(lost))
        if any(accepted[lease] < records for lease, records in one.after):
            reason = "records of its shard that come before its own are not accepted"
            return PushDecision(PushOutcome.GAP, decision.iteration, decision.staleness, reason)
        return decision

    def _are_next(self, one: PushWithRecords) -> bool:
        """Whether it is plain that they can be accepted: of almost all contributions it is."""
        if len(one.progress) != 1:
            return False
        ((lease, records),) = one.progress
        return self._accepted(lease) < records <= self._held[lease][1]

    def _accepted(self, lease: int) -> int:
        held = self._held.get(lease)
        if held is None:
            held = self._held[lease] = self._shards.held_records(self._session, lease)
        return self.progress.get(lease) or held[0]

    def _note(self, push: PushRequest) -> None:
        place = (push.holders, push.map_version)
        if place != self._place:
            self._place = place
            self.staged.append([[list(holder) for holder in push.holders], push.map_version])
        self.pushes.append([push.sequence, push.based_on, push.examples, len(self.staged) - 1])
