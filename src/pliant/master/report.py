"""How the job is doing, told to the platform's desk (on Kubernetes: the status of the ElasticJob) when it changed.

A desk that does not answer is no reason to stop training: what it missed is in the next report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pliant.core.errors import PliantError
from pliant.core.job import Phase
from pliant.core.node_states import NodeState
from pliant.master.components import SERVICE_ROLES, Components
from pliant.platforms.base import Desk, JobReport, RoleReport

log = logging.getLogger(__name__)

EVERY = 2.0  # seconds between two reports, at the least
AGAIN = 30.0  # seconds after which even an unchanged report is sent, should somebody have overwritten it


class Reporter:
    def __init__(self, parts: Components, desk: Desk, refusal: Callable[[], str]) -> None:
        """``refusal``: why the last wish was refused, to be told where people look."""
        self._parts = parts
        self._desk = desk
        self._refusal = refusal
        self._had = self._wanted = 0.0  # seconds of workers: that ran, that should have
        self._measured_at: float | None = None
        self._suspended_at = 0.0
        self._telling = asyncio.Lock()
        self._finished = False

    async def run(self) -> None:
        """Until the last word."""
        sent, sent_at = None, 0.0
        loop = asyncio.get_running_loop()
        while True:
            report = self._before_the_end(self.report())
            told = replace(report, eta=round(report.eta, -1) if report.eta is not None else None)
            async with self._telling:
                if self._finished:
                    return
                if told != sent or loop.time() - sent_at > AGAIN:
                    try:
                        await self._desk.report(report)
                        sent, sent_at = told, loop.time()
                    except PliantError as error:
                        log.warning("the report does not arrive: %s", error)
            await asyncio.sleep(EVERY)

    async def finish(self, summary: Mapping[str, Any]) -> None:
        """The last word: no other report comes after it."""
        async with self._telling:
            self._finished = True
            await self._desk.finish(self.report(), summary)

    def _before_the_end(self, report: JobReport) -> JobReport:
        """Of a job that is over: it runs until its nodes are gone. Its end is told once its summary is there (``Desk.finish``), for
        whoever sees the end looks for that, and no master is started again for a job that has ended."""
        return replace(report, phase=Phase.RUNNING.value, ended_at=0.0) if self._parts.job.over else report

    def report(self) -> JobReport:
        parts, job = self._parts, self._parts.job
        roles = self._roles()
        self._measure(roles)
        known = parts.shards.book.queues() if parts.shards is not None else []
        queues = [queue for queue in known if not queue.never_wanted]
        total = sum(queue.records_per_epoch * queue.spec.epochs for queue in queues)
        done = sum(queue.finished_records for queue in queues)
        speed = parts.stats.records_per_second()
        return JobReport(
            phase=self._phase(roles),
            message=self._ending() if job.over else self._refusal() or self._no_room(),
            roles=roles,
            records=done,
            total=total,
            step=parts.stats.global_step,
            epoch=max((queue.epochs_done for queue in queues), default=0),
            eta=(total - done) / speed if speed and total > done and not job.over else None,
            goodput=round(100 * self._had / self._wanted, 1) if self._wanted else None,
            started_at=job.started_at,
            suspended_at=self._suspended_at,
            ended_at=job.ended_at,
        )

    def _roles(self) -> dict[str, RoleReport]:
        if self._parts.nodes is None:
            return {}
        book, found = self._parts.nodes.book, {}
        for name in book.roles():
            counts, state = book.counts(name), book.role(name)
            pending = counts[NodeState.PENDING] + counts[NodeState.CREATING]
            found[name] = RoleReport(
                state.spec.replicas, counts[NodeState.RUNNING], pending, state.succeeded, counts[NodeState.FAILED]
            )
        return found

    def _measure(self, roles: dict[str, RoleReport]) -> None:
        now, before = self._parts.clock.now(), self._measured_at
        self._measured_at = now
        if before is None or self._parts.job.over or self._parts.nodes is None or self._parts.nodes.book.suspended:
            return
        for name, role in roles.items():
            if name not in SERVICE_ROLES:
                wanted = max(0, role.wanted - role.succeeded)
                self._wanted += (now - before) * wanted
                self._had += (now - before) * min(role.ready, wanted)

    def _phase(self, roles: dict[str, RoleReport]) -> str:
        nodes = self._parts.nodes
        if self._parts.job.over or nodes is None or not nodes.book.suspended:
            self._suspended_at = 0.0
            return self._parts.job.phase.value
        if any(role.ready or role.pending for role in roles.values()):
            return "Suspending"
        self._suspended_at = self._suspended_at or self._parts.clock.now()
        return "Suspended"

    def _ending(self) -> str:
        """Why it is over; of a failure also the last words of the node that it is for."""
        reason, nodes = self._parts.job.reason, self._parts.nodes
        failure = nodes.book.failure if nodes is not None else None
        if nodes is None or failure is None:
            return reason
        return f"{reason}: {nodes.book.get(failure.node).message}"

    def _no_room(self) -> str:
        if self._parts.nodes is None:
            return ""
        waiting = [node for node in self._parts.nodes.book.live() if node.waiting_since is not None]
        return f"{len(waiting)} nodes wait for room: {waiting[0].message}" if waiting else ""
