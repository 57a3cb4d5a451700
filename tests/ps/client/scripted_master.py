"""A master that answers batches of contributions as a test says."""

from __future__ import annotations

import threading

from tests.ps.server_cluster import ServerCluster

from pliant.core.parameters.contributions import PushDecision, PushOutcome, PushWithRecords
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.contributions import batch_from_message, batch_reply
from pliant.testing.waiting import MAX_WAIT_S


class Master:
    """Answers batches when it may, with these outcomes one after the other."""

    def __init__(self, cluster: ServerCluster) -> None:
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.outcomes: list[PushOutcome] = []
        self.batches: list[list[int]] = []
        self.asked = threading.Event()
        self.error: Exception | None = None
        self.records: list[int] = []  # that were accepted, after each contribution
        cluster.master.stubs.parameters.ContributeBatch = self._contribute

    def _contribute(self, request: pb.ContributeBatchRequest) -> pb.ContributeBatchReply:
        self.batches.append(list(request.sequences))
        self.asked.set()
        assert self.may_answer.wait(MAX_WAIT_S)
        if self.error is not None:
            raise self.error
        decided = [self._decide(one) for one in batch_from_message(request)]
        return batch_reply([PushDecision(one, 0) for one in decided], 0)

    def _decide(self, one: PushWithRecords) -> PushOutcome:
        """A gap of records is refused, as by the real one."""
        outcome = self.outcomes.pop(0) if self.outcomes else PushOutcome.ACCEPTED
        if outcome is PushOutcome.ACCEPTED and one.progress:
            ((_, records),), ((_, after),) = one.progress, one.after
            if after != (self.records[-1] if self.records else 0):
                return PushOutcome.GAP
            self.records.append(records)
        return outcome
