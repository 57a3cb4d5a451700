"""Training and evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind


@dataclass(frozen=True, kw_only=True)
class EvaluationDone(Event, kind=EventKind.EVALUATION):
    version: int
    metrics: Mapping[str, float]
    records: int  # 0: the program evaluated by itself and did not say

    def _sentence(self) -> str:
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in sorted(self.metrics.items()))
        return f"version {self.version}: {metrics}" + (f" ({self.records:,} records)" if self.records else "")


@dataclass(frozen=True, kw_only=True)
class EvaluationStarted(Event, kind=EventKind.EVALUATION_STARTED):
    version: int
    dataset: str

    def _sentence(self) -> str:
        return f"evaluating version {self.version} on dataset {self.dataset}"


@dataclass(frozen=True, kw_only=True)
class EvaluationFailed(Event, kind=EventKind.EVALUATION_FAILED):
    version: int
    reason: str

    def _sentence(self) -> str:
        return f"gave up on the evaluation of version {self.version}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class BestVersionFound(Event, kind=EventKind.BEST_VERSION):
    version: int
    monitor: str
    value: float

    def _sentence(self) -> str:
        return f"version {self.version} is the best so far: {self.monitor} {self.value:.6g}"


@dataclass(frozen=True, kw_only=True)
class TrainingStopped(Event, kind=EventKind.TRAINING_STOPPED):
    reason: str

    def _sentence(self) -> str:
        return f"training stopped early: {self.reason}"
