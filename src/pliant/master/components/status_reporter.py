"""Reports the job's status to the platform's control channel (on Kubernetes: the status of the ElasticJob) when it changed.

A channel that does not answer is no reason to stop training: what it missed is in the next report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pliant.core.errors import MasterUnavailable, PliantError
from pliant.core.job import Phase
from pliant.core.status import JobStatus
from pliant.master.components.base import BackgroundComponent
from pliant.platforms.base import ControlChannel

log = logging.getLogger(__name__)

REPORT_INTERVAL_S = 2.0  # between two reports, at the least
REPEAT_AFTER_S = 30.0  # after this even an unchanged status is sent, should somebody have overwritten it


class StatusReporter(BackgroundComponent):
    name = "status"
    title = "status reporter"

    def __init__(
        self, channel: ControlChannel, read_status: Callable[[], JobStatus], *, journal_can_be_lost: bool = False
    ) -> None:
        """``journal_can_be_lost``: and a successor may take over living nodes."""
        super().__init__()
        self._journal_can_be_lost = journal_can_be_lost
        self._published: set[str] = set()  # datasets that the platform surely knows of
        self._channel = channel
        self._read_status = read_status
        self._sending = asyncio.Lock()
        self._finished = False

    async def start(self) -> None:
        self.run_beside(self.run())

    async def run(self) -> None:
        """Until the final report."""
        sent, sent_at = None, 0.0
        loop = asyncio.get_running_loop()
        while True:
            status = _without_the_end(self._read_status())
            headline = _headline(status)
            async with self._sending:
                if self._finished:
                    return
                if headline != sent or loop.time() - sent_at > REPEAT_AFTER_S:
                    try:
                        await self._channel.report(status)
                        sent, sent_at = headline, loop.time()
                    except PliantError as error:
                        log.warning("cannot report the job's status: %s", error)
            await asyncio.sleep(REPORT_INTERVAL_S)

    async def publish_datasets(self) -> None:
        """Until the platform knows which datasets the journal keeps account of: that is what the operator decides by, should
        the journal be lost (``core/takeover.py``). Nothing is to do where it cannot be."""
        if not self._journal_can_be_lost:
            return
        async with self._sending:
            status = _without_the_end(self._read_status())
            names = set(status.journaled_datasets)
            if names <= self._published or self._finished:
                return
            try:
                await self._channel.report(status)
            except PliantError as error:
                raise MasterUnavailable(f"the platform did not record the dataset: {error.message}") from error
            self._published = names

    async def finish(self, summary: Mapping[str, Any]) -> None:
        """The final report: no other comes after it."""
        async with self._sending:
            self._finished = True
            await self._channel.finish(self._read_status(), summary)


def _without_the_end(status: JobStatus) -> JobStatus:
    """A job that is over counts as running until its nodes are gone. Its end is reported with its summary
    (``ControlChannel.finish``): whoever sees the end looks for that, and no master is started again for an ended job."""
    return replace(status, phase=Phase.RUNNING, ended_at=0.0) if status.phase.is_final else status


def _headline(status: JobStatus) -> tuple[object, ...]:
    """What a new report is worth sending for."""
    eta = round(status.eta, -1) if status.eta is not None else None
    times = (status.started_at, status.suspended_at, status.ended_at)
    shown = (status.phase, status.message, status.conditions, status.roles, status.journaled_datasets)
    return (*shown, status.progress, status.checkpoints, eta, status.goodput, times)
