"""Why a job has what it has: where its time goes, what limits it, the fitted curve, and what the planner would do next.

Plain values (``explanation.py``) for the command line and the page; nothing here decides anything.
"""

from __future__ import annotations

from dataclasses import replace

from pliant.core.planning.candidates import is_possible, useful_workers
from pliant.core.planning.explanation import CurvePoint, Explanation
from pliant.core.planning.fits import Fit, fit_history
from pliant.core.planning.history import JobHistory, StepParts
from pliant.core.planning.objectives import current_period, is_alike
from pliant.core.planning.planner import Planner, Verdict
from pliant.core.planning.planner_status import planner_status

MAX_POINTS = 24
_PARTS = {"data": "waiting for data", "compute": "computing", "peers": "waiting for peers or servers"}


def explain(planner: Planner, history: JobHistory, now: float) -> Explanation:
    period = current_period(history)
    fit = fit_history(history)
    parts = period.parts if period is not None else StepParts()
    shares = {text: value for name, text in _PARTS.items() if (value := getattr(parts, name)) > 0}
    terms = fit.shares(history.configuration) if fit is not None else {}
    found = planner.verdict(history, now)
    return Explanation(
        planner.state,
        period.rate if period is not None else None,
        shares,
        terms,
        max(shares or terms, key=lambda name: (shares or terms)[name], default=""),
        _curve(fit, history) if fit is not None else (),
        fit.identified(history.configuration) if fit is not None else {},
        found.proposal,
        _not_yet(planner, history, found, now),
        history.configuration,
    )


def _not_yet(planner: Planner, history: JobHistory, found: Verdict, now: float) -> str:
    why = waits_for(planner, history, now) or found.blocked or ("" if found.proposal is not None else _nothing(history))
    return "; ".join(filter(None, (why, *(f"{each.name} failed: {each.failure}" for each in planner.failing))))


def waits_for(planner: Planner, history: JobHistory, now: float) -> str:
    """Why the planner makes no plan now, whatever the algorithms say; empty: it would."""
    return planner_status(planner).waits_for(now)


def _nothing(history: JobHistory) -> str:
    if history.settling_since is not None:
        return "the rate has not settled since the last change"
    if current_period(history) is None:
        return "nothing has been measured yet of the present configuration"
    worker, room = history.configuration.worker, history.room
    larger = replace(
        history.configuration, worker=replace(worker, replicas=worker.replicas + history.bounds.worker.unit)
    )
    if room is not None and history.bounds.allows(larger) and not is_possible(history, larger):
        return f"one more worker does not fit: {room.free_cpu:.3g} CPU and {room.free_memory_mb:.0f} MB available"
    return "no change is expected to gain enough to pay for itself"


def _curve(fit: Fit, history: JobHistory) -> tuple[CurvePoint, ...]:
    now, bounds = history.configuration, history.bounds.worker
    tried = [period.configuration.worker.replicas for period in history.periods]
    high = max(1, min(useful_workers(history, bounds), 2 * max([now.worker.replicas, *tried])))
    counts = sorted({max(1, round(high * i / MAX_POINTS)) for i in range(1, MAX_POINTS + 1)} | set(tried))
    configurations = [replace(now, worker=replace(now.worker, replicas=count)) for count in counts if count]
    rates = fit.predict_all(configurations)
    points = []
    for i, configuration in enumerate(configurations):
        measured = [p.rate for p in history.periods if is_alike(p.configuration, configuration)]
        points.append(
            CurvePoint(
                configuration.worker.replicas,
                float(rates.rate[i]),
                float(rates.low[i]),
                float(rates.high[i]),
                measured[-1] if measured else None,
            )
        )
    return tuple(points)
