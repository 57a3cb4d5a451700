"""What a model of speed knows about a kind of job: which features of a configuration the time of a step is made of.

``ps.py``, ``allreduce.py`` and ``queue.py`` are the models; ``smooth_max.py`` finds the coefficients, ``fit.py`` predicts by them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pliant.core.planning.configuration import Configuration


@dataclass(frozen=True, slots=True)
class Term:
    name: str  # for people: where the time goes
    is_shared: bool  # with other workers: it does not get less by more of them
    penalty: float = 0.0  # the larger, the later the time is put down to it where the data do not decide: optimism


COMPUTE = "compute of workers"  # the name of that term in every model: it is measured by itself, too


class SpeedModel(ABC):
    terms: tuple[Term, ...]

    @abstractmethod
    def work(self, configuration: Configuration) -> float:
        """Records that are finished in the time of one step: rate = work / time."""

    @abstractmethod
    def features(self, configuration: Configuration) -> list[float]:
        """One for each term; the time is their sum with coefficients, as far as they do not overlap."""


def cores(cpu: float) -> float:
    """Of a node; without a limit it counts as one core, whatever it is: the coefficient takes care of that."""
    return cpu or 1.0
