"""Periods: from a stream of samples of a job to stretches of constant configuration, each with its settled rate.

A sample says what the job has at a moment (the nodes that *run*, not those that are desired) and how many records were accepted so
far. ``PeriodBook`` makes ``Period``s of them (``history.py``), which the fits use. Its rules:

- A change of the configuration ends the period. The next one begins when the rate has *settled*: two windows that follow each other
  agree (``SettleRule``), or the maximum time has passed. The caller says by ``ready`` when nodes still start up; that time never
  counts, and neither does time without any record.
- A period whose later half is clearly faster or slower than its earlier half forgets the earlier one: it was not settled yet, or
  the job has changed since. So a period is about the present.
- The standard error is that of batch means: neighbouring samples are added up before their spread is taken, so samples that depend
  on each other (records are accepted by the shard) do not make a rate look more certain than it is.
- Memory is bounded: at most ``MAX_BATCHES`` batches of the open period, whatever its length, and ``MAX_PERIODS`` closed ones, of
  which ``MAX_SAME`` have one configuration. A long stretch is several periods.
- Time that does not advance is ignored, and a count that falls (a dataset that was restored) starts anew: neither yields a rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import Period, StepParts
from pliant.core.state_machine import StateMachine

MAX_BATCHES = 32  # of the open period; a power of two
MAX_PERIODS = 48
MAX_SAME = 3  # periods of one configuration
MAX_PERIOD_S = 300.0
MIN_SAMPLES = 4  # of a period that is worth keeping
# 95 % quantiles of Student's distribution over that of the normal one: few batches know their own spread badly
_STUDENT = (3.84, 1.78, 1.43, 1.30, 1.23, 1.18, 1.15, 1.13, 1.11, 1.10)


@dataclass(frozen=True, slots=True)
class SettleRule:
    window: int = 4  # samples
    tolerance: float = 0.1  # by which two windows may differ, beside twice their standard error
    max_s: float = 120.0  # settled after that, even if windows disagree

    def agree(self, before: Sequence[_Stretch], after: Sequence[_Stretch]) -> bool:
        first, second = _total(before), _total(after)
        if not first.records or not second.records:
            return False
        noise = sqrt(_error(before) ** 2 + _error(after) ** 2)
        return abs(first.rate - second.rate) <= self.tolerance * max(first.rate, second.rate) + min(
            2 * noise, self.tolerance * max(first.rate, second.rate)
        )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Some time, and the records accepted in it."""

    seconds: float
    records: float

    @property
    def rate(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0


class PeriodBook(StateMachine):
    def __init__(self, rule: SettleRule | None = None, *, max_period_s: float = MAX_PERIOD_S) -> None:
        self._rule = rule or SettleRule()
        self._max_period_s = max_period_s
        self._closed: list[Period] = []
        self._configuration: Configuration | None = None
        self._last: tuple[float, float] | None = None  # time, records accepted
        self._begin(0.0)

    # --- reading

    @property
    def settling_since(self) -> float | None:
        """When the configuration changed, if the rate has not settled since."""
        return None if self._is_settled or self._configuration is None else self._settling_since

    def periods(self) -> tuple[Period, ...]:
        """Oldest first; the last one may still go on."""
        current = self._current()
        return (*self._closed, current) if current is not None else tuple(self._closed)

    # --- the operation

    def observe(
        self,
        now: float,
        *,
        configuration: dict[str, Any],
        records: float,
        parts: dict[str, float] | None = None,
        ready: bool = True,
    ) -> None:
        """``records``: accepted since the job began. ``parts``: as ``StepParts``. ``ready``: every node of the configuration
        has trained since it started."""
        if records < 0:
            raise InvalidRequest(f"records accepted cannot be negative: {records}")
        seen = Configuration.from_json(configuration)
        if self._last is not None and now <= self._last[0]:
            return
        if seen != self._configuration or not ready:
            self._close()
            self._configuration, self._last = seen, (now, records)
            self._begin(now)
            return
        assert self._last is not None
        before, self._last = self._last, (now, records)
        if records < before[1]:
            self._close()
            self._begin(now)
            return
        self._add(now, _Stretch(now - before[0], records - before[1]), parts)

    # --- the open period

    def _begin(self, now: float) -> None:
        self._settling_since = now
        self._is_settled = False
        self._windows: list[_Stretch] = []
        self._open(now, [])

    def _open(self, now: float, settled: list[_Stretch]) -> None:
        """Begin to measure with what is settled already."""
        self._batches = settled
        self._batch_size = 1  # samples
        self._filling = _Stretch(0.0, 0.0)  # the batch that is not full yet
        self._fill = 0  # its samples
        self._samples = len(settled)
        self._began = now - sum(stretch.seconds for stretch in settled)
        self._ended = now
        self._parts = [0.0, 0.0, 0.0, 0.0]  # seconds, and those seconds times each share

    def _add(self, now: float, sample: _Stretch, parts: Mapping[str, float] | None) -> None:
        if not self._is_settled:
            self._settle(now, sample)
            return
        if self._ended - self._began >= self._max_period_s:
            self._close()
            self._open(now - sample.seconds, [])
        self._samples += 1
        self._ended = now
        if parts is not None:
            shares = StepParts(**parts)
            for index, value in enumerate((1.0, shares.data, shares.compute, shares.peers)):
                self._parts[index] += value * sample.seconds
        self._filling = _plus(self._filling, sample)
        self._fill += 1
        if self._fill >= self._batch_size:
            self._batches.append(self._filling)
            self._filling, self._fill = _Stretch(0.0, 0.0), 0
            self._forget_what_was_not_settled()
            if len(self._batches) >= MAX_BATCHES:
                self._batches = _paired(self._batches)
                self._batch_size *= 2

    def _settle(self, now: float, sample: _Stretch) -> None:
        size = self._rule.window
        self._windows = [*self._windows, sample][-2 * size :]
        before, after = self._windows[:-size], self._windows[-size:]
        is_late = now - self._settling_since >= self._rule.max_s and _total(after).records > 0
        if (len(before) == size and self._rule.agree(before, after)) or is_late:
            self._is_settled = True
            self._windows = []
            self._open(now, list(after))

    def _forget_what_was_not_settled(self) -> None:
        half = len(self._batches) // 2
        if half < self._rule.window:
            return
        before, after = self._batches[:-half], self._batches[-half:]
        first, second = _total(before), _total(after)
        noise = sqrt(_error(before) ** 2 + _error(after) ** 2)
        if abs(first.rate - second.rate) > max(self._rule.tolerance * max(first.rate, second.rate), 3 * noise):
            self._began += first.seconds
            self._samples -= len(before) * self._batch_size
            self._batches = after

    def _current(self) -> Period | None:
        if not self._is_settled or self._samples < MIN_SAMPLES or self._configuration is None:
            return None
        whole = _plus(_total(self._batches), self._filling)
        if not whole.records:
            return None
        timed = self._parts[0]
        parts = StepParts(*(value / timed for value in self._parts[1:])) if timed else StepParts()
        error = _error(self._batches) or whole.rate / sqrt(whole.records)
        return Period(self._configuration, self._began, self._ended, whole.rate, error, self._samples, parts)

    def _close(self) -> None:
        if (period := self._current()) is None:
            return
        same = [older for older in self._closed if older.configuration == period.configuration]
        outdated = same[: max(0, len(same) - MAX_SAME + 1)]
        kept = [older for older in self._closed if older not in outdated]
        self._closed = [*kept[-MAX_PERIODS + 1 :], period]

    # --- snapshot

    def snapshot(self) -> dict[str, Any]:
        return {
            "closed": [{**asdict(period), "configuration": period.configuration.to_json()} for period in self._closed],
            "configuration": self._configuration.to_json() if self._configuration is not None else None,
            "last": list(self._last) if self._last is not None else None,
            "settling_since": self._settling_since,
            "is_settled": self._is_settled,
            "windows": _to_lists(self._windows),
            "batches": _to_lists(self._batches),
            "batch_size": self._batch_size,
            "filling": [self._filling.seconds, self._filling.records],
            "fill": self._fill,
            "samples": self._samples,
            "began": self._began,
            "ended": self._ended,
            "parts": list(self._parts),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        configuration, last = state["configuration"], state["last"]
        self._closed = [period_from_json(period) for period in state["closed"]]
        self._configuration = Configuration.from_json(configuration) if configuration is not None else None
        self._last = (last[0], last[1]) if last is not None else None
        self._settling_since = state["settling_since"]
        self._is_settled = state["is_settled"]
        self._windows = [_Stretch(*stretch) for stretch in state["windows"]]
        self._batches = [_Stretch(*stretch) for stretch in state["batches"]]
        self._batch_size = state["batch_size"]
        self._filling = _Stretch(*state["filling"])
        self._fill = state["fill"]
        self._samples = state["samples"]
        self._began = state["began"]
        self._ended = state["ended"]
        self._parts = list(state["parts"])


def period_from_json(value: Mapping[str, Any]) -> Period:
    configuration = Configuration.from_json(value["configuration"])
    return Period(**{**value, "configuration": configuration, "parts": StepParts(**value["parts"])})


def _total(stretches: Sequence[_Stretch]) -> _Stretch:
    return _Stretch(sum(s.seconds for s in stretches), sum(s.records for s in stretches))


def _plus(one: _Stretch, other: _Stretch) -> _Stretch:
    return _Stretch(one.seconds + other.seconds, one.records + other.records)


def _paired(stretches: Sequence[_Stretch]) -> list[_Stretch]:
    pairs = [_plus(one, other) for one, other in zip(stretches[::2], stretches[1::2], strict=False)]
    return pairs + ([stretches[-1]] if len(stretches) % 2 else [])


def _error(stretches: Sequence[_Stretch]) -> float:
    """The standard error of their rate, by batch means, meant to be used like one of a normal distribution."""
    batches = list(stretches)
    while (
        len(batches) >= 16
    ):  # about the square root of their number: enough to be independent, enough to have a spread
        batches = _paired(batches)
    count = len(batches)
    if count < 2:
        return 0.0
    mean = _total(batches).rate
    spread = sqrt(sum((batch.rate - mean) ** 2 for batch in batches) / (count - 1) / count)
    return spread * _STUDENT[min(count - 2, len(_STUDENT) - 1)]


def _to_lists(stretches: Sequence[_Stretch]) -> list[list[float]]:
    return [[stretch.seconds, stretch.records] for stretch in stretches]
