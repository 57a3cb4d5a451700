"""The best configuration by a fitted model: enumerate, keep the Pareto front of rate and cost, choose by the objective.

It acts on what is known: only if the lower bound of what is gained, over what remains of the job, exceeds the cost of the
change. What is not known yet is found out by ``probe``. A deadline takes the cheapest that meets it with its lower bound (else
the fastest), a budget the best that it pays for (else the one that needs least).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pliant.core.planning.candidates import candidates, server_memory_mb
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.fits import Fit, fit_history
from pliant.core.planning.history import JobHistory, Objective, Period
from pliant.core.planning.objectives import MIN_GAIN, change_s, current_period, difference, pays, remaining_s, score
from pliant.core.planning.proposal import Proposal

DEADLINE_MARGIN = 1.05  # a cheaper one must meet the deadline with that much to spare


@dataclass(frozen=True, slots=True)
class Option:
    configuration: Configuration
    rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PlanJob:
    name: str = "plan_job"
    seed: int = 0

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        current = current_period(history)
        if current is None:
            return None
        fit = fit_history(history, seed=self.seed)
        options = _options(fit, candidates(history)) if fit is not None else []
        if fit is None or not options:
            return None
        if history.deadline is not None and history.objective is not Objective.FASTEST:
            return self._for_deadline(history, now, current, fit, options, history.deadline)
        best = choose(history, now, options)
        if (saving := self._for_budget(history, now, current, fit, best)) is not None:
            return saving
        gain = score(history.objective, best.low, best.configuration) - score(
            history.objective, current.rate, history.configuration
        )
        if not pays(history, best.configuration, gain, remaining_s(history, current.rate, now)):
            return None
        return self._proposal(history, now, current, fit, best)

    def _for_budget(self, history: JobHistory, now: float, current: Period, fit: Fit, best: Option) -> Proposal | None:
        """If the job as it is would use more than what is left: what uses less, although it may be slower."""
        budget = history.budget_node_s
        needed = history.configuration.nodes * remaining_s(history, current.rate, now)
        if budget is None or needed <= budget:
            return None
        if best.configuration.nodes * remaining_s(history, best.low, now) > (1 - MIN_GAIN) * needed:
            return None
        return self._proposal(history, now, current, fit, best, " to keep to the budget")

    def _for_deadline(
        self, history: JobHistory, now: float, current: Period, fit: Fit, options: Sequence[Option], deadline: float
    ) -> Proposal | None:
        if history.remaining_records is None:
            return None
        needed = history.remaining_records / max(deadline - now, 1.0)
        if current.rate < needed:
            in_time = [option for option in options if option.low >= needed]
            best = min(in_time, key=_cost_of) if in_time else max(options, key=lambda option: option.low)
            gain = best.low / current.rate - 1.0
            if gain < MIN_GAIN:
                return None
            late = "" if in_time else ", although the deadline may still be missed"
            return self._proposal(history, now, current, fit, best, f" to meet the deadline{late}")
        spared = [option for option in options if option.low >= DEADLINE_MARGIN * needed]
        cheaper = [o for o in spared if o.configuration.cpu <= (1 - MIN_GAIN) * history.configuration.cpu]
        if not cheaper:
            return None
        cheapest = min(cheaper, key=_cost_of)
        return self._proposal(history, now, current, fit, cheapest, " is enough to meet the deadline")

    def _proposal(
        self, history: JobHistory, now: float, current: Period, fit: Fit, best: Option, because: str = ""
    ) -> Proposal:
        new = best.configuration
        prediction = replace(
            fit.predict(new),
            memory_mb=server_memory_mb(history, new.server.replicas) if new.server is not None else 0.0,
            node_seconds=new.nodes * remaining_s(history, best.rate, now),
            change_s=change_s(history, new),
        )
        ratio = best.rate / current.rate
        cost = new.cpu / history.configuration.cpu
        effect = f"{ratio:.2g} times as fast" if ratio >= 1.02 or cost >= 1 else f"{1 - cost:.0%} cheaper"
        speed = f"{best.rate:.4g} instead of {current.rate:.4g} records per second"
        reason = f"{difference(history.configuration, new)}{because}: expected to be {effect} ({speed})"
        return Proposal(self.name, reason, new, prediction)


def _cost_of(option: Option) -> tuple[float, float]:
    return (option.configuration.cpu, -option.rate)


def _options(fit: Fit, configurations: Sequence[Configuration]) -> list[Option]:
    if not configurations:
        return []
    rates = fit.predict_all(configurations)
    return [
        Option(configuration, float(rate), float(low), float(high))
        for configuration, rate, low, high in zip(configurations, rates.rate, rates.low, rates.high, strict=True)
    ]


def pareto_front(options: Sequence[Option]) -> list[Option]:
    """Those that no other one beats in both lower bound of the rate and cost; cheapest first."""
    front: list[Option] = []
    for option in sorted(options, key=lambda o: (o.configuration.cpu, -o.low)):
        if not front or option.low > front[-1].low:
            front.append(option)
    return front


def choose(history: JobHistory, now: float, options: Sequence[Option]) -> Option:
    front = pareto_front(options)
    if history.budget_node_s is not None:
        paid = [o for o in front if o.configuration.nodes * remaining_s(history, o.low, now) <= history.budget_node_s]
        if not paid:
            return min(front, key=lambda option: option.configuration.nodes / max(option.low, 1e-9))
        front = paid
    return max(front, key=lambda option: score(history.objective, option.low, option.configuration))
