"""Evaluation rounds and model versions of native training.

A *version* is a count of committed steps. A round evaluates one version on the evaluation data, as shards of a dataset of
its own. One round is open at a time; versions that become due meanwhile queue, at most ``MAX_WAITING`` of them.

Two kinds of rounds. Where the job's description names the evaluation data, a round opens every ``every_steps`` steps and closes
when its shards are done. Where the training program defined it (``define``), the program chooses the versions to be
evaluated; a round is open until the one worker that *claimed* it has reported the metrics that follow from all shards. A claim
lasts as long as the session that made it, so a round outlives any worker. Each result is noted once, in the order of rounds,
and the best by the monitored metric is known.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pliant.core.errors import Conflict, InvalidRequest
from pliant.core.shards.datasets import DatasetSpec, ShardType
from pliant.core.state_machine import StateMachine

MAX_WAITING = 16
MAX_RESULTS = 100
MAX_REASON_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Round:
    version: int
    dataset: str
    scored: bool = False  # it closes with metrics; else with its shards
    claimed_by: str = ""  # a session


@dataclass(frozen=True, slots=True)
class Result:
    version: int
    metrics: dict[str, float]
    records: int = 0


class TrainingBook(StateMachine):
    def __init__(self, *, eval_dataset: str = "", every_steps: int = 0) -> None:
        self._eval_dataset = eval_dataset
        self._every = every_steps
        self.version = 0
        self.due = -1  # the newest version that was to be evaluated
        self.evaluation: DatasetSpec | None = None  # as the program defined it
        self.monitor = ""  # the metric by which versions are compared; empty: none
        self.largest_is_best = True
        self.open_round: Round | None = None
        self._waiting: deque[int] = deque()
        self.results: dict[int, Result] = {}  # by version, in the order of rounds
        self.best: Result | None = None
        self.stop_reason = ""  # why training is to end early; empty: it is not

    # --- changing

    def define(self, now: float, *, evaluation: dict[str, Any], monitor: str, mode: str) -> bool:
        """Define the evaluation data, from the program; False if it is already defined so."""
        spec = DatasetSpec.from_json(evaluation)
        spec.check()
        if spec.type is not ShardType.EVAL or spec.epochs != 1 or spec.stream:
            raise InvalidRequest(
                f"dataset {spec.name!r} is for evaluation: it must have type eval, one epoch, and not be a stream"
            )
        if mode not in ("max", "min"):
            raise InvalidRequest(f"mode is {mode!r}; allowed: 'max', 'min'")
        known = self.evaluation
        if known is None:
            self.evaluation, self.monitor, self.largest_is_best = spec, monitor, mode == "max"
            return True
        if (known, self.monitor, self.largest_is_best) != (spec, monitor, mode == "max"):
            raise Conflict(f"the evaluation of this job is already defined, differently from {spec.name!r}")
        return False

    def report_version(self, now: float, *, version: int, evaluate: bool = False) -> Round | None:
        """A newer model exists; returns the round that opens because of it, if any."""
        if version < 0:
            raise InvalidRequest(f"invalid version {version}; versions start at 0")
        due = self._every > 0 and self._eval_dataset != "" and version // self._every > self.version // self._every
        if (evaluate and self.evaluation is not None and self.can_queue(version)) or (
            due and self.evaluation is None and len(self._waiting) < MAX_WAITING
        ):
            self._waiting.append(version)
            self.due = version
        self.version = max(self.version, version)
        return self._open_next()

    def claim(self, now: float, *, version: int, session: str) -> bool:
        """A worker is to compute the metrics of the round. The shell calls this only if no live session has claimed it."""
        round = self.open_round
        if round is None or round.version != version or not round.scored:
            return False
        self.open_round = replace(round, claimed_by=session)
        return True

    def close_round(
        self, now: float, *, version: int, metrics: dict[str, float] | None = None, records: int = 0
    ) -> Round | None:
        """All records of the round are done; returns the round that opens next, if any. A round closes once."""
        if self.open_round is None or self.open_round.version != version:
            return None
        self.open_round = None
        if metrics is not None:
            self._note(Result(version, dict(metrics), records))
        return self._open_next()

    def report_metrics(self, now: float, *, version: int, metrics: dict[str, float]) -> None:
        """From a program that evaluates by itself, without rounds."""
        known = self.results.get(version)
        self._note(Result(version, {**(known.metrics if known else {}), **metrics}, known.records if known else 0))

    def stop(self, now: float, *, reason: str) -> bool:
        """End training early; the first reason counts."""
        if self.stop_reason:
            return False
        self.stop_reason = (reason or "stop requested")[:MAX_REASON_CHARS]
        return True

    # --- reading

    def can_queue(self, version: int) -> bool:
        """Whether a request for a round of this version would be queued."""
        return version > self.due and len(self._waiting) < MAX_WAITING

    def waiting(self) -> Sequence[int]:
        return tuple(self._waiting)

    def needed(self) -> set[int]:
        """Versions whose models must be kept: those of open and waiting rounds, and the best."""
        open_version = [self.open_round.version] if self.open_round else []
        return {*open_version, *self._waiting, *([self.best.version] if self.best else [])}

    def datasets_of_rounds(self) -> frozenset[str]:
        """Where rounds are made from a dataset of the job's description: that dataset, and the one of the open round."""
        if not self._every or not self._eval_dataset:
            return frozenset()
        opened = self.open_round
        return frozenset({self._eval_dataset, *([opened.dataset] if opened is not None and not opened.scored else [])})

    # --- inside

    def _note(self, result: Result) -> None:
        self.results[result.version] = result
        while len(self.results) > MAX_RESULTS:
            del self.results[next(iter(self.results))]
        value = result.metrics.get(self.monitor, math.nan)
        if self.monitor and not math.isnan(value):
            best = self.best.metrics[self.monitor] if self.best else math.nan
            if math.isnan(best) or (value > best if self.largest_is_best else value < best):
                self.best = result

    def _open_next(self) -> Round | None:
        if self.open_round is not None or not self._waiting:
            return None
        version = self._waiting.popleft()
        scored = self.evaluation is not None
        name = self.evaluation.name if self.evaluation is not None else self._eval_dataset
        self.open_round = Round(version, f"{name}@{version}", scored)
        return self.open_round

    def snapshot(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "due": self.due,
            "evaluation": self.evaluation.to_json() if self.evaluation else None,
            "monitor": [self.monitor, self.largest_is_best],
            "open_round": asdict(self.open_round) if self.open_round else None,
            "waiting": list(self._waiting),
            "results": [asdict(result) for result in self.results.values()],
            "best": asdict(self.best) if self.best else None,
            "stop_reason": self.stop_reason,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.version, self.due = state["version"], state["due"]
        self.evaluation = DatasetSpec.from_json(state["evaluation"]) if state["evaluation"] else None
        self.monitor, self.largest_is_best = state["monitor"]
        self.open_round = Round(**state["open_round"]) if state["open_round"] else None
        self._waiting = deque(state["waiting"])
        self.results = {result["version"]: Result(**result) for result in state["results"]}
        self.best = Result(**state["best"]) if state["best"] else None
        self.stop_reason = state["stop_reason"]
