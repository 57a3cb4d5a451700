"""What happened to a simulated job, as plain values that measures and reports are made of."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.proposal import Prediction

MAX_POINTS = 4000  # of the curve of a job; then every second one is dropped


@dataclass(frozen=True, slots=True)
class Point:
    """From this moment on."""

    time: float
    rate: float  # true records per second
    nodes: int


@dataclass(slots=True)
class PlanRecord:
    """A plan that was carried out, what it predicted, and what came."""

    time: float
    algorithm: str
    reason: str
    configuration: Configuration
    prediction: Prediction | None = None
    achieved: float | None = None  # the true rate with all of it in place, before the next change; None: it never was

    @classmethod
    def of(cls, plan: ResourcePlan, now: float, configuration: Configuration) -> PlanRecord:
        return cls(now, plan.algorithm, plan.reason, configuration, plan.prediction)

    def close(self, outcome: JobOutcome, now: float) -> None:
        """The mean over the second half of its time, as long as all nodes were there."""
        middle = (self.time + now) / 2
        rates = [
            (max(point.time, middle), end, point.rate)
            for point, end in outcome.stretches(now)
            if end > middle and point.rate > 0 and point.nodes == self.configuration.nodes
        ]
        seconds = sum(end - began for began, end, _ in rates)
        if seconds >= 15.0:
            self.achieved = sum((end - began) * rate for began, end, rate in rates) / seconds

    @property
    def error(self) -> float | None:
        """Relative."""
        if self.prediction is None or not self.prediction.rate or not self.achieved:
            return None
        return abs(self.prediction.rate - self.achieved) / self.achieved

    @property
    def is_covered(self) -> bool | None:
        if self.prediction is None or not self.prediction.rate or not self.achieved:
            return None
        return self.prediction.low <= self.achieved <= self.prediction.high

    def to_json(self) -> dict[str, Any]:
        return {
            "time": self.time,
            "algorithm": self.algorithm,
            "reason": self.reason,
            "configuration": self.configuration.to_json(),
            "predicted": self.prediction.rate if self.prediction else None,
            "low": self.prediction.low if self.prediction else None,
            "high": self.prediction.high if self.prediction else None,
            "achieved": self.achieved,
        }


@dataclass(slots=True)
class JobOutcome:
    name: str
    policy: str
    arrival: float
    records: int
    first: Configuration | None = None
    ended: float | None = None  # None: it still ran when the simulation ended
    failure: str = ""
    records_done: float = 0.0
    node_seconds: float = 0.0
    core_seconds: float = 0.0
    memory_mb_seconds: float = 0.0
    ooms: int = 0
    refused: int = 0  # plans
    out_of_bounds: int = 0  # plans that left the bounds; none should
    plans: list[PlanRecord] = field(default_factory=list)
    curve: list[Point] = field(default_factory=list)

    @property
    def succeeded(self) -> bool:
        return self.ended is not None and not self.failure

    @property
    def completion_s(self) -> float | None:
        return self.ended - self.arrival if self.ended is not None and self.succeeded else None

    def add_point(self, time: float, rate: float, nodes: int) -> None:
        if self.curve and self.curve[-1].time == time:
            self.curve.pop()
        self.curve.append(Point(time, rate, nodes))
        if len(self.curve) > MAX_POINTS:
            del self.curve[1:-1:2]

    def stretches(self, until: float) -> list[tuple[Point, float]]:
        """Each point with the moment of the next one."""
        ends = [point.time for point in self.curve[1:]] + [until]
        return list(zip(self.curve, ends, strict=True)) if self.curve else []

    def reached(self, rate: float) -> float | None:
        """Seconds from the arrival until it is this fast for the first time, for a minute or to its end; None: never."""
        since: float | None = None
        for point, following in itertools.zip_longest(self.curve, self.curve[1:]):
            if point.rate >= rate:
                since = point.time if since is None else since
                if following is None or following.time - since >= 60.0:
                    return since - self.arrival
            elif point.rate > 0:
                since = None
        return since - self.arrival if since is not None else None
