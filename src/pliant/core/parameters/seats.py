"""Seats: the numbered slots of parameter servers, who holds each, and with which fencing token.

A seat outlives the server that holds it, and keeps its parameters while it is vacant. Each time a server takes a seat it gets
a fencing token higher than any before, over all seats: whatever a former holder still says or has is recognised by its token
and refused.

``Seats`` is a part of ``core/parameters/book.py``. ``core/parameters/partition_map.py`` says which parameters a seat has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pliant.core.errors import Conflict, InvalidRequest, NotFound, SessionExpired


@dataclass(frozen=True, slots=True)
class Seat:
    number: int
    node: str = ""  # empty: vacant
    incarnation: int = 0
    fencing_token: int = 0  # 0: no process holds it now
    address: str = ""  # empty: not ready to serve
    weight: float = 1.0  # its share of the parameters, relative to the others'
    active: bool = False  # it was ready once, or has parameters from the start
    leaving: bool = False  # it is removed as soon as it is empty


class Seats:
    """``version`` rises with every change. ``unbalanced``: weights changed, so parameters may have to move."""

    def __init__(self, count: int) -> None:
        self._seats = {number: Seat(number, active=True) for number in range(count)}
        self._next_number = count  # numbers are never reused
        self._last_token = 0
        self.version = 1
        self.unbalanced = False

    def __iter__(self) -> Iterator[Seat]:
        return iter(self._seats.values())

    def get(self, number: int) -> Seat:
        seat = self._seats.get(number)
        if seat is None:
            raise NotFound(f"seat {number} does not exist", hint=f"seats: {', '.join(map(str, self._seats))}")
        return seat

    def of_node(self, node: str) -> Seat:
        found = next((seat for seat in self if seat.node == node), None)
        if found is None:
            held = ", ".join(seat.node for seat in self if seat.node) or "none"
            raise NotFound(f"{node!r} does not hold a parameter server seat", hint=f"holders: {held}")
        return found

    def holder(self, number: int, fencing_token: int) -> Seat:
        """The seat, if this token is its current one."""
        seat = self._seats.get(number)
        if seat is None or not seat.node or seat.fencing_token != fencing_token:
            raise SessionExpired(f"this server does not (or no longer) hold seat {number}", hint="join again, or exit")
        return seat

    def stale_holder(self, holders: Sequence[Sequence[int]]) -> int | None:
        """The first of these (seat, fencing token) pairs whose token is not current."""
        for number, fencing_token in holders:
            seat = self._seats.get(number)
            if seat is None or seat.fencing_token != fencing_token:
                return number
        return None

    def weights(self) -> dict[int, float]:
        return {seat.number: seat.weight for seat in self if seat.active}

    # --- holders

    def join(self, node: str, incarnation: int) -> Seat | None:
        """The seat that the node had, else a vacant one, with a new fencing token. None: there is none."""
        if not node:
            raise InvalidRequest("a parameter server must send its node name")
        own = next((seat for seat in self if seat.node == node), None)
        if own is not None and incarnation < own.incarnation:
            raise Conflict(
                f"run {incarnation} of {node} was superseded by run {own.incarnation}; this program should exit"
            )
        seat = own or next((seat for seat in self if not seat.node), None)
        if seat is None:
            return None
        self._last_token += 1
        return self._put(replace(seat, node=node, incarnation=incarnation, fencing_token=self._last_token, address=""))

    def ready(self, number: int, fencing_token: int, address: str) -> Seat:
        seat = self.holder(number, fencing_token)
        if not seat.active:
            self.unbalanced = True
        return self._put(replace(seat, address=address, active=True))

    def lost(self, node: str, *, for_good: bool) -> list[int]:
        """The holder ended; ``for_good``: another may take the seat. Returns the seats that nobody serves now."""
        lost = [seat for seat in self if seat.node == node]
        for seat in lost:
            self._put(replace(seat, node="" if for_good else node, address="", fencing_token=0))
        return [seat.number for seat in lost]

    # --- how many, and which share each

    @property
    def were_held(self) -> bool:
        return self._last_token > 0

    def replace_all(self, count: int) -> list[int]:
        """While none was ever held: so many instead. Returns those that are gone."""
        if count < 1:
            raise InvalidRequest(f"{count} parameter servers requested; at least one is required")
        gone = [number for number in self._seats if number >= count]
        self._seats = {number: Seat(number, active=True) for number in range(count)}
        self._next_number = count
        self.version += 1
        return gone

    def resize(self, count: int, leaving: Collection[int] = ()) -> list[int]:
        """So many seats that stay: those in ``leaving`` do not, and of the others the newest leave, or vacant ones are added.
        Returns those that leave from now on."""
        if count < 1:
            raise InvalidRequest(f"{count} parameter servers requested; at least one is required")
        staying = [seat for seat in self if not seat.leaving and seat.number not in leaving]
        for _ in range(count - len(staying)):
            back = next((seat for seat in self if seat.leaving and seat.number not in leaving), None)
            if back is not None:  # not removed yet: it stays after all
                self._put(replace(back, leaving=False, weight=1.0))
                self.unbalanced = True
                continue
            self._put(Seat(self._next_number))
            self._next_number += 1
        surplus = sorted(staying, key=lambda seat: seat.number)[count:]
        surplus += [seat for seat in self if seat.number in leaving and not seat.leaving]
        for seat in surplus:
            self._put(replace(seat, leaving=True, weight=0.0))
            self.unbalanced = True
        return [seat.number for seat in surplus]

    def set_share(self, number: int, share: float, *, partitions: int, total: int) -> Seat:
        """Give this share of the seat's ``partitions`` (of ``total``) to the others, permanently."""
        seat = self.get(number)
        others = sum(other.weight for other in self if other.number != number and other.active)
        if not 0 < share <= 1:
            raise InvalidRequest(f"a share of {share}; allowed: more than 0, at most 1")
        if others <= 0:
            raise Conflict(f"seat {number} is the only one that holds parameters", hint="scale the role ps up first")
        kept = (1 - share) * partitions
        self.unbalanced = True
        return self._put(replace(seat, weight=others * kept / (total - kept)))

    def remove(self, number: int) -> None:
        del self._seats[number]
        self.version += 1

    def _put(self, seat: Seat) -> Seat:
        self._seats[seat.number] = seat
        self.version += 1
        return seat

    # --- as JSON

    def snapshot(self) -> dict[str, Any]:
        return {
            "seats": [asdict(seat) for seat in self],
            "next_number": self._next_number,
            "last_token": self._last_token,
            "version": self.version,
            "unbalanced": self.unbalanced,
        }

    @classmethod
    def from_snapshot(cls, state: Mapping[str, Any]) -> Seats:
        seats = cls(0)
        seats._seats = {seat["number"]: Seat(**seat) for seat in state["seats"]}
        seats._next_number, seats._last_token = state["next_number"], state["last_token"]
        seats.version, seats.unbalanced = state["version"], state["unbalanced"]
        return seats
