"""What ``core/ps_orders.py`` holds and decides: options, seats, orders, dumps and verdicts on contributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.ps_map import PARTITIONS

LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class PsOptions:
    """How parameters are trained and kept; fixed for a job."""

    sync: bool = True
    batch: int = 1  # examples of one iteration; sync
    alpha: float = 0.0  # async: the learning rate is scaled by 1 / (1 + staleness) ** alpha
    max_staleness: int = 0  # async: what is more stale is dropped; 0: nothing is
    max_iterations: int = 0  # then training is over, and no contribution is taken; 0: no limit
    dump_iterations: int = 0  # between two dumps; 0: not by iterations
    dump_seconds: float = 60.0  # between two dumps; 0: not by time
    full_every: int = 10  # dumps, of which one is full and the others hold what changed
    keep: int = 2  # chains of a full dump and its increments
    partitions: int = PARTITIONS
    most_orders: int = 5000  # without a dump; then one is due, since all of them are kept until it is complete

    def check(self) -> None:
        facts = {
            "batch": self.batch >= 1,
            "alpha": 0 <= self.alpha <= 100,
            "max_staleness": self.max_staleness >= 0,
            "max_iterations": self.max_iterations >= 0,
            "dump_iterations": self.dump_iterations >= 0,
            "dump_seconds": 0 <= self.dump_seconds < float("inf"),
            "full_every": self.full_every >= 1,
            "keep": self.keep >= 1,
            "most_orders": self.most_orders >= 1,
        }
        if wrong := [f"{name} = {getattr(self, name)!r}" for name, holds in facts.items() if not holds]:
            raise InvalidRequest(f"options of parameter servers that cannot be: {', '.join(wrong)}")


@dataclass(frozen=True, slots=True)
class Seat:
    number: int
    node: str = ""  # empty: vacant
    incarnation: int = 0
    tenure: int = 0  # which holding of a seat, over all seats; a later holder has a higher one
    address: str = ""  # empty: not ready to serve
    weight: float = 1.0  # its share of the parameters, beside the others'
    active: bool = False  # it was ready once, or has parameters from the start
    leaving: bool = False  # it goes as soon as it is empty


class Kind(StrEnum):
    DEFINE = "define"
    ASSIGN = "assign"
    APPLY = "apply"
    DISCARD = "discard"
    DUMP = "dump"
    MOVE = "move"
    NOTHING = "nothing"  # what an order that was called off becomes


@dataclass(frozen=True, slots=True)
class Part:
    """One contribution: what was staged as (session, sequence) on these seats, and its weight in the sum."""

    session: str
    sequence: int
    weight: float
    seats: tuple[int, ...]

    def to_json(self) -> list[Any]:
        return [self.session, self.sequence, self.weight, list(self.seats)]

    @classmethod
    def from_json(cls, value: list[Any]) -> Part:
        session, sequence, weight, seats = value
        return cls(session, sequence, weight, tuple(seats))


@dataclass(frozen=True, slots=True)
class Order:
    """What every parameter server does at this number. Fields that a kind does not use are empty."""

    number: int
    kind: Kind
    map_version: int  # after it
    iteration: int  # after it
    parts: tuple[Part, ...] = ()  # apply, assign
    scale: float = 1.0  # apply: of the learning rate
    factors: tuple[
        float, ...
    ] = ()  # apply: of the learning rate too, by group, as the job's schedule has it; empty: no schedule
    tables: tuple[Mapping[str, Any], ...] = ()  # define
    variables: tuple[Mapping[str, Any], ...] = ()  # define
    placed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # define: the seats of the variables' blocks
    names: tuple[str, ...] = ()  # assign: the variables that now have values
    session: str = ""  # discard
    full: bool = False  # dump
    since: int = -1  # dump: what changed after this iteration; -1: all
    seats: tuple[int, ...] = ()  # dump: who writes
    giver: int = -1  # move
    taker: int = -1  # move
    partitions: tuple[int, ...] = ()  # move
    blocks: tuple[tuple[str, int], ...] = ()  # move

    def to_json(self) -> dict[str, Any]:
        """Without what is empty: there are thousands of them."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        out = {name: value for name, value in plain.items() if value != _EMPTY[name]}
        out["parts"] = [part.to_json() for part in self.parts]
        if not self.parts:
            del out["parts"]
        out["kind"] = self.kind.value
        return out

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Order:
        given = dict(value)
        given["kind"] = Kind(given["kind"])
        given["parts"] = tuple(Part.from_json(part) for part in given.get("parts", ()))
        for name in ("factors", "tables", "variables", "names", "seats", "partitions"):
            given[name] = tuple(given.get(name, ()))
        given["placed"] = {name: tuple(seats) for name, seats in given.get("placed", {}).items()}
        given["blocks"] = tuple((name, at) for name, at in given.get("blocks", ()))
        return cls(**given)


_EMPTY: dict[str, Any] = {
    f.name: {} if f.name == "placed" else (f.default if f.name not in ("number", "kind", "map_version", "iteration") else None)
    for f in fields(Order)
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dump:
    """All parameters as they were after one order, in files of the seats that were there."""

    order: int
    iteration: int
    full: bool
    seats: tuple[int, ...]
    parameter_map: Mapping[str, Any]
    tables: tuple[Mapping[str, Any], ...]
    variables: tuple[Mapping[str, Any], ...]
    initialized: tuple[str, ...]
    begun: float = 0.0
    written: tuple[int, ...] = ()  # seats

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Dump:
        given = dict(value)
        for name in ("seats", "tables", "variables", "initialized", "written"):
            given[name] = tuple(given[name])
        return cls(**given)

    def with_written(self, seat: int) -> Dump:
        return self if seat in self.written else replace(self, written=(*self.written, seat))

    def waits_for(self, seat: int) -> bool:
        """The seat has its part still to write."""
        return seat in self.seats and seat not in self.written

    @property
    def complete(self) -> bool:
        return set(self.seats) <= set(self.written)


class Fate(StrEnum):
    """What becomes of a contribution."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"  # accepted before; this is the same answer again
    OVER = "over"  # the last iteration was reached before: nothing more is taken
    STALE = "stale"  # computed on a model that is too old: pull, compute again
    UNSCHEDULED = "unscheduled"  # the learning rate of the next update is not known yet: tell it, and contribute again
    MOVED = "moved"  # staged by a map that is no more, or on a server that was replaced: stage again


@dataclass(frozen=True, slots=True)
class Verdict:
    fate: Fate
    iteration: int  # the newest
    staleness: int
    reason: str
