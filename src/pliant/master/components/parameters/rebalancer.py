"""Moves parameters between seats while training continues, one move at a time, and removes seats that leave once they are empty.

``core/parameters/partition_map.py`` says what to move next. A move is ordered only when the one before it has arrived and both
servers are there.
"""

from __future__ import annotations

import logging

from pliant.core.events import SeatRetired
from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.orders import OrderKind
from pliant.master.components.parameters.changes import ChangeSignal
from pliant.master.components.parameters.dumps import DumpCoordinator
from pliant.master.components.parameters.observations import ServerObservations
from pliant.master.components.signals import SeatVacated, SignalBus
from pliant.master.journal.journal import Journal

log = logging.getLogger(__name__)

_ALL = 1 << 62


class Rebalancer:
    """``moves`` counts those that were ordered since this master started."""

    def __init__(
        self,
        book: ParameterBook,
        journal: Journal,
        signals: SignalBus,
        observations: ServerObservations,
        dumps: DumpCoordinator,
        changes: ChangeSignal,
    ) -> None:
        self._book = book
        self._journal = journal
        self._signals = signals
        self._observations = observations
        self._dumps = dumps
        self._changes = changes
        self.moves = 0

    def rebalance(self) -> None:
        """Order the next move, if one is due and the one before has arrived."""
        book = self._book
        if not book.unbalanced or book.pending or not self._last_move_arrived():
            return
        move = book.next_move()
        if move is None:
            self._journal.do(book.mark_balanced)
            return
        if not all(book.seat(number).address for number in (move.source, move.target)):
            return  # it would only wait for the server that is being replaced
        self.moves += 1
        self._journal.do(
            book.move,
            source=move.source,
            target=move.target,
            partitions=list(move.partitions),
            blocks=[list(block) for block in move.blocks],
            reason=move.reason,
        )
        log.info("moving %d partitions and %d blocks: %s", len(move.partitions), len(move.blocks), move.reason)
        self._changes.notify()

    def retire_empty(self) -> None:
        """Remove seats that leave and are empty; the nodes of servers may go then (``SeatVacated``)."""
        book = self._book
        empty = book.empty_seats()
        for seat in empty if empty and self._last_move_arrived() else ():
            dump = book.open_dump
            waits = dump is not None and dump.waits_for(seat.number)
            if waits and seat.address:
                continue  # it writes its part first
            self._journal.do(book.retire, seat=seat.number)
            if dump is not None and waits:
                reason = f"seat {seat.number} was removed before it wrote its part"
                self._dumps.cancelled(dump.order, reason, seat.node)
            self._journal.event(SeatRetired(node=seat.node, seat=seat.number))
            self._observations.retired(seat.number)
            self._signals.publish(SeatVacated(seat.node, seat.number))
            self._changes.notify()

    def _last_move_arrived(self) -> bool:
        orders = self._book.orders(self._book.base.order, _ALL)
        last = next((order.number for order in reversed(orders) if order.kind is OrderKind.MOVE), 0)
        return all(self._observations.executed(seat.number) >= last for seat in self._book.seats() if seat.active)
