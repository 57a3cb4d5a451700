"""The replicated log: one numbered sequence of orders that every parameter server executes in number order.

``OrderLog`` holds the orders after the newest complete dump. A server that restarts loads that dump and executes them again
(``ps/recovery/order_executor.py``). It is a part of ``core/parameters/book.py``, which decides what is appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from pliant.core.errors import SessionExpired
from pliant.core.parameters.definitions import Definition


class OrderKind(StrEnum):
    DEFINE = "define"
    ASSIGN = "assign"
    APPLY = "apply"
    DISCARD = "discard"
    DUMP = "dump"
    MOVE = "move"
    NOTHING = "nothing"  # what a cancelled order becomes


class Contribution(NamedTuple):
    """One worker's push as an order names it: staged as (session, sequence) on these seats, with its weight in the sum."""

    session: str
    sequence: int
    weight: float
    seats: tuple[int, ...] = ()

    def to_json(self) -> list[Any]:
        return [self.session, self.sequence, self.weight, list(self.seats)]

    @classmethod
    def from_json(cls, value: list[Any]) -> Contribution:
        session, sequence, weight, seats = value
        return cls(session, sequence, weight, tuple(seats))


_NO_PLACEMENT: Mapping[str, tuple[int, ...]] = MappingProxyType({})


class Order(NamedTuple):  # made by the thousand a second: a frozen dataclass of as many fields takes five times as long
    """What every parameter server does at this number. Fields that a kind does not use are empty."""

    number: int
    kind: OrderKind
    map_version: int  # after it
    iteration: int  # after it
    contributions: tuple[Contribution, ...] = ()  # apply, assign
    scale: float = 1.0  # apply: of the learning rate
    factors: tuple[float, ...] = ()  # apply: of the learning rate by group, by the job's schedule; empty: no schedule
    tables: tuple[Definition, ...] = ()  # define
    variables: tuple[Definition, ...] = ()  # define
    placement: Mapping[str, tuple[int, ...]] = _NO_PLACEMENT  # define: the seats of the variables' blocks
    names: tuple[str, ...] = ()  # assign: the variables that get their first values
    session: str = ""  # discard
    full: bool = False  # dump
    since: int = -1  # dump: what changed after this iteration; -1: everything
    seats: tuple[int, ...] = ()  # dump: those that write
    source: int = -1  # move
    target: int = -1  # move
    partitions: tuple[int, ...] = ()  # move
    blocks: tuple[tuple[str, int], ...] = ()  # move

    def to_json(self) -> dict[str, Any]:
        """Without empty fields: there are thousands of orders in a snapshot."""
        out = {
            name: value
            for name, value in zip(self._fields, self, strict=True)
            if name in _REQUIRED or value != _DEFAULTS[name]
        }
        if self.contributions:
            out["contributions"] = [contribution.to_json() for contribution in self.contributions]
        out["kind"] = self.kind.value
        return out

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Order:
        given = dict(value)
        given["kind"] = OrderKind(given["kind"])
        given["contributions"] = tuple(Contribution.from_json(one) for one in given.get("contributions", ()))
        for name in ("factors", "tables", "variables", "names", "seats", "partitions"):
            given[name] = tuple(given.get(name, ()))
        given["placement"] = {name: tuple(seats) for name, seats in given.get("placement", {}).items()}
        given["blocks"] = tuple((name, at) for name, at in given.get("blocks", ()))
        return cls(**given)


_REQUIRED = frozenset({"number", "kind", "map_version", "iteration"})
_DEFAULTS = Order._field_defaults


class OrderLog:
    """Orders ``base`` + 1 up to ``last``, without gaps."""

    def __init__(self) -> None:
        self._base = 0
        self._orders: list[Order] = []
        self._plain: list[dict[str, Any]] = []  # the first of them as JSON, since each is in many snapshots

    def __len__(self) -> int:
        return len(self._orders)

    def __iter__(self) -> Iterator[Order]:
        return iter(self._orders)

    @property
    def last(self) -> int:
        return self._base + len(self._orders)

    def append(self, order: Order) -> Order:
        assert order.number == self.last + 1, f"order {order.number} after {self.last}"
        self._orders.append(order)
        return order

    def after(self, number: int, limit: int) -> list[Order]:
        if number < self._base:
            raise SessionExpired(f"orders up to {self._base} are only in a dump; restore it", hint="join again")
        first = number - self._base
        return self._orders[first : first + limit]

    def truncate(self, base: int) -> None:
        """A dump holds the effect of all orders up to this one."""
        self._orders = self._orders[base - self._base :]
        self._plain = self._plain[base - self._base :]
        self._base = base

    def cancel(self, number: int) -> None:
        """Servers that have not executed it yet will do nothing."""
        at = number - self._base - 1
        self._orders[at] = self._orders[at]._replace(kind=OrderKind.NOTHING, seats=())
        del self._plain[at:]

    # --- as JSON

    def snapshot(self) -> dict[str, Any]:
        self._plain += [order.to_json() for order in self._orders[len(self._plain) :]]
        return {"base": self._base, "orders": self._plain.copy()}

    @classmethod
    def from_snapshot(cls, state: Mapping[str, Any]) -> OrderLog:
        log = cls()
        log._base = state["base"]
        log._orders = [Order.from_json(order) for order in state["orders"]]
        return log
