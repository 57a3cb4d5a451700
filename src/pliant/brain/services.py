"""The Brain's calls for masters and monitors (``brain.proto``); journals have a module of their own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from pliant.brain.callers import check_cluster, check_job
from pliant.brain.coordinator import Coordinator
from pliant.brain.report_writer import ReportWriter
from pliant.brain.store import cluster
from pliant.brain.store.database import Database
from pliant.core.errors import Conflict, InvalidRequest
from pliant.rpc import brain_pb2 as bp
from pliant.rpc import brain_pb2_grpc as services
from pliant.rpc.brain.identity import check_name
from pliant.rpc.brain.messages import brain_message, check_protocol, identity_from, report_from

log = logging.getLogger(__name__)

MAX_MACHINES = 20_000
MAX_NODES = 200_000
MAX_TERMS_AHEAD = 1_000_000  # of the database: more were never lost by restoring it, and terms are not endless
MAX_CLOCK_ERROR_S = 3600.0  # of a master or a monitor: what it says is not used beyond that


class PlanningServicer(services.PlanningServicer):
    def __init__(
        self,
        coordinator: Coordinator,
        writer: ReportWriter,
        term: Callable[[], int],
        clock: Callable[[], float],
        raise_term: Callable[[int], None],
    ) -> None:
        """``raise_term``: masters have heard of a higher one, so the database was restored."""
        self._coordinator, self._writer = coordinator, writer
        self._term, self._clock, self._raise_term = term, clock, raise_term

    async def Report(self, request: bp.ReportRequest, context: Any) -> bp.ReportReply:
        check_protocol(request.protocol)
        check_job(context, identity_from(request.job))
        report = report_from(request)
        if abs(report.time - self._clock()) > MAX_CLOCK_ERROR_S:
            raise InvalidRequest(
                f"the master's clock is wrong by {report.time - self._clock():.0f} s, or the Brain's is",
                hint="set the clocks of both machines",
            )
        if request.term > self._term() + MAX_TERMS_AHEAD:
            raise InvalidRequest(f"no Brain was ever in term {request.term}; this one is in term {self._term()}")
        if request.term > self._term():
            self._raise_term(request.term)
        answer = await self._writer.write(report)
        if answer.refused:
            raise Conflict(answer.refused)
        is_known = True
        if (answer.session, answer.sequence) == (report.session, report.sequence):
            is_known = await self._coordinator.reported(report)
        return bp.ReportReply(
            term=self._term(),
            session=answer.session,
            sequence=answer.sequence,
            wants_all=answer.wants_all or not is_known,
        )

    async def Follow(self, request: bp.FollowRequest, context: Any) -> AsyncIterator[bp.BrainMessage]:
        check_protocol(request.protocol)
        identity = identity_from(request.job)
        check_job(context, identity)
        async for message in self._coordinator.follow(identity):
            yield brain_message(message)


class ClustersServicer(services.ClustersServicer):
    def __init__(self, database: Database, term: Callable[[], int], clock: Callable[[], float]) -> None:
        self._database, self._term, self._clock = database, term, clock

    async def Observe(self, request: bp.ObserveRequest, context: Any) -> bp.ObserveReply:
        check_protocol(request.protocol)
        check_cluster(context)
        check_name(request.cluster, "cluster")
        if len(request.machines) > MAX_MACHINES or len(request.nodes) > MAX_NODES:
            raise InvalidRequest(f"{len(request.machines):,} machines and {len(request.nodes):,} nodes are too many")
        if abs(request.time - self._clock()) > MAX_CLOCK_ERROR_S:
            raise InvalidRequest(f"the monitor's clock is wrong by {request.time - self._clock():.0f} s")
        machines = [cluster.Machine(**_fields(machine)) for machine in request.machines]
        nodes = [cluster.ObservedNode(**_fields(node)) for node in request.nodes]
        await asyncio.to_thread(
            cluster.observe,
            self._database,
            request.cluster,
            machines,
            nodes,
            time=request.time,
            monitor=request.monitor,
            term=self._term(),
        )
        return bp.ObserveReply(term=self._term())


def _fields(message: Any) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}
