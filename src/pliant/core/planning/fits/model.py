"""What a model of speed knows about a kind of job: which features of a configuration the time of a step is made of.

``ps.py``, ``allreduce.py`` and ``queue.py`` are the models; ``smooth_max.py`` finds the coefficients, ``fit.py`` predicts by them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

from pliant.core.planning.configuration import Configuration


@dataclass(frozen=True, slots=True)
class Term:
    name: str  # for people: where the time goes
    is_shared: bool  # with other workers: it does not get less by more of them
    penalty: float = 0.0  # the larger, the later the time is put down to it where the data do not decide: optimism


COMPUTE = "compute of workers"  # the name of that term in every model: it is measured by itself, too


@dataclass(frozen=True, slots=True)
class Speedup:
    """By how much a worker computes faster with more cores, as far as that was measured: points of (cores, speed), of a program
    that uses few of them, or has serial parts. In between it is interpolated, beyond it goes on as between the last two."""

    points: tuple[tuple[float, float], ...] = ()  # by cores; empty: nothing was measured
    usual: float = 1.0  # percent more speed by a percent more cores, if nothing says how much it is

    def of(self, cpu: float) -> float:
        """A node without a limit counts as one core, whatever it is: the coefficient takes care of that."""
        at = log(cpu or 1.0)
        points = [(log(cores), log(speed)) for cores, speed in self.points] or [(0.0, 0.0)]
        below, above = points[0], points[-1]
        slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairwise(points)] or [self.usual]
        if at >= above[0]:
            return exp(above[1] + slopes[-1] * (at - above[0]))
        if at <= below[0]:
            return exp(below[1] + max(slopes[0], self.usual) * (at - below[0]))
        index = next(i for i, point in enumerate(points) if point[0] > at)
        return exp(points[index - 1][1] + slopes[index - 1] * (at - points[index - 1][0]))


PROPORTIONAL = Speedup()


class SpeedModel(ABC):
    terms: tuple[Term, ...]
    speedup: Speedup
    overlap_penalty: float = 0.02  # of chi square, for each step to a larger overlap: how much must speak for it

    @abstractmethod
    def work(self, configuration: Configuration) -> float:
        """Records that are finished in the time of one step: rate = work / time."""

    @abstractmethod
    def features(self, configuration: Configuration) -> list[float]:
        """One for each term; the time is their sum with coefficients, as far as they do not overlap."""

    def compute(self, configuration: Configuration) -> float:
        """The feature of the term ``COMPUTE``."""
        return self.features(configuration)[[term.name for term in self.terms].index(COMPUTE)]


def cores(cpu: float) -> float:
    """Of a server; without a limit it counts as one core, whatever it is: the coefficient takes care of that."""
    return cpu or 1.0
