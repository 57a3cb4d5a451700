"""How the parameters of a job are trained and dumped: fixed when the job starts (``spec/parameters.py`` makes them)."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.errors import InvalidRequest
from pliant.core.parameters.contributions import MAX_WINDOW
from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS


@dataclass(frozen=True, slots=True)
class PsOptions:
    sync: bool = True
    batch: int = 1  # sync: examples of one iteration
    alpha: float = 0.0  # async: the learning rate is scaled by 1 / (1 + staleness) ** alpha
    max_staleness: int = 0  # async: a push that is staler is refused; 0: no limit
    window: int = 1  # async: undecided pushes of one worker; 1: it waits for each decision
    durable_log: bool = False  # a push is on disk before its server answers; else in the page cache
    max_iterations: int = 0  # training is over after this many, and no push is accepted; 0: no limit
    dump_iterations: int = 0  # between two dumps; 0: not by iterations
    dump_seconds: float = 60.0  # between two dumps; 0: not by time
    full_every: int = 10  # one dump of this many is full, the others are incremental
    keep: int = 2  # full dumps, each with its increments
    partitions: int = DEFAULT_PARTITIONS
    max_orders: int = 5000  # without a dump; then one is due, since the log is kept until a dump is complete

    def check(self) -> None:
        facts = {
            "batch": self.batch >= 1,
            "alpha": 0 <= self.alpha <= 100,
            "max_staleness": self.max_staleness >= 0,
            "window": 1 <= self.window <= MAX_WINDOW,
            "max_iterations": self.max_iterations >= 0,
            "dump_iterations": self.dump_iterations >= 0,
            "dump_seconds": 0 <= self.dump_seconds < float("inf"),
            "full_every": self.full_every >= 1,
            "keep": self.keep >= 1,
            "max_orders": self.max_orders >= 1,
        }
        if wrong := [f"{name} = {getattr(self, name)!r}" for name, holds in facts.items() if not holds]:
            raise InvalidRequest(f"invalid options of parameter servers: {', '.join(wrong)}")
