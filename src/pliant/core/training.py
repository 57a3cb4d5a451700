"""Evaluation rounds and model versions of native training.

A round evaluates one model version on the evaluation data, as shards of a dataset of its own. One round is open at a
time; versions that become due meanwhile queue, and of those that wait only as many are kept as ``MOST_WAITING``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

MOST_WAITING = 16
KEPT_RESULTS = 100


@dataclass(frozen=True, slots=True)
class Round:
    version: int
    dataset: str


class TrainingBook:
    def __init__(self, *, eval_dataset: str = "", every_steps: int = 0) -> None:
        self._eval_dataset = eval_dataset
        self._every = every_steps
        self.version = 0
        self.open_round: Round | None = None
        self._waiting: deque[int] = deque()
        self.results: dict[int, dict[str, float]] = {}  # version -> metrics

    def report_version(self, now: float, *, version: int) -> Round | None:
        """A newer model is there; gives the round that opens because of it, if any."""
        if version <= self.version:
            return None
        due = self._every > 0 and version // self._every > self.version // self._every
        self.version = version
        if due and self._eval_dataset and len(self._waiting) < MOST_WAITING:
            self._waiting.append(version)
        return self._open_next()

    def close_round(self, now: float, *, version: int) -> Round | None:
        """All records of the round are done; gives the round that opens next, if any."""
        if self.open_round is None or self.open_round.version != version:
            return None
        self.open_round = None
        return self._open_next()

    def report_metrics(self, now: float, *, version: int, metrics: dict[str, float]) -> None:
        self.results[version] = {**self.results.get(version, {}), **metrics}
        while len(self.results) > KEPT_RESULTS:
            del self.results[min(self.results)]

    def _open_next(self) -> Round | None:
        if self.open_round is not None or not self._waiting:
            return None
        version = self._waiting.popleft()
        self.open_round = Round(version, f"{self._eval_dataset}@{version}")
        return self.open_round

    def snapshot(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "open_round": [self.open_round.version, self.open_round.dataset] if self.open_round else None,
            "waiting": list(self._waiting),
            "results": [[version, metrics] for version, metrics in self.results.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.version = state["version"]
        self.open_round = Round(*state["open_round"]) if state["open_round"] else None
        self._waiting = deque(state["waiting"])
        self.results = {version: dict(metrics) for version, metrics in state["results"]}
