"""Keeps in the journal how the memory of nodes grew, so that a restarted master still forecasts it.

Samples arrive each second and stay in memory (``stats``); every ``NOTE_INTERVAL_S``, and when the job ends, what is new of living
nodes becomes one operation of ``core.planning.usage_book.UsageBook``. If nothing is, nothing is written.
"""

from __future__ import annotations

import math

from pliant.core.clock import Clock
from pliant.core.nodes.book import NodeBook
from pliant.core.planning.usage_book import UsageBook
from pliant.master.components.base import Component
from pliant.master.components.signals import JobOver, Signal
from pliant.master.components.stats import MemoryStats
from pliant.master.journal.journal import Journal

NOTE_INTERVAL_S = 30.0


class UsageRecorder(Component):
    name = "usage"
    title = "usage recorder"
    enabled_by = "a job that plans its own resources"

    def __init__(self, book: UsageBook, nodes: NodeBook, stats: MemoryStats, journal: Journal, clock: Clock) -> None:
        self._book = book
        self._nodes = nodes
        self._stats = stats
        self._journal = journal
        self._clock = clock
        self._noted_at = -math.inf

    async def tick(self) -> None:
        if self._clock.now() - self._noted_at >= NOTE_INTERVAL_S:
            self._note()

    def on_event(self, signal: Signal) -> None:
        if isinstance(signal, JobOver):
            self._note()

    def _note(self) -> None:
        self._noted_at = self._clock.now()
        living = {node.name for node in self._nodes.nodes() if not node.ended}
        records = self._stats.accepted_records()
        memory = {
            name: [round(held, 1), round(peak, 1)]
            for name in sorted(living)
            if (found := self._stats.memory_of(name)) is not None and self._book.has_news(name, records, found[1])
            for held, peak in (found,)
        }
        gone = sorted(self._book.nodes() - living)
        if memory or gone:
            self._journal.do(self._book.note, records=records, memory=memory, gone=gone)
